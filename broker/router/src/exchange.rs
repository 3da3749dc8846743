//! What all shards must agree on.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tautwire_contracts::{Catalogue, Contract};
use tautwire_message::{Message, MessageRef};
use tautwire_topics::{FilterTree, RetainedCursor, RetainedTree};

use crate::share::{Member, SessionKey, ShareGroup};
use crate::{ShardIndex, ShardSet};

/// Limits of the retained messages.
#[derive(Debug, Clone, Copy)]
pub struct RetainedLimits {
    /// Topics that may hold a retained message.
    pub messages: usize,
    /// Bytes that all of them may take.
    pub bytes: usize,
}

/// What is to be known of a change of the retained messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The generation with which the message must be routed.
    pub generation: u64,
    /// The number of the change among all changes of retained messages.
    pub sequence: u64,
}

/// A retained message would go over a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainRefused;

/// Where messages of one topic go besides the subscriptions of the publishing shard.
#[derive(Debug, Default)]
pub struct Routes {
    /// Shards with a matching subscription. Kept only where there is more than one shard.
    pub shards: ShardSet,
    /// Matching shared subscriptions.
    pub shares: Vec<Arc<ShareGroup>>,
    /// The contract that payloads must keep to.
    pub contract: Option<Arc<Contract>>,
}

/// The state that is common to all shards. Held behind one lock that no message takes whose topic is in its shard's cache,
/// except to replace a retained message.
pub struct Exchange {
    shards: usize,
    placement: foldhash::quality::FixedState,
    limits: RetainedLimits,
    generation: AtomicU64,
    shares: AtomicUsize,
    contracts: RwLock<Arc<Catalogue>>,
    contract_changes: AtomicU64,
    formats_wanted: AtomicBool,
    board: RwLock<Board>,
}

struct Retained {
    message: Message,
    /// The board's sequence when it was retained.
    sequence: u64,
}

/// The retained messages that match a filter, as they were at one moment; those that are replaced before they are asked
/// for are left out.
#[derive(Debug)]
pub struct Snapshot {
    /// Found and not taken yet.
    found: VecDeque<Message>,
    /// Where the search goes on.
    rest: Option<RetainedCursor>,
    filter: Box<str>,
    sequence: u64,
}

impl Snapshot {
    /// The filter.
    pub fn filter(&self) -> &str {
        &self.filter
    }
}

#[derive(Default)]
struct Board {
    interest: FilterTree<ShardIndex>,
    shares: FilterTree<Arc<ShareGroup>>,
    retained: RetainedTree<Retained>,
    /// Counts the changes of the retained messages.
    sequence: u64,
    /// Messages and bytes of them that count against the limits: all but the broker's own.
    retained_messages: usize,
    retained_bytes: usize,
    /// Those of the retained messages that expire, by the moment at which they do.
    expiring: BTreeSet<(u64, Box<str>)>,
}

impl Exchange {
    /// An exchange for `shards` shards, 1 to [`crate::SHARDS_MAX`].
    pub fn new(shards: usize, limits: RetainedLimits) -> Exchange {
        Exchange::with_seed(shards, limits, RandomState::new().hash_one(shards))
    }

    /// An exchange that places sessions by a known seed, for tests that must be repeatable.
    pub fn with_seed(shards: usize, limits: RetainedLimits, seed: u64) -> Exchange {
        assert!((1..=crate::SHARDS_MAX).contains(&shards), "a set of shards is the bits of a word");
        Exchange {
            shards,
            placement: foldhash::quality::FixedState::with_seed(seed),
            limits,
            generation: AtomicU64::new(0),
            shares: AtomicUsize::new(0),
            contracts: RwLock::default(),
            contract_changes: AtomicU64::new(0),
            formats_wanted: AtomicBool::new(false),
            board: RwLock::default(),
        }
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// The shard on which the session of `client_id` lives. The hash is seeded, so that nobody can aim at one shard.
    pub fn owner(&self, client_id: &str) -> ShardIndex {
        if self.shards == 1 {
            return ShardIndex(0);
        }
        ShardIndex((self.placement.hash_one(client_id) % self.shards as u64) as u8)
    }

    /// Changes whenever what [`Exchange::routes`] says may have changed.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Where messages of `topic` go.
    pub fn routes(&self, topic: &str, routes: &mut Routes) {
        routes.shards = ShardSet::default();
        routes.shares.clear();
        routes.contract = self.contract(topic);
        if self.shards == 1 && self.shares.load(Ordering::Acquire) == 0 {
            return;
        }
        let board = self.read();
        board.interest.matches(topic, &mut |_, shards: &[ShardIndex]| {
            for shard in shards {
                routes.shards.insert(*shard);
            }
        });
        board.shares.matches(topic, &mut |_, groups: &[Arc<ShareGroup>]| routes.shares.extend(groups.iter().cloned()));
    }

    /// The contracts that hold now.
    pub fn contracts(&self) -> Arc<Catalogue> {
        self.contracts.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The contract for a topic.
    pub fn contract(&self, topic: &str) -> Option<Arc<Contract>> {
        self.contracts.read().unwrap_or_else(PoisonError::into_inner).find(topic).cloned()
    }

    /// From now on `contracts` hold. Each thread changes over between two messages.
    pub fn set_contracts(&self, contracts: Arc<Catalogue>) {
        *self.contracts.write().unwrap_or_else(PoisonError::into_inner) = contracts;
        self.contract_changes.fetch_add(1, Ordering::AcqRel);
        self.advance();
    }

    /// How often the contracts have been changed.
    #[inline]
    pub fn contract_changes(&self) -> u64 {
        self.contract_changes.load(Ordering::Acquire)
    }

    /// A subscription wants payloads in a format of its own.
    pub fn want_formats(&self) {
        self.formats_wanted.store(true, Ordering::Release);
    }

    /// Whether any subscription has wanted that since the start.
    #[inline]
    pub fn formats_are_wanted(&self) -> bool {
        self.formats_wanted.load(Ordering::Acquire)
    }

    /// A session of `shard` subscribes to `filter`; `first` where no other session of that shard has it. Returns the
    /// generation of the subscription and, if `wanted`, the retained messages that match.
    ///
    /// Both are of the same moment: each message published with RETAIN is either among those or carries a generation not
    /// below the one returned, never both.
    pub fn subscribe(&self, shard: ShardIndex, filter: &str, first: bool, wanted: bool) -> (u64, Option<Snapshot>) {
        if self.shards == 1 && !wanted {
            return (self.generation(), None);
        }
        let mut board = self.write();
        if first && self.shards > 1 {
            let node = board.interest.entry(filter);
            board.interest.push_value(node, shard);
        }
        let snapshot = if wanted { board.snapshot(filter) } else { None };
        (if self.shards > 1 { self.advance() } else { self.generation() }, snapshot)
    }

    /// The next message of a snapshot. `None` at its end, and then the snapshot is done with.
    pub fn next_retained(&self, snapshot: &mut Snapshot) -> Option<Message> {
        loop {
            if let Some(message) = snapshot.found.pop_front() {
                return Some(message);
            }
            snapshot.rest.as_ref()?;
            self.write().search(snapshot);
        }
    }

    /// Gives up a snapshot before its end.
    pub fn abandon(&self, snapshot: Snapshot) {
        if let Some(cursor) = snapshot.rest {
            self.write().retained.cancel(cursor);
        }
    }

    /// The last session of `shard` with `filter` gave it up.
    pub fn unsubscribe(&self, shard: ShardIndex, filter: &str) {
        if self.shards > 1 {
            let mut board = self.write();
            if let Some(node) = board.interest.find(filter) {
                board.interest.remove_value(node, |held| *held == shard);
                board.interest.prune(node);
            }
            self.advance();
        }
    }

    /// A session joins a shared subscription or changes its membership. `filter` is whole, `$share/group/filter`;
    /// `matched` is its part that is compared with topics.
    pub fn join(&self, filter: &str, matched: &str, member: Member) {
        let mut board = self.write();
        let node = board.shares.entry(matched);
        let held = board.shares.values(node).iter().find(|group| **group.filter() == *filter);
        if let Some(group) = held {
            group.join(member);
            return;
        }
        let group = ShareGroup::new(filter);
        group.join(member);
        board.shares.push_value(node, Arc::new(group));
        self.shares.fetch_add(1, Ordering::AcqRel);
        self.advance();
    }

    /// A session leaves a shared subscription.
    pub fn leave(&self, filter: &str, matched: &str, session: SessionKey) {
        let mut board = self.write();
        let Some(node) = board.shares.find(matched) else { return };
        let mut emptied = false;
        board.shares.remove_value(node, |group| {
            emptied = **group.filter() == *filter && group.leave(session);
            emptied
        });
        if emptied {
            board.shares.prune(node);
            self.shares.fetch_sub(1, Ordering::AcqRel);
            self.advance();
        }
    }

    /// The group of a shared subscription.
    pub fn group(&self, filter: &str, matched: &str) -> Option<Arc<ShareGroup>> {
        let board = self.read();
        let node = board.shares.find(matched)?;
        board.shares.values(node).iter().find(|group| **group.filter() == *filter).cloned()
    }

    /// Replaces the retained message of the topic [MQTT-3.3.1-5], or removes it where the payload is empty
    /// [MQTT-3.3.1-6].
    ///
    /// # Errors
    /// Where the message would go over a limit; what was retained stays.
    pub fn retain(&self, message: &MessageRef<'_>, keep: impl FnOnce() -> Message) -> Result<Retention, RetainRefused> {
        let mut board = self.write();
        let old_bytes = board.retained.get(message.topic).map(|retained| retained.message.kept_bytes());
        if message.payload.is_empty() {
            board.forget_retained(message.topic);
            board.sequence += 1;
            return Ok(Retention { generation: self.generation(), sequence: board.sequence });
        }
        if counts(message.topic) {
            let bytes = board.retained_bytes - old_bytes.unwrap_or(0) + message.kept_bytes();
            let too_many = old_bytes.is_none() && board.retained_messages >= self.limits.messages;
            if too_many || bytes > self.limits.bytes {
                return Err(RetainRefused);
            }
        }
        let kept = keep();
        board.forget_retained(message.topic);
        board.sequence += 1;
        let retained = Retained { message: kept, sequence: board.sequence };
        board.retained.insert(message.topic, retained);
        if counts(message.topic) {
            board.retained_messages += 1;
            board.retained_bytes += message.kept_bytes();
        }
        if let Some(at_ms) = message.expires_at_ms {
            board.expiring.insert((at_ms, message.topic.into()));
        }
        Ok(Retention { generation: self.generation(), sequence: board.sequence })
    }

    /// The message that `topic` retains.
    pub fn retained_message(&self, topic: &str) -> Option<Message> {
        self.read().retained.get(topic).map(|retained| retained.message.clone())
    }

    /// Removes up to `most` retained messages that have expired [MQTT-3.3.2-5]; returns how many.
    pub fn drop_expired_retained(&self, now_ms: u64, most: usize) -> usize {
        if self.read().expiring.first().is_none_or(|(at_ms, _)| *at_ms > now_ms) {
            return 0;
        }
        let mut board = self.write();
        let mut dropped = 0;
        while dropped < most
            && let Some((at_ms, topic)) = board.expiring.first().cloned()
            && at_ms <= now_ms
        {
            board.forget_retained(&topic);
            dropped += 1;
        }
        dropped
    }

    /// How many messages are retained, and the bytes of those that count against the limit.
    pub fn retained(&self) -> (usize, usize) {
        let board = self.read();
        (board.retained.len(), board.retained_bytes)
    }

    /// How many shared subscriptions have a member.
    pub fn shares(&self) -> usize {
        self.shares.load(Ordering::Relaxed)
    }

    /// The writer holds the lock, so a reader that sees the new number also sees the new board.
    fn advance(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// A thread that panicked while it held the lock has left the board whole: every change is a single call into it.
    fn read(&self) -> RwLockReadGuard<'_, Board> {
        self.board.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Board> {
        self.board.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Board {
    fn forget_retained(&mut self, topic: &str) {
        let Some(Retained { message, .. }) = self.retained.remove(topic) else { return };
        if counts(topic) {
            self.retained_messages -= 1;
            self.retained_bytes -= message.kept_bytes();
        }
        if let Some(at_ms) = message.as_ref().expires_at_ms {
            self.expiring.remove(&(at_ms, topic.into()));
        }
    }

    fn snapshot(&mut self, filter: &str) -> Option<Snapshot> {
        let cursor = self.retained.cursor(filter);
        let mut snapshot =
            Snapshot { found: VecDeque::new(), rest: Some(cursor), filter: filter.into(), sequence: self.sequence };
        self.search(&mut snapshot);
        (snapshot.rest.is_some() || !snapshot.found.is_empty()).then_some(snapshot)
    }

    /// Takes the search some steps further.
    fn search(&mut self, snapshot: &mut Snapshot) {
        let Some(mut cursor) = snapshot.rest.take() else { return };
        let (found, sequence) = (&mut snapshot.found, snapshot.sequence);
        let _: ControlFlow<()> = self.retained.resume(&mut cursor, SEARCH_STEPS, |_, retained| {
            // What has been retained since was sent as it came.
            if retained.sequence <= sequence {
                found.push_back(retained.message.clone());
            }
            ControlFlow::Continue(())
        });
        if !cursor.is_finished() {
            snapshot.rest = Some(cursor);
        }
    }
}

/// Topics looked at while the lock is held, so that a search among millions does not hold up those who publish.
const SEARCH_STEPS: u64 = 128;

/// Whether a retained message counts against the limits. The broker's own do not: they are few, and are there always.
fn counts(topic: &str) -> bool {
    !topic.starts_with("$SYS/")
}
