//! What all shards must agree on.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tautwire_message::{Body, Message, MessageRef, Spilled};

use crate::interest::{Interest, InterestChange};
use crate::owners::{RetainedClaim, RetainedOwner};
use crate::placement::Placement;
use crate::random::random;
use crate::retained::{Expiry, RetainError, RetainedLimits, RetainedStore};
use crate::scan::{Progress, Scan, SpillScan};
use crate::share::{GroupCoordinator, Member, SessionKey, ShareGroup};
use crate::shares::Shares;
use crate::{ShardIndex, ShardSet};

/// Places of the retained tree looked at while the lock is held, so that a search among millions does not hold up those who
/// publish.
pub(crate) const SEARCH_STEPS: u64 = 128;

/// What is to be known of a change of the retained messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedRevision {
    /// The generation with which the message must be routed.
    pub generation: u64,
    /// The number of the change among all changes of retained messages.
    pub sequence: u64,
}

/// Where messages of one topic go besides the subscriptions of the publishing shard.
#[derive(Debug, Default)]
pub struct Routes {
    /// Shards with a matching subscription. Kept only where there is more than one shard.
    pub shards: ShardSet,
    /// Those of them where a session has it that is written down.
    pub persistent: ShardSet,
    /// Matching shared subscriptions.
    pub shares: Vec<Arc<ShareGroup>>,
}

/// The state that is common to all shards, behind locks that no message takes whose topic is in its shard's cache, except to
/// replace a retained message.
pub struct Exchange {
    placement: Placement,
    generation: AtomicU64,
    state: RwLock<SharedState>,
    shares: RwLock<Shares>,
    /// Groups in there.
    share_count: AtomicUsize,
    retained_held_bytes: AtomicU64,
    retained_kept_bytes: AtomicU64,
    retained_hot_bytes: AtomicU64,
    retained_spilling_bytes: AtomicU64,
}

/// Interest and retained messages change under one lock, so that of a subscription and a retained publish one comes first:
/// the subscriber gets the message either by its scan or live, never both.
#[derive(Debug)]
pub(crate) struct SharedState {
    interest: Interest,
    pub(crate) retained: RetainedStore,
}

impl Exchange {
    /// An exchange for `shards` shards, 1 to [`crate::SHARDS_MAX`].
    pub fn new(shards: usize, limits: RetainedLimits) -> Exchange {
        Exchange::with_placement(Placement::new(shards, random()), limits)
    }

    /// From now on no more than this is retained anew. What is there stays.
    pub fn set_retained_limits(&self, limits: RetainedLimits) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).retained.set_limits(limits);
    }

    /// An exchange between shards whose clients are placed like this.
    pub fn with_placement(placement: Placement, limits: RetainedLimits) -> Exchange {
        Exchange {
            placement,
            generation: AtomicU64::new(0),
            state: RwLock::new(SharedState { interest: Interest::default(), retained: RetainedStore::new(limits) }),
            shares: RwLock::default(),
            share_count: AtomicUsize::new(0),
            retained_held_bytes: AtomicU64::new(0),
            retained_kept_bytes: AtomicU64::new(0),
            retained_hot_bytes: AtomicU64::new(0),
            retained_spilling_bytes: AtomicU64::new(0),
        }
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.placement.shards()
    }

    /// On which shards clients live.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The shard on which the session of `client_id` lives.
    pub fn owner(&self, client_id: &str) -> ShardIndex {
        self.placement.owner(client_id)
    }

    /// Changes whenever what [`Exchange::routes`] says may have changed, and with [`Exchange::advance`].
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes caches look again, because something has changed that they remember beside the routes. Call it after the
    /// change: whoever sees the new generation sees the change too. Returns the new generation.
    pub fn advance(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Where messages of `topic` go.
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

    /// A session of `shard` subscribes to `filter`; `change` says what that shard cares for now. Returns the
    /// generation of the subscription and, if `wanted`, a scan of the retained messages that match. Looks at none of them:
    /// that is for [`Exchange::next_retained`]. No scan is made where nothing can match.
    ///
    /// Both are of the same moment: each message published with RETAIN is either in the scan or carries a generation not
    /// below the one returned, never both.
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
        // Nobody retains a message while this lock is held, which is all that the moment needs.
        let state = self.read();
        let scan = if wanted { state.retained.scan(filter) } else { None };
        (if self.shards() > 1 { self.advance() } else { self.generation() }, scan)
    }

    /// A session of `shard` gave `filter` up; `change` says what that shard does not care for any more.
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

    /// A session joins a shared subscription or changes its membership. `filter` is whole, `$share/group/filter`;
    /// `matched` is its part that is compared with topics.
    pub fn join(&self, filter: &str, matched: &str, member: Member) {
        self.with_group(filter, matched, |group| group.join(member));
    }

    /// A session leaves a shared subscription.
    pub fn leave(&self, filter: &str, session: SessionKey) {
        let is_last = self.read_shares().find(filter).is_some_and(|group| group.leave(session));
        if is_last {
            self.remove_if_empty(filter);
        }
    }

    /// This node delivers a shared subscription of its cluster from here on; with `None`, no more. The group is there as long, whether it
    /// has members or not. `filter` and `matched`: see [`Exchange::join`].
    pub fn set_coordinator(&self, filter: &str, matched: &str, home: Option<GroupCoordinator>) {
        if home.is_some() {
            self.with_group(filter, matched, |group| group.set_coordinator(home));
        } else if let Some(group) = self.group(filter) {
            group.set_coordinator(None);
            self.remove_if_empty(filter);
        }
    }

    /// The shared subscriptions that match a topic.
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

    /// Removes a shared subscription that has no member, if nothing waits for one.
    pub fn remove_if_empty(&self, filter: &str) {
        let mut shares = self.shares.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody may have joined since.
        if shares.find(filter).is_some_and(|group| group.is_empty()) {
            shares.remove(filter);
            self.share_count.fetch_sub(1, Ordering::AcqRel);
            self.advance();
        }
    }

    /// The group of a shared subscription, by its whole filter.
    pub fn group(&self, filter: &str) -> Option<Arc<ShareGroup>> {
        self.read_shares().find(filter).cloned()
    }

    /// How many shared subscriptions have a member.
    pub fn shares(&self) -> usize {
        self.share_count.load(Ordering::Relaxed)
    }

    // Retained messages.

    /// Replaces the retained message of the topic [MQTT-3.3.1-5], or removes it where the payload is empty
    /// [MQTT-3.3.1-6]. `keep` gives the message as one allocation.
    ///
    /// # Errors
    /// Where the message would go over a limit; what was retained stays.
    pub fn retain(
        &self,
        message: &MessageRef<'_>,
        keep: impl FnOnce() -> Message,
    ) -> Result<RetainedRevision, RetainError> {
        self.retain_for(None, message, keep)
    }

    /// The same for somebody to whom the message belongs from now on, until somebody else replaces it. A message that has been
    /// retained for nobody counts against nobody's quota.
    ///
    /// # Errors
    /// Where the message would go over a limit or the quota; what was retained stays.
    pub fn retain_for(
        &self,
        claim: Option<&RetainedClaim>,
        message: &MessageRef<'_>,
        keep: impl FnOnce() -> Message,
    ) -> Result<RetainedRevision, RetainError> {
        // What takes long for a large message is done before the lock is taken, and after it is given back.
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

    /// Whether one more retained message of so many bytes stays within the limits of all.
    ///
    /// # Errors
    /// It does not.
    pub fn check_retained(&self, topic: &str, allocated_bytes: usize) -> Result<(), RetainError> {
        self.read().retained.check(topic, allocated_bytes)
    }

    /// Whether [`Exchange::retain_for`] would retain a message of so many bytes now.
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

    /// Has its topic retain `message`, whatever the limits say: another broker has let it in. Gives the generation with which it may be
    /// routed: subscriptions of a later one find it.
    pub fn mirror_retained(&self, message: Message) -> u64 {
        let expiry = Expiry::of(&message.as_ref());
        let mut state = self.write();
        let replaced = state.retained.set_beyond_limits(message, expiry);
        let generation = self.generation();
        self.release(state);
        drop(replaced);
        generation
    }

    /// The message that its topic retains expires when `message` says, if it is the same one.
    pub fn update_retained_expiry(&self, message: Message) {
        let expiry = Expiry::of(&message.as_ref());
        let mut state = self.write();
        let replaced = state.retained.renew(message, expiry);
        self.release(state);
        drop(replaced);
    }

    /// Takes the topic's message away. Gives the generation as of then.
    pub fn clear_retained(&self, topic: &str) -> u64 {
        let mut state = self.write();
        let cleared = state.retained.clear(topic);
        let generation = self.generation();
        self.release(state);
        drop(cleared);
        generation
    }

    /// The owner of what the client `client_id` retains.
    pub fn retained_owner(&self, client_id: &str) -> RetainedOwner {
        RetainedOwner::from_hash(self.placement.hash(client_id))
    }

    /// The same for a message of an earlier life of the broker, which may be cold.
    ///
    /// # Errors
    /// Where the message would go over a limit.
    pub fn restore_retained(&self, topic: &str, body: Body) -> Result<(), RetainError> {
        let expiry = Expiry::of_body(topic, &body);
        let mut state = self.write();
        let replaced = state.retained.set_body(topic, body, expiry, None)?;
        self.release(state);
        drop(replaced);
        Ok(())
    }

    /// Goes on with a walk through all retained messages: `found` gets those that are in memory and take `min_bytes` each, about
    /// `most_bytes` of them. Takes off `steps` what it used, and holds the lock for a few steps at a time.
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

    /// These retained messages are in the store now, unless they have been replaced meanwhile.
    pub fn spill_retained(&self, messages: Vec<(Message, Spilled)>) {
        for few in messages.chunks(SEARCH_STEPS as usize) {
            let mut state = self.write();
            let replaced: Vec<_> =
                few.iter().filter_map(|(message, cold)| state.retained.spill(message, cold.clone())).collect();
            self.release(state);
            drop(replaced);
        }
    }

    /// Has the numbers of changes of the retained messages go on after `last`: those up to it have been given in an earlier life
    /// of the broker. What was retained then is to be [retained](Exchange::retain) before.
    pub fn resume_sequence_after(&self, last: u64) {
        self.write().retained.resume_sequence_after(last);
    }

    /// Goes on with a scan until it finds a message, `steps` is used up, or it comes to its end. Takes off `steps` what it
    /// used. A step is one place in the tree of topics, or a part of one with long text, so the work is bounded by `steps`
    /// alone; the lock is held for a few of them at a time and shared with others who read.
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

    /// The message that `topic` retains.
    pub fn retained_message(&self, topic: &str) -> Option<Body> {
        self.read().retained.get(topic).cloned()
    }

    /// Removes up to `most` retained messages that have expired [MQTT-3.3.2-5]; returns how many.
    pub fn drop_expired_retained(&self, now_ms: u64, most: usize) -> usize {
        if !self.read().retained.needs_cleanup(now_ms) {
            return 0;
        }
        let mut state = self.write();
        let dropped = state.retained.remove_expired(now_ms, most);
        self.release(state);
        dropped.len()
    }

    /// Bytes of retained messages that are in memory.
    #[inline]
    pub fn retained_loaded_bytes(&self) -> u64 {
        self.retained_hot_bytes.load(Ordering::Relaxed)
    }

    /// The same without those that shards make cold by themselves.
    #[inline]
    pub fn retained_resident_bytes(&self) -> u64 {
        self.retained_loaded_bytes().saturating_sub(self.retained_spilling_bytes.load(Ordering::Relaxed))
    }

    /// A shard makes a retained message of so many bytes cold by itself: no walk need find it.
    #[inline]
    pub fn begin_spill(&self, bytes: usize) {
        self.retained_spilling_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// It has done so, or does not any more.
    #[inline]
    pub fn end_spill(&self, bytes: usize) {
        self.retained_spilling_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// How many messages are retained, and the bytes of those that count against the limit.
    pub fn retained(&self) -> (usize, usize) {
        self.read().retained.len_and_bytes()
    }

    /// About how many bytes of memory the retained messages take, their places in the tree included. Takes no lock: when it
    /// falls far below its peak, the allocator has much to give back.
    pub fn retained_held_bytes(&self) -> u64 {
        self.retained_held_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of memory of the retained messages alone, which stand in the account of memory as messages and as records of cold ones.
    #[inline]
    pub fn retained_message_bytes(&self) -> u64 {
        self.retained_kept_bytes.load(Ordering::Relaxed)
    }

    // Locks. A thread that panicked while it held one has left things whole: every change is a single call.

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, SharedState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SharedState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the lock back after a change of the retained messages.
    fn release(&self, state: RwLockWriteGuard<'_, SharedState>) {
        self.retained_held_bytes.store(state.retained.held_bytes() as u64, Ordering::Relaxed);
        self.retained_kept_bytes.store(state.retained.allocated_bytes() as u64, Ordering::Relaxed);
        self.retained_hot_bytes.store(state.retained.loaded_bytes() as u64, Ordering::Relaxed);
    }

    fn read_shares(&self) -> RwLockReadGuard<'_, Shares> {
        self.shares.read().unwrap_or_else(PoisonError::into_inner)
    }
}
