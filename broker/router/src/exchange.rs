//! The state that all shards share.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tautwire_message::{Body, Message, MessageRef, Spilled};

use crate::interest::{Interest, InterestChange};
use crate::owners::{RetainedClaim, RetainedOwner};
use crate::placement::Placement;
use crate::random::random;
use crate::retained::{Expiry, RetainError, RetainedLimits, RetainedStore};
use crate::scan::{Progress, RetainedListing, Scan, SpillScan};
use crate::session_key::SessionKey;
use crate::share::{GroupCoordinator, GroupMember, ShareGroup};
use crate::shares::Shares;
use crate::{ShardIndex, ShardSet};

/// Nodes of the retained tree visited per lock acquisition, so that a search among millions does not delay publishers.
const SEARCH_STEPS: u64 = 128;

/// The generation and number of a change of the retained messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedRevision {
    /// The generation with which the message must be routed.
    pub generation: u64,
    /// The sequence number among all changes of retained messages.
    pub sequence: u64,
}

/// The destinations of messages of one topic, besides the subscriptions of the publishing shard.
#[derive(Debug, Default)]
pub struct Routes {
    /// Shards with a matching subscription. Only used with more than one shard.
    pub shards: ShardSet,
    /// The shards among them on which a persistent session has one.
    pub persistent: ShardSet,
    /// The matching shared subscriptions.
    pub shares: Vec<Arc<ShareGroup>>,
}

/// The state that is common to all shards. A message whose topic is in its shard's cache takes no lock, except to replace a retained
/// message.
pub struct Exchange {
    placement: Placement,
    generation: AtomicU64,
    state: RwLock<SharedState>,
    shares: RwLock<Shares>,
    /// The number of groups in `shares`.
    share_count: AtomicUsize,
    retained_held_bytes: AtomicU64,
    retained_message_bytes: AtomicU64,
    retained_loaded_bytes: AtomicU64,
    retained_spilling_bytes: AtomicU64,
}

/// Interest and retained messages change under one lock, so that a subscription and a retained publish are ordered: the subscriber gets the
/// message either by its scan or live, never both.
#[derive(Debug)]
struct SharedState {
    interest: Interest,
    retained: RetainedStore,
}

impl Exchange {
    /// Creates an exchange for `shards` shards, 1 to [`crate::SHARDS_MAX`].
    pub fn new(shards: usize, limits: RetainedLimits) -> Exchange {
        Exchange::with_placement(Placement::new(shards, random()), limits)
    }

    /// Changes the limits for new retained messages. Existing ones stay.
    pub fn set_retained_limits(&self, limits: RetainedLimits) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).retained.set_limits(limits);
    }

    /// Creates an exchange for shards with this placement of clients.
    pub fn with_placement(placement: Placement, limits: RetainedLimits) -> Exchange {
        Exchange {
            placement,
            generation: AtomicU64::new(0),
            state: RwLock::new(SharedState { interest: Interest::default(), retained: RetainedStore::new(limits) }),
            shares: RwLock::default(),
            share_count: AtomicUsize::new(0),
            retained_held_bytes: AtomicU64::new(0),
            retained_message_bytes: AtomicU64::new(0),
            retained_loaded_bytes: AtomicU64::new(0),
            retained_spilling_bytes: AtomicU64::new(0),
        }
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.placement.shards()
    }

    /// Returns the placement of clients on shards.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Returns the shard that owns the session of `client_id`.
    pub fn owner(&self, client_id: &str) -> ShardIndex {
        self.placement.owner(client_id)
    }

    /// Returns the generation, which changes whenever the result of [`Exchange::routes`] may have changed, and with [`Exchange::advance`].
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Invalidates caches after a change of other data that they hold besides the routes. Call it after the change: a reader that sees the
    /// new generation sees the change too. Returns the new generation.
    pub fn advance(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Determines the destinations of messages of `topic`.
    pub fn routes(&self, topic: &str, routes: &mut Routes) {
        (routes.shards, routes.persistent) = (ShardSet::default(), ShardSet::default());
        routes.shares.clear();
        if self.shards() > 1 {
            (routes.shards, routes.persistent) = self.read().interest.shards_for(topic);
        }
        if self.share_count.load(Ordering::Acquire) > 0 {
            self.read_shares().groups_for(topic, &mut routes.shares);
        }
    }

    // Subscriptions.

    /// Adds a subscription of a session on `shard` to `filter`; `change` is the change of the shard's interest.
    ///
    /// Returns the generation of the subscription and, if `wanted`, a scan of the matching retained messages, or `None` if nothing can
    /// match. The scan visits nothing before [`Exchange::next_retained`] is called.
    ///
    /// Generation and scan are of the same moment: each message published with RETAIN is either in the scan or has a generation not below
    /// the one returned, never both.
    pub fn subscribe(
        &self,
        shard: ShardIndex,
        filter: &str,
        change: InterestChange,
        wanted: bool,
    ) -> (u64, Option<Scan>) {
        if self.shards() == 1 && !wanted {
            return (self.generation(), None);
        }
        if change.is_any() && self.shards() > 1 {
            let mut state = self.write();
            state.interest.enter(filter, shard, change);
            let scan = if wanted { state.retained.scan(filter) } else { None };
            return (self.advance(), scan);
        }
        // No message can be retained while this lock is held, so both are of the same moment.
        let state = self.read();
        let scan = if wanted { state.retained.scan(filter) } else { None };
        (if self.shards() > 1 { self.advance() } else { self.generation() }, scan)
    }

    /// Removes a subscription of a session on `shard` to `filter`; `change` is the change of the shard's interest.
    #[inline(always)]
    pub fn unsubscribe(&self, shard: ShardIndex, filter: &str, change: InterestChange) {
        if change.is_any() && self.shards() > 1 {
            self.remove_interest(shard, filter, change);
        }
    }

    #[inline(never)]
    fn remove_interest(&self, shard: ShardIndex, filter: &str, change: InterestChange) {
        let mut state = self.write();
        state.interest.leave(filter, shard, change);
        self.advance();
    }

    // Shared subscriptions.

    /// Adds a session to a shared subscription or changes its membership. `filter` is the whole filter, `$share/group/filter`; `matched` is
    /// the part that is matched against topics.
    pub fn join(&self, filter: &str, matched: &str, member: GroupMember) {
        self.with_group(filter, matched, |group| group.join(member));
    }

    /// Removes a session from a shared subscription.
    pub fn leave(&self, filter: &str, session: SessionKey) {
        let is_last = self.read_shares().find(filter).is_some_and(|group| group.leave(session));
        if is_last {
            self.remove_if_empty(filter);
        }
    }

    /// Sets the coordinator of a shared subscription that this node delivers for the cluster, or removes it with `None`. The group exists
    /// as long as it has a coordinator, with or without members. `filter` and `matched`: see [`Exchange::join`].
    pub fn set_coordinator(&self, filter: &str, matched: &str, home: Option<GroupCoordinator>) {
        if home.is_some() {
            self.with_group(filter, matched, |group| group.set_coordinator(home));
        } else if let Some(group) = self.group(filter) {
            group.set_coordinator(None);
            self.remove_if_empty(filter);
        }
    }

    /// Finds the shared subscriptions that match a topic.
    pub fn groups_for(&self, topic: &str, groups: &mut Vec<Arc<ShareGroup>>) {
        self.read_shares().groups_for(topic, groups);
    }

    fn with_group(&self, filter: &str, matched: &str, act: impl FnOnce(&ShareGroup)) {
        if let Some(group) = self.read_shares().find(filter) {
            return act(group);
        }
        let mut shares = self.shares.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = shares.find(filter) {
            return act(group);
        }
        let group = ShareGroup::new(filter);
        act(&group);
        shares.add(group, matched);
        self.share_count.fetch_add(1, Ordering::AcqRel);
        self.advance();
    }

    /// Removes a shared subscription without members and without pending messages.
    pub fn remove_if_empty(&self, filter: &str) {
        let mut shares = self.shares.write().unwrap_or_else(PoisonError::into_inner);
        // A session may have joined since.
        if shares.find(filter).is_some_and(|group| group.is_empty()) {
            shares.remove(filter);
            self.share_count.fetch_sub(1, Ordering::AcqRel);
            self.advance();
        }
    }

    /// Returns the group of a shared subscription, by its whole filter.
    pub fn group(&self, filter: &str) -> Option<Arc<ShareGroup>> {
        self.read_shares().find(filter).cloned()
    }

    /// Returns the number of shared subscriptions with a member.
    pub fn shares(&self) -> usize {
        self.share_count.load(Ordering::Relaxed)
    }

    // Retained messages.

    /// Replaces the retained message of the topic [MQTT-3.3.1-5], or removes it if the payload is empty [MQTT-3.3.1-6]. `keep` returns the
    /// message as one allocation.
    ///
    /// # Errors
    /// The message would exceed a limit; the retained message is unchanged.
    pub fn retain(
        &self,
        message: &MessageRef<'_>,
        keep: impl FnOnce() -> Message,
    ) -> Result<RetainedRevision, RetainError> {
        self.retain_for(None, message, keep)
    }

    /// Like [`Exchange::retain`], for a message with an owner, until another owner replaces it. A message without an owner counts against
    /// no quota.
    ///
    /// # Errors
    /// The message would exceed a limit or the quota; the retained message is unchanged.
    pub fn retain_for(
        &self,
        claim: Option<&RetainedClaim>,
        message: &MessageRef<'_>,
        keep: impl FnOnce() -> Message,
    ) -> Result<RetainedRevision, RetainError> {
        // Slow work for large messages is done before the lock is taken and after it is released.
        let new = (!message.payload.is_empty()).then(keep);
        let expiry = Expiry::of(message);
        let mut state = self.write();
        let replaced = match new {
            Some(new) => state.retained.set(new, expiry, claim)?,
            None => state.retained.clear(message.topic),
        };
        let retention = RetainedRevision { generation: self.generation(), sequence: state.retained.sequence() };
        self.release(state);
        drop(replaced);
        Ok(retention)
    }

    /// Checks whether one more retained message of this size stays within the common limits.
    ///
    /// # Errors
    /// It does not.
    pub fn check_retained(&self, topic: &str, allocated_bytes: usize) -> Result<(), RetainError> {
        self.read().retained.check(topic, allocated_bytes)
    }

    /// Checks whether [`Exchange::retain_for`] would accept a message of this size now.
    ///
    /// # Errors
    /// It would not.
    pub fn check_retained_for(
        &self,
        claim: Option<&RetainedClaim>,
        topic: &str,
        allocated_bytes: usize,
    ) -> Result<(), RetainError> {
        self.read().retained.check_for(claim, topic, allocated_bytes)
    }

    /// Retains `message` regardless of the limits, because another broker has accepted it. Returns the generation with which it may be
    /// routed: later subscriptions find it by their scan.
    pub fn mirror_retained(&self, message: Message) -> u64 {
        let expiry = Expiry::of(&message.as_ref());
        let mut state = self.write();
        let replaced = state.retained.set_beyond_limits(message, expiry);
        let generation = self.generation();
        self.release(state);
        drop(replaced);
        generation
    }

    /// Updates the expiry of a retained message, if it is still this message.
    pub fn update_retained_expiry(&self, message: Message) {
        let expiry = Expiry::of(&message.as_ref());
        let mut state = self.write();
        let replaced = state.retained.update_expiry(message, expiry);
        self.release(state);
        drop(replaced);
    }

    /// Removes the retained message of a topic. Returns the generation after the removal.
    pub fn clear_retained(&self, topic: &str) -> u64 {
        let mut state = self.write();
        let cleared = state.retained.clear(topic);
        let generation = self.generation();
        self.release(state);
        drop(cleared);
        generation
    }

    /// Returns the owner of the messages that client `client_id` retains.
    pub fn retained_owner(&self, client_id: &str) -> RetainedOwner {
        RetainedOwner::from_hash(self.placement.hash(client_id))
    }

    /// Like [`Exchange::retain`], for a message of an earlier run of the broker, which may be spilled.
    ///
    /// # Errors
    /// The message would exceed a limit.
    pub fn restore_retained(&self, topic: &str, body: Body) -> Result<(), RetainError> {
        let expiry = Expiry::of_body(topic, &body);
        let mut state = self.write();
        let replaced = state.retained.set_body(topic, body, expiry, None)?;
        self.release(state);
        drop(replaced);
        Ok(())
    }

    /// Continues a walk through all retained messages. Adds those in memory with at least `min_bytes` to `found`, up to about `most_bytes`.
    /// Subtracts the steps used from `steps`, and holds the lock for a few steps at a time.
    pub fn loaded_retained(
        &self,
        walk: &mut SpillScan,
        steps: &mut u64,
        min_bytes: usize,
        most_bytes: usize,
        found: &mut Vec<Message>,
    ) {
        let mut left_bytes = most_bytes;
        while *steps > 0 && left_bytes > 0 {
            let portion = SEARCH_STEPS.min(*steps);
            let (mut left, before) = (portion, found.len());
            self.read().retained.find_loaded(walk, &mut left, min_bytes, left_bytes, found);
            *steps -= portion - left;
            let bytes: usize = found[before..].iter().map(Message::allocated_bytes).sum();
            left_bytes = left_bytes.saturating_sub(bytes);
            if !walk.is_running() {
                return;
            }
        }
    }

    /// Replaces these retained messages by their spilled forms, unless they have changed meanwhile.
    pub fn spill_retained(&self, messages: Vec<(Message, Spilled)>) {
        for few in messages.chunks(SEARCH_STEPS as usize) {
            let mut state = self.write();
            let replaced: Vec<_> =
                few.iter().filter_map(|(message, spilled)| state.retained.spill(message, spilled.clone())).collect();
            self.release(state);
            drop(replaced);
        }
    }

    /// Continues the sequence numbers of retained messages after `last`, the last one of an earlier run. Call it after the messages of that
    /// run were [retained](Exchange::retain).
    pub fn resume_sequence_after(&self, last: u64) {
        self.write().retained.resume_sequence_after(last);
    }

    /// Continues a scan until it finds a message, `steps` is used up, or the scan ends. Subtracts the steps used from `steps`. A step is
    /// one node of the topic tree, or a part of one with a long name, so `steps` alone bounds the work; the lock is a shared one and held
    /// for a few steps at a time.
    pub fn next_retained(&self, scan: &mut Scan, steps: &mut u64) -> Progress {
        loop {
            if let Some(message) = scan.found.pop_front() {
                return Progress::Found(message);
            }
            if scan.cursor.is_finished() {
                return Progress::Ended;
            }
            if *steps == 0 {
                return Progress::Paused;
            }
            let portion = SEARCH_STEPS.min(*steps);
            let mut left = portion;
            self.read().retained.search(scan, &mut left);
            *steps -= portion - left;
        }
    }

    /// Starts a listing of the messages that match `filter`, or of all, including those below `$SYS`. Visits none of them yet; returns
    /// `None` if there can be none.
    pub fn list_retained(&self, filter: Option<&str>) -> Option<RetainedListing> {
        self.read().retained.list(filter)
    }

    /// Continues a listing until `visit` breaks, `steps` is used up, or the listing ends. Subtracts the steps used, and holds the lock for
    /// a few steps at a time; `visit` is called with the lock held, so it must be short.
    pub fn continue_listing(
        &self,
        look: &mut RetainedListing,
        steps: &mut u64,
        mut visit: impl FnMut(&str, &Body) -> ControlFlow<()>,
    ) {
        while *steps > 0 && !look.is_done() {
            let portion = SEARCH_STEPS.min(*steps);
            let mut left = portion;
            let flow = self.read().retained.continue_listing(look, &mut left, &mut visit);
            *steps -= portion - left;
            if flow.is_break() {
                return;
            }
        }
    }

    /// Returns the retained message of `topic`.
    pub fn retained_message(&self, topic: &str) -> Option<Body> {
        self.read().retained.get(topic).cloned()
    }

    /// Removes up to `most` expired retained messages [MQTT-3.3.2-5]. Returns their number.
    pub fn drop_expired_retained(&self, now_ms: u64, most: usize) -> usize {
        if !self.read().retained.needs_cleanup(now_ms) {
            return 0;
        }
        let mut state = self.write();
        let dropped = state.retained.remove_expired(now_ms, most);
        self.release(state);
        dropped.len()
    }

    /// Returns the bytes of retained messages that are in memory.
    #[inline]
    pub fn retained_loaded_bytes(&self) -> u64 {
        self.retained_loaded_bytes.load(Ordering::Relaxed)
    }

    /// Like [`Exchange::retained_loaded_bytes`], without messages that shards are spilling.
    #[inline]
    pub fn retained_resident_bytes(&self) -> u64 {
        self.retained_loaded_bytes().saturating_sub(self.retained_spilling_bytes.load(Ordering::Relaxed))
    }

    /// Records that a shard is spilling a retained message of this size, so that no walk has to find it.
    #[inline]
    pub fn begin_spill(&self, bytes: usize) {
        self.retained_spilling_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Records that the shard has spilled the message, or has given up.
    #[inline]
    pub fn end_spill(&self, bytes: usize) {
        self.retained_spilling_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the number of retained messages, and the bytes of those that count against the limit.
    pub fn retained(&self) -> (usize, usize) {
        self.read().retained.len_and_bytes()
    }

    /// Returns the approximate memory of the retained messages in bytes, including their nodes in the tree. Takes no lock. When it falls
    /// far below its peak, the allocator has much memory to return.
    pub fn retained_held_bytes(&self) -> u64 {
        self.retained_held_bytes.load(Ordering::Relaxed)
    }

    /// Returns the memory of the retained messages alone in bytes, which the memory ledger counts as messages and as records of spilled
    /// messages.
    #[inline]
    pub fn retained_message_bytes(&self) -> u64 {
        self.retained_message_bytes.load(Ordering::Relaxed)
    }

    // Locks. A poisoned lock is harmless, because every change is a single call.

    fn read(&self) -> RwLockReadGuard<'_, SharedState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SharedState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the lock after a change of the retained messages.
    fn release(&self, state: RwLockWriteGuard<'_, SharedState>) {
        self.retained_held_bytes.store(state.retained.held_bytes() as u64, Ordering::Relaxed);
        self.retained_message_bytes.store(state.retained.allocated_bytes() as u64, Ordering::Relaxed);
        self.retained_loaded_bytes.store(state.retained.loaded_bytes() as u64, Ordering::Relaxed);
    }

    fn read_shares(&self) -> RwLockReadGuard<'_, Shares> {
        self.shares.read().unwrap_or_else(PoisonError::into_inner)
    }
}
