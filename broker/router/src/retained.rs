//! The retained messages.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use tautwire_message::{Body, Message, MessageRef, Spilled};
use tautwire_topics::RetainedTree;

use crate::owners::{RetainedClaim, RetainedOwner, RetainedOwners};
use crate::scan::{RetainedListing, Scan, SpillScan};

/// Limits of the retained messages.
#[derive(Debug, Clone, Copy)]
pub struct RetainedLimits {
    /// The number of topics that may have a retained message.
    pub messages: usize,
    /// The bytes of all retained messages together.
    pub bytes: usize,
}

/// Why a message cannot be retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetainError {
    /// It would exceed the common limits.
    Limit,
    /// It would exceed the quota of its owner.
    Quota,
}

/// The memory of a retained message besides its stored bytes: its tree node and allocation overhead.
const OVERHEAD_BYTES: usize = 128;

/// The retained message of each topic. Changes have sequence numbers, and each message has that of the change that set it, so that a scan
/// can ignore later changes.
#[derive(Debug)]
pub(crate) struct RetainedStore {
    limits: RetainedLimits,
    tree: RetainedTree<RetainedSlot>,
    sequence: u64,
    /// Messages that count against the limits, and their bytes: all except the broker's own.
    counted_messages: usize,
    counted_bytes: usize,
    /// The memory of all messages in bytes; of spilled ones, their records.
    allocated_bytes: usize,
    /// The bytes of messages in memory.
    loaded_bytes: usize,
    /// Messages that expire, by expiry time.
    expiring: BTreeSet<(u64, Box<str>)>,
    owners: RetainedOwners,
}

#[derive(Debug)]
struct RetainedSlot {
    body: Body,
    /// The sequence number of the change that set it.
    sequence: u64,
    /// Its owner, if quotas are counted.
    owner: Option<RetainedOwner>,
}

impl RetainedStore {
    pub(crate) fn set_limits(&mut self, limits: RetainedLimits) {
        self.limits = limits;
    }

    pub(crate) fn new(limits: RetainedLimits) -> RetainedStore {
        RetainedStore {
            limits,
            tree: RetainedTree::new(),
            sequence: 0,
            counted_messages: 0,
            counted_bytes: 0,
            allocated_bytes: 0,
            loaded_bytes: 0,
            expiring: BTreeSet::new(),
            owners: RetainedOwners::default(),
        }
    }

    /// Retains `message`. Returns the replaced message, for the caller to drop without holding a lock.
    ///
    /// # Errors
    /// The message would exceed a limit, or the quota of its owner; nothing has changed.
    pub(crate) fn set(
        &mut self,
        message: Message,
        expiry: Option<Expiry>,
        claim: Option<&RetainedClaim>,
    ) -> Result<Option<Body>, RetainError> {
        let held = message.clone();
        self.set_body(held.topic(), message.into(), expiry, claim)
    }

    /// Like [`RetainedStore::set`], for a message that may be spilled.
    pub(crate) fn set_body(
        &mut self,
        topic: &str,
        body: Body,
        expiry: Option<Expiry>,
        claim: Option<&RetainedClaim>,
    ) -> Result<Option<Body>, RetainError> {
        let claim = claim.filter(|_| counts(topic));
        self.check_for(claim, topic, body.allocated_bytes())?;
        Ok(self.replace(topic, body, expiry, claim.map(|claim| claim.owner)))
    }

    /// Retains a message regardless of the limits, and returns the replaced one.
    pub(crate) fn set_beyond_limits(&mut self, message: Message, expiry: Option<Expiry>) -> Option<Body> {
        let held = message.clone();
        self.replace(held.topic(), message.into(), expiry, None)
    }

    /// Checks whether one more message of this size stays within the common limits and the quota of its owner.
    pub(crate) fn check_for(
        &self,
        claim: Option<&RetainedClaim>,
        topic: &str,
        allocated_bytes: usize,
    ) -> Result<(), RetainError> {
        self.check(topic, allocated_bytes)?;
        let claim = claim.filter(|_| counts(topic));
        if claim.is_some_and(|claim| !self.fits_quota(claim, topic, allocated_bytes)) {
            return Err(RetainError::Quota);
        }
        Ok(())
    }

    /// Checks whether one more message of this size stays within the common limits.
    pub(crate) fn check(&self, topic: &str, allocated_bytes: usize) -> Result<(), RetainError> {
        if !counts(topic) {
            return Ok(());
        }
        if self.counted_messages < self.limits.messages && self.counted_bytes + allocated_bytes <= self.limits.bytes {
            // Messages that do not count always fit.
            return Ok(());
        }
        let held_bytes = self.get(topic).map(Body::allocated_bytes);
        let bytes = self.counted_bytes - held_bytes.unwrap_or(0) + allocated_bytes;
        let is_one_more = held_bytes.is_none() && self.counted_messages >= self.limits.messages;
        if is_one_more || bytes > self.limits.bytes { Err(RetainError::Limit) } else { Ok(()) }
    }

    fn replace(
        &mut self,
        topic: &str,
        body: Body,
        expiry: Option<Expiry>,
        owner: Option<RetainedOwner>,
    ) -> Option<Body> {
        if counts(topic) {
            self.counted_messages += 1;
            self.counted_bytes += body.allocated_bytes();
        }
        self.allocated_bytes += body.memory_bytes();
        self.loaded_bytes += body.loaded().map_or(0, Message::allocated_bytes);
        self.sequence += 1;
        if let Some(owner) = owner {
            self.owners.add(owner, body.allocated_bytes());
        }
        let retained = RetainedSlot { body, sequence: self.sequence, owner };
        let replaced = self.tree.insert(topic, retained);
        if let Some(replaced) = &replaced {
            self.subtract_counts(topic, replaced);
        }
        self.expiring.extend(expiry.map(|Expiry { at_ms, topic }| (at_ms, topic)));
        replaced.map(|replaced| replaced.body)
    }

    /// Updates the expiry of a retained message, which remains the same message for scans. Returns the object that is no longer held.
    pub(crate) fn update_expiry(&mut self, message: Message, expiry: Option<Expiry>) -> Option<Body> {
        let held = message.clone();
        let sequence = self.tree.get(held.topic()).filter(|retained| retained.body.id() == held.id())?.sequence;
        let last = self.sequence;
        let replaced = self.replace(held.topic(), message.into(), expiry, None);
        self.sequence = last;
        if let Some(retained) = self.tree.get_mut(held.topic()) {
            retained.sequence = sequence;
        }
        replaced
    }

    /// Whether a message stays within the quota of its owner.
    fn fits_quota(&self, claim: &RetainedClaim, topic: &str, bytes: usize) -> bool {
        let replaced = self.tree.get(topic).filter(|replaced| replaced.owner == Some(claim.owner));
        self.owners.admit(claim, bytes, replaced.map(|replaced| replaced.body.allocated_bytes()))
    }

    /// Removes the retained message of a topic, and returns it for the caller to drop.
    pub(crate) fn clear(&mut self, topic: &str) -> Option<Body> {
        self.sequence += 1;
        self.remove_topic(topic)
    }

    /// Continues the sequence numbers after `last`.
    pub(crate) fn resume_sequence_after(&mut self, last: u64) {
        self.sequence = self.sequence.max(last);
    }

    /// Returns the sequence number of the last change.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the retained message of `topic`.
    pub(crate) fn get(&self, topic: &str) -> Option<&Body> {
        self.tree.get(topic).map(|retained| &retained.body)
    }

    /// Returns the number of messages, and the bytes of those that count against the limit.
    pub(crate) fn len_and_bytes(&self) -> (usize, usize) {
        (self.tree.len(), self.counted_bytes)
    }

    /// Returns the memory of all messages in bytes.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.allocated_bytes
    }

    /// Returns the bytes of messages in memory.
    pub(crate) fn loaded_bytes(&self) -> usize {
        self.loaded_bytes
    }

    /// Returns the approximate memory of all messages in bytes, including their nodes in the tree.
    pub(crate) fn held_bytes(&self) -> usize {
        self.allocated_bytes + self.tree.len() * OVERHEAD_BYTES + self.owners.held_bytes()
    }

    /// Whether a message has expired, or the tree needs pruning.
    pub(crate) fn needs_cleanup(&self, now_ms: u64) -> bool {
        self.tree.needs_pruning() || self.expiring.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms)
    }

    /// Removes up to `most` expired messages [MQTT-3.3.2-5], and returns them for the caller to drop.
    pub(crate) fn remove_expired(&mut self, now_ms: u64, most: usize) -> Vec<Body> {
        let mut dropped = Vec::new();
        while dropped.len() < most
            && let Some((at_ms, _)) = self.expiring.first()
            && *at_ms <= now_ms
            && let Some((_, topic)) = self.expiring.pop_first()
        {
            dropped.extend(self.remove_topic(&topic));
        }
        self.tree.prune_deferred();
        dropped
    }

    /// Starts a scan of the current messages that match `filter`. Visits none of them yet; returns `None` if there can be none.
    pub(crate) fn scan(&self, filter: &str) -> Option<Scan> {
        self.tree.may_cover(filter).then(|| Scan::new(self.tree.cursor(filter), self.sequence))
    }

    /// Continues a scan by up to `steps` steps, and subtracts the steps used from `steps`.
    pub(crate) fn search(&self, scan: &mut Scan, steps: &mut u64) {
        let Scan { cursor, found, sequence } = scan;
        let _: ControlFlow<()> = self.tree.resume(cursor, steps, |_, retained| {
            // Messages retained since the scan began were delivered live.
            if retained.sequence <= *sequence {
                found.push_back(retained.body.clone());
            }
            ControlFlow::Continue(())
        });
    }

    /// Starts a listing of the messages that match `filter`, or of all, including the broker's own. Returns `None` if there can be none.
    pub(crate) fn list(&self, filter: Option<&str>) -> Option<RetainedListing> {
        let cursor = match filter {
            Some(filter) => self.tree.may_cover(filter).then(|| self.tree.cursor(filter))?,
            None => self.tree.cursor_over_all(),
        };
        Some(RetainedListing { cursor, topic: String::new() })
    }

    /// Continues a listing by up to `steps` steps, and subtracts the steps used; calls `visit` with each topic and message.
    pub(crate) fn continue_listing(
        &self,
        look: &mut RetainedListing,
        steps: &mut u64,
        mut visit: impl FnMut(&str, &Body) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let RetainedListing { cursor, topic } = look;
        self.tree.resume(cursor, steps, |node, retained| {
            topic.clear();
            self.tree.topic_of(node, topic);
            visit(topic, &retained.body)
        })
    }

    /// Continues a walk until it has used `steps` or found `most_bytes` of messages that are in memory, have at least `min_bytes`, and are
    /// not the broker's own.
    pub(crate) fn find_loaded(
        &self,
        walk: &mut SpillScan,
        steps: &mut u64,
        min_bytes: usize,
        most_bytes: usize,
        found: &mut Vec<Message>,
    ) {
        let cursor = walk.cursor.get_or_insert_with(|| self.tree.cursor_over_all());
        let mut bytes = 0;
        let flow = self.tree.resume(cursor, steps, |_, retained| {
            if let Body::Loaded(message) = &retained.body
                && message.allocated_bytes() >= min_bytes
                && counts(message.topic())
            {
                bytes += message.allocated_bytes();
                found.push(message.clone());
            }
            if bytes >= most_bytes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if flow.is_continue() && cursor.is_finished() {
            walk.cursor = None;
        }
    }

    /// Replaces the message by its spilled form. Returns what its topic held, for the caller to drop.
    pub(crate) fn spill(&mut self, message: &Message, spilled: Spilled) -> Option<Body> {
        let retained = self.tree.get_mut(message.topic())?;
        if !matches!(&retained.body, Body::Loaded(held) if held.id() == spilled.id()) {
            return None;
        }
        let spilled = Body::Spilled(spilled);
        self.loaded_bytes -= message.allocated_bytes();
        self.allocated_bytes = self.allocated_bytes - message.allocated_bytes() + spilled.memory_bytes();
        Some(std::mem::replace(&mut retained.body, spilled))
    }

    fn remove_topic(&mut self, topic: &str) -> Option<Body> {
        let retained = self.tree.remove(topic)?;
        self.subtract_counts(topic, &retained);
        Some(retained.body)
    }

    fn subtract_counts(&mut self, topic: &str, RetainedSlot { body, owner, .. }: &RetainedSlot) {
        if let Some(owner) = owner {
            self.owners.remove(*owner, body.allocated_bytes());
        }
        self.allocated_bytes -= body.memory_bytes();
        self.loaded_bytes -= body.loaded().map_or(0, Message::allocated_bytes);
        if counts(topic) {
            self.counted_messages -= 1;
            self.counted_bytes -= body.allocated_bytes();
        }
        if let Some(at_ms) = body.expires_at_ms() {
            self.expiring.remove(&(at_ms, topic.into()));
        }
    }

    /// Returns the heap bytes of the tree.
    #[cfg(test)]
    pub(crate) fn tree_bytes(&self) -> usize {
        self.tree.memory_bytes()
    }
}

/// The expiry time of a topic's retained message.
#[derive(Debug)]
pub(crate) struct Expiry {
    at_ms: u64,
    topic: Box<str>,
}

impl Expiry {
    pub(crate) fn of(message: &MessageRef<'_>) -> Option<Expiry> {
        message.expires_at_ms.map(|at_ms| Expiry { at_ms, topic: message.topic.into() })
    }

    pub(crate) fn of_body(topic: &str, body: &Body) -> Option<Expiry> {
        body.expires_at_ms().map(|at_ms| Expiry { at_ms, topic: topic.into() })
    }
}

/// Whether a retained message counts against the limits. The broker's own do not: they are few and always exist.
fn counts(topic: &str) -> bool {
    !topic.starts_with("$SYS/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_message::MessageId;
    use tautwire_protocol::QoS;

    use crate::owners::RetainedQuota;

    fn message(topic: &str, expires_at_ms: Option<u64>) -> Message {
        MessageRef {
            id: MessageId::NONE,
            topic,
            properties: &[],
            payload: b"x",
            qos: QoS::AtMostOnce,
            retain: true,
            expires_at_ms,
        }
        .to_message()
    }

    #[test]
    fn cleared_messages_use_no_memory() {
        const MESSAGES: usize = 100_000;
        let mut store = RetainedStore::new(RetainedLimits { messages: MESSAGES, bytes: 1 << 30 });
        for number in 0..50 {
            store.set(message(&format!("$SYS/{number}"), None), None, None).expect("not full");
        }
        let (before, held_before) = (store.tree_bytes(), store.held_bytes());
        let topic = |number: usize| format!("r/s{}/d{}", number / 100, number % 100);
        for number in 0..MESSAGES {
            store.set(message(&topic(number), None), None, None).expect("not full");
        }
        assert!(store.held_bytes() > MESSAGES * 128 && store.tree_bytes() > MESSAGES * 36);
        for number in 0..MESSAGES {
            assert!(store.clear(&topic(number)).is_some());
        }
        assert_eq!((store.held_bytes(), store.len_and_bytes()), (held_before, (50, 0)));
        let allocated_bytes = store.tree_bytes() - before;
        assert!(allocated_bytes < 128 << 10, "{allocated_bytes} bytes stay");
    }

    #[test]
    fn a_message_belongs_to_its_last_publisher_until_it_is_removed() {
        let mut store = RetainedStore::new(RetainedLimits { messages: 10, bytes: 100_000 });
        let quota = RetainedQuota { messages: 2, bytes: usize::MAX };
        let [first, second] = [1, 2].map(|hash| RetainedClaim { owner: RetainedOwner::from_hash(hash), quota });
        let mut set = |topic: &str, expires_at_ms, claim| {
            let message = message(topic, expires_at_ms);
            let expiry = Expiry::of(&message.as_ref());
            let refused = store.set(message, expiry, claim).err();
            if topic.starts_with('-') {
                store.remove_expired(10, 10);
            }
            refused
        };
        assert_eq!((set("a", None, Some(&first)), set("b", Some(10), Some(&first))), (None, None));
        assert_eq!(set("c", None, Some(&first)), Some(RetainError::Quota));
        assert_eq!(set("a", None, Some(&first)), None, "not an additional topic");
        // Replacing a message of another owner, or with no owner, frees the quota.
        assert_eq!(set("a", None, Some(&second)), None);
        assert_eq!(set("c", None, Some(&first)), None);
        assert_eq!(set("d", None, Some(&first)), Some(RetainError::Quota));
        assert_eq!(set("c", None, None), None);
        assert_eq!(set("d", None, Some(&first)), None);
        // Expired messages free the quota.
        assert_eq!(set("e", None, Some(&first)), Some(RetainError::Quota));
        assert_eq!((set("-", None, None), set("e", None, Some(&first))), (None, None));
        // Cleared messages free the quota.
        assert_eq!(set("f", None, Some(&first)), Some(RetainError::Quota));
        assert!(store.clear("e").is_some());
        assert!(store.set(message("f", None), None, Some(&first)).is_ok());
        // The broker's own messages have no owner.
        assert!(store.set(message("$SYS/x", None), None, Some(&first)).is_ok());
        for topic in ["a", "c", "d", "f", "-", "$SYS/x"] {
            assert!(store.clear(topic).is_some(), "{topic}");
        }
        assert_eq!(store.held_bytes(), 0);
    }

    #[test]
    fn a_walk_finds_loaded_messages_and_spilled_ones_count_for_limits() {
        let mut store = RetainedStore::new(RetainedLimits { messages: 100, bytes: 100_000 });
        let long = |topic: &str| MessageRef { payload: &[7; 1_000], ..message(topic, None).as_ref() }.to_message();
        for topic in ["a/b", "a", "$own/x", "$SYS/long"] {
            store.set(long(topic), None, None).expect("not full");
        }
        store.set(message("short", None), None, None).expect("not full");
        let (held_before, counted) = (store.allocated_bytes(), store.len_and_bytes());
        let (mut walk, mut found) = (SpillScan::default(), Vec::new());
        store.find_loaded(&mut walk, &mut { 100 }, 200, usize::MAX, &mut found);
        let mut topics: Vec<_> = found.iter().map(Message::topic).collect();
        topics.sort_unstable();
        assert_eq!((topics, walk.is_running()), (vec!["$own/x", "a", "a/b"], false));
        let account = std::sync::Arc::new(tautwire_message::SpillAccount::new(Default::default(), Default::default()));
        for message in &found {
            let spilled = Spilled::new(message, tautwire_message::SpillSlot(0), &account);
            assert!(store.spill(message, spilled.clone()).is_some() && store.spill(message, spilled).is_none());
        }
        assert_eq!(store.len_and_bytes(), counted);
        assert!(store.allocated_bytes() < held_before - 2_500 && store.loaded_bytes() < 1_500);
        found.clear();
        store.find_loaded(&mut walk, &mut { 100 }, 200, usize::MAX, &mut found);
        assert_eq!(found, []);
        for topic in ["a/b", "a", "$own/x", "$SYS/long", "short"] {
            assert!(store.clear(topic).is_some());
        }
        assert_eq!((store.allocated_bytes(), store.loaded_bytes(), store.len_and_bytes()), (0, 0, (0, 0)));
    }

    #[test]
    fn a_replacing_message_has_its_own_expiry() {
        let mut store = RetainedStore::new(RetainedLimits { messages: 10, bytes: 1_000 });
        for expires_at_ms in [Some(10), Some(20), None, Some(30), Some(30)] {
            let message = message("t", expires_at_ms);
            let expiry = Expiry::of(&message.as_ref());
            store.set(message, expiry, None).expect("not full");
        }
        assert_eq!(store.expiring.len(), 1);
        assert!(!store.needs_cleanup(29) && store.needs_cleanup(30));
        assert_eq!(store.remove_expired(30, 10).len(), 1);
        assert_eq!(store.len_and_bytes(), (0, 0));
    }

    #[test]
    fn a_scan_finds_a_message_with_a_corrected_expiry() {
        let mut store = RetainedStore::new(RetainedLimits { messages: 1, bytes: 1_000 });
        let named = |topic: &str, number, expires_at_ms| {
            let id = MessageId { run: 1, number };
            MessageRef { id, ..message(topic, expires_at_ms).as_ref() }.to_message()
        };
        let expiry = |message: &Message| Expiry::of(&message.as_ref());
        let first = named("t", 1, Some(10));
        store.set(first.clone(), expiry(&first), None).expect("not full");
        let mut scan = store.scan("#").expect("the tree may have matches");
        let later = named("t", 1, Some(20));
        assert!(store.update_expiry(later.clone(), expiry(&later)).is_some());
        let other = named("t", 2, None);
        assert_eq!(store.update_expiry(other.clone(), None), None, "another message");
        assert_eq!(store.remove_expired(10, 10).len(), 0);
        store.search(&mut scan, &mut { 100 });
        assert_eq!(scan.found.pop_front(), Some(later.into()));
        // A message that another broker has accepted is retained regardless of the limits.
        assert_eq!(store.check("u", 1), Err(RetainError::Limit));
        assert_eq!(store.set_beyond_limits(message("u", None), None), None);
        assert_eq!((store.len_and_bytes().0, store.remove_expired(20, 10).len()), (2, 1));
    }
}
