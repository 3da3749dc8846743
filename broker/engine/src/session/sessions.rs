//! The sessions of a shard, by slot and by name.

use std::hash::BuildHasher;
use std::ops::Index;
use std::sync::Arc;

use hashbrown::HashTable;
use tautwire_access::Identity;
use tautwire_memory::{MemoryLedger, TrackedValue};
use tautwire_protocol::PacketId;
use tautwire_router::{MemberCredit, SessionKey, ShardIndex};
use tautwire_session::{Change, LogPosition, Outbound, PendingMessage, Session, SessionNumber, share_of_queue};

use crate::connection::quotas::SessionUsage;
use crate::index::{ConnectionIndex, SessionIndex, TimerState, reserved_slots};
use crate::session::drops::{DropReason, Drops, QueueLoss};

/// All sessions of a shard.
#[derive(Debug)]
pub(crate) struct Sessions {
    shard: ShardIndex,
    entries: Vec<SessionEntry>,
    free_slots: Vec<SessionIndex>,
    /// By name.
    directory: HashTable<SessionIndex>,
    hasher: foldhash::quality::RandomState,
    ledger: Arc<MemoryLedger>,
}

/// A session with the shard's data about it.
#[derive(Debug)]
pub(crate) struct SessionEntry {
    session: TrackedValue<Session, 5>,
    connection: Option<ConnectionIndex>,
    slot_generation: SlotGeneration,
    /// Shared with the session's memberships in shared subscriptions.
    member_credit: Option<Arc<MemberCredit>>,
    extras: Option<Box<SessionExtras>>,
    timer: TimerState,
}

/// The number of times a slot was taken. The lowest bit says whether it is taken now. Two fields would take eight bytes more per
/// session.
#[derive(Debug, Clone, Copy)]
struct SlotGeneration(u32);

impl SlotGeneration {
    const FIRST: SlotGeneration = SlotGeneration(1);

    #[inline]
    fn is_taken(self) -> bool {
        self.0 & 1 != 0
    }

    /// Unchanged until another session takes the slot.
    #[inline]
    fn generation(self) -> u32 {
        self.0 >> 1
    }

    fn ended(self) -> SlotGeneration {
        SlotGeneration(self.0 & !1)
    }

    fn next(self) -> SlotGeneration {
        SlotGeneration(self.ended().0.wrapping_add(2) | 1)
    }
}

/// Data that only some sessions have.
#[derive(Debug, Default)]
struct SessionExtras {
    /// Deadlines while there is no connection.
    offline: OfflineState,
    /// The session's record in the log.
    persisted: Option<PersistedSession>,
    /// The identity of the client with a delayed will.
    identity: Option<Arc<Identity>>,
    /// The session's part in the usage of its user.
    user: Option<SessionUsage>,
    /// Messages that were dropped for it.
    drops: Option<TrackedValue<Drops, 1>>,
    /// The user of an offline client, if the policy for a full queue depends on it.
    user_name: Option<Arc<str>>,
}

/// How much of a session is persisted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PersistenceScope {
    /// Everything: the session outlives its connection.
    All,
    /// Only its will, which must be published after a crash although the session ends with its connection.
    WillOnly,
}

impl PersistenceScope {
    /// The scope that this change requires for a session that is not persistent yet; `None` if nothing must be persisted.
    pub(crate) fn of(change: &Change) -> Option<PersistenceScope> {
        match change {
            Change::ExpiryInterval(seconds) if *seconds > 0 => Some(PersistenceScope::All),
            Change::Will(Some(_)) => Some(PersistenceScope::WillOnly),
            _ => None,
        }
    }

    pub(crate) fn includes(self, change: &Change) -> bool {
        self == PersistenceScope::All || matches!(change, Change::Will(_))
    }
}

/// A session in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PersistedSession {
    pub(crate) number: SessionNumber,
    pub(crate) extent: PersistenceScope,
    /// The last frame with a record of the session.
    pub(crate) position: LogPosition,
}

/// The deadlines of a session without a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OfflineState {
    /// When the client disconnected, in seconds since the Unix epoch; 0 while it is connected.
    pub(crate) disconnected_s: u32,
    /// When to check whether the session is stale, in seconds since the Unix epoch; 0 for never.
    pub(crate) stale_check_s: u32,
    /// The session is stale: messages have been queued for too long.
    pub(crate) is_stale: bool,
    /// When the will is due.
    pub(crate) will_at_ms: Option<u64>,
    /// When the session ends.
    pub(crate) expires_at_ms: Option<u64>,
}

impl OfflineState {
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let stale_check_ms = (self.stale_check_s > 0).then(|| u64::from(self.stale_check_s) * 1_000);
        [self.will_at_ms, self.expires_at_ms, stale_check_ms].into_iter().flatten().min()
    }
}

impl Sessions {
    pub(crate) fn new(shard: ShardIndex, ledger: &Arc<MemoryLedger>) -> Sessions {
        Sessions {
            shard,
            entries: Vec::with_capacity(reserved_slots::<SessionEntry>()),
            free_slots: Vec::new(),
            directory: HashTable::new(),
            hasher: foldhash::quality::RandomState::default(),
            ledger: ledger.clone(),
        }
    }

    /// The session of that [name](tautwire_session::session_name).
    pub(crate) fn find(&self, name: &str) -> Option<SessionIndex> {
        let hash = self.hasher.hash_one(name);
        self.directory.find(hash, |index| self[*index].name() == name).copied()
    }

    /// Opens a new session; `None` if the slot numbers are exhausted.
    pub(crate) fn open(&mut self, name: &str) -> Option<SessionIndex> {
        let index = self.open_unlisted(name)?;
        let Sessions { entries, directory, hasher, .. } = self;
        directory.insert_unique(hasher.hash_one(name), index, |index| {
            hasher.hash_one(entries[index.number()].session.name())
        });
        Some(index)
    }

    /// Opens a session that is about to end and is not in the directory, since its client may have another one.
    pub(crate) fn open_unlisted(&mut self, name: &str) -> Option<SessionIndex> {
        let fresh = SessionEntry {
            session: TrackedValue::new(Session::new(name), &self.ledger),
            connection: None,
            slot_generation: SlotGeneration::FIRST,
            member_credit: None,
            extras: None,
            timer: TimerState::default(),
        };
        Some(match self.free_slots.pop() {
            Some(index) => {
                let slot = &mut self.entries[index.number()];
                *slot = SessionEntry { slot_generation: slot.slot_generation.next(), timer: slot.timer, ..fresh };
                index
            }
            None => {
                let index = SessionIndex::new(self.entries.len())?;
                self.entries.push(fresh);
                index
            }
        })
    }

    /// Ends the session: it can no longer be found, and accepts no messages. Its slot stays taken until
    /// [`Sessions::free_slot`], so that the cleanup can take several turns.
    pub(crate) fn end(&mut self, index: SessionIndex) {
        let slot = &mut self.entries[index.number()];
        slot.slot_generation = slot.slot_generation.ended();
        slot.connection = None;
        slot.extras = None;
        slot.set_online(false);
        let hash = self.hasher.hash_one(self[index].name());
        if let Ok(entry) = self.directory.find_entry(hash, |held| *held == index) {
            entry.remove();
        }
    }

    /// Frees unused capacity of lists. Slots stay, since they hold their generation.
    pub(crate) fn shrink(&mut self) {
        let Sessions { entries, directory, hasher, free_slots, .. } = self;
        directory.shrink_to_fit(|index| hasher.hash_one(entries[index.number()].session.name()));
        free_slots.shrink_to_fit();
    }

    /// The number of slots, including free ones.
    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The messages that were dropped for the session, if any.
    pub(crate) fn drops(&self, index: SessionIndex) -> Option<&Drops> {
        self.entries[index.number()].extras.as_ref()?.drops.as_deref()
    }

    /// Records a message that was dropped for the session.
    pub(crate) fn record_drop(&mut self, index: SessionIndex, reason: DropReason, topic: &str, now_ms: u64) {
        if let Some(drops) = self.drops_or_new(index) {
            drops.record(reason, topic, now_ms);
        }
    }

    /// Records a message that was lost because the queue was full. Returns whether it is the first of an episode.
    pub(crate) fn record_loss(&mut self, index: SessionIndex, now_ms: u64) -> bool {
        self.drops_or_new(index).is_some_and(|drops| drops.record_loss(now_ms))
    }

    fn drops_or_new(&mut self, index: SessionIndex) -> Option<&mut Drops> {
        let slot = &mut self.entries[index.number()];
        if !slot.slot_generation.is_taken() {
            return None;
        }
        let drops = &mut slot.extras.get_or_insert_default().drops;
        Some(drops.get_or_insert_with(|| TrackedValue::new(Drops::default(), &self.ledger)).untracked_mut())
    }

    /// Clears the loss that was reported to the client.
    pub(crate) fn clear_reported_loss(&mut self, index: SessionIndex) {
        if let Some(drops) = self.entries[index.number()].extras.as_mut().and_then(|extras| extras.drops.as_mut()) {
            drops.untracked_mut().mark_reported();
        }
    }

    /// Ends an episode of loss after the client has caught up. Returns the loss, if there was an episode.
    #[inline]
    pub(crate) fn end_episode(&mut self, index: SessionIndex) -> Option<QueueLoss> {
        self.entries[index.number()].extras.as_mut()?.drops.as_mut()?.untracked_mut().end_episode()
    }

    /// The sessions that have not ended.
    pub(crate) fn indices(&self) -> Vec<SessionIndex> {
        let entries = self.entries.iter().enumerate().filter(|(_, slot)| slot.slot_generation.is_taken());
        entries.filter_map(|(number, _)| SessionIndex::new(number)).collect()
    }

    /// Whether the session has not ended.
    #[inline]
    pub(crate) fn is_alive(&self, index: SessionIndex) -> bool {
        self.entries[index.number()].slot_generation.is_taken()
    }

    /// Whether the session has not ended, and is not the queue of a shared subscription.
    pub(crate) fn is_client_session(&self, index: SessionIndex) -> bool {
        self.is_alive(index) && share_of_queue(self[index].name()).is_none()
    }

    /// The session of a client, by its name.
    pub(crate) fn find_client_session(&self, name: &str) -> Option<SessionIndex> {
        self.find(name).filter(|session| self.is_client_session(*session))
    }

    /// Frees the slot of an ended session after its cleanup.
    pub(crate) fn free_slot(&mut self, index: SessionIndex) {
        let empty = TrackedValue::new(Session::default(), &self.ledger);
        let slot = &mut self.entries[index.number()];
        slot.session = empty;
        slot.member_credit = None;
        self.free_slots.push(index);
    }

    /// The key that identifies the session outside of this shard.
    pub(crate) fn key(&self, index: SessionIndex) -> SessionKey {
        SessionKey {
            shard: self.shard,
            index: index.number() as u32,
            generation: self.entries[index.number()].slot_generation.generation(),
        }
    }

    /// The session with this key, if it still exists and is on this shard.
    pub(crate) fn at(&self, key: &SessionKey) -> Option<SessionIndex> {
        let slot = self.entries.get(key.index as usize)?;
        let is_taken = slot.slot_generation.is_taken() && slot.slot_generation.generation() == key.generation;
        let is_here = key.shard == self.shard && is_taken;
        SessionIndex::new(key.index as usize).filter(|_| is_here)
    }

    #[inline]
    pub(crate) fn entry(&mut self, index: SessionIndex) -> &mut SessionEntry {
        &mut self.entries[index.number()]
    }

    /// The connection that serves the session.
    #[inline]
    pub(crate) fn connection(&self, index: SessionIndex) -> Option<ConnectionIndex> {
        self.entries[index.number()].connection
    }

    /// Whether messages are to be sent or resent to the session's client.
    #[inline]
    pub(crate) fn has_unsent(&self, index: SessionIndex) -> bool {
        self.entries[index.number()].session.outbound().is_some_and(Outbound::has_unsent)
    }

    /// The deadlines of the session while it has no connection.
    pub(crate) fn offline(&self, index: SessionIndex) -> OfflineState {
        self.entries[index.number()].extras.as_ref().map_or(OfflineState::default(), |extras| extras.offline)
    }

    /// The identity of the client that set the session's will, if known.
    pub(crate) fn identity(&self, index: SessionIndex) -> Option<&Arc<Identity>> {
        self.entries[index.number()].extras.as_ref()?.identity.as_ref()
    }

    /// The user of an offline client, if stored.
    pub(crate) fn user_name(&self, index: SessionIndex) -> Option<&Arc<str>> {
        self.entries[index.number()].extras.as_ref()?.user_name.as_ref()
    }

    /// Resets the log positions of all sessions, so that nothing waits for earlier records.
    pub(crate) fn reset_positions(&mut self) {
        for slot in &mut self.entries {
            slot.count_written(LogPosition::default());
        }
    }

    /// The session's part in the usage of its user, if there are quotas of users.
    #[inline]
    pub(crate) fn user(&self, index: SessionIndex) -> Option<&SessionUsage> {
        self.entries[index.number()].extras.as_ref()?.user.as_ref()
    }

    /// The session's credit for messages of shared subscriptions, if it has been a member of one.
    #[inline]
    pub(crate) fn member_credit(&self, index: SessionIndex) -> Option<&Arc<MemberCredit>> {
        self.entries[index.number()].member_credit.as_ref()
    }

    /// The session's record in the log; `None` if it is not persistent.
    #[inline]
    pub(crate) fn persisted(&self, index: SessionIndex) -> Option<PersistedSession> {
        self.entries[index.number()].extras.as_ref().and_then(|extras| extras.persisted)
    }
}

/// Read access to sessions. Changes go through [`SessionEntry`].
impl Index<SessionIndex> for Sessions {
    type Output = Session;

    #[inline]
    fn index(&self, index: SessionIndex) -> &Session {
        &self.entries[index.number()].session
    }
}

impl SessionEntry {
    /// Binds the session to the connection that serves it.
    pub(crate) fn bind(&mut self, connection: ConnectionIndex) {
        self.connection = Some(connection);
        self.set_offline_deadlines(OfflineState::default());
        self.set_online(true);
    }

    /// Unbinds the session from its connection.
    #[inline(always)]
    pub(crate) fn unbind(&mut self) {
        self.connection = None;
        self.session.change(Session::shrink);
        self.set_online(false);
    }

    /// Sets the deadlines while there is no connection.
    pub(crate) fn set_offline_deadlines(&mut self, offline: OfflineState) {
        let extras = self.extras.take().map_or_else(SessionExtras::default, |extras| *extras);
        let SessionExtras { persisted, identity, user, drops, user_name, .. } = extras;
        let is_needed = offline.disconnected_s > 0 || persisted.is_some() || user.is_some() || drops.is_some();
        let identity = identity.filter(|_| offline.will_at_ms.is_some());
        let user_name = user_name.filter(|_| offline.disconnected_s > 0);
        self.extras =
            is_needed.then(|| Box::new(SessionExtras { offline, persisted, identity, user, drops, user_name }));
    }

    /// Counts the session for the user of its client, if there are quotas of users. The usage of another user is released.
    pub(crate) fn assign_user(&mut self, share: impl FnOnce(&Session) -> Option<SessionUsage>) {
        match share(&self.session) {
            Some(share) => self.extras.get_or_insert_default().user = Some(share),
            None => {
                if let Some(extras) = &mut self.extras {
                    extras.user = None;
                }
            }
        }
    }

    #[inline]
    fn update_user_usage(&mut self) {
        if let Some(user) = self.extras.as_mut().and_then(|extras| extras.user.as_mut()) {
            user.settle(&self.session);
        }
    }

    /// Stores the user of the session while its client is offline.
    pub(crate) fn set_user_name(&mut self, user: Arc<str>) {
        self.extras.get_or_insert_default().user_name = Some(user);
    }

    /// Stores the identity of the client that set the session's will.
    pub(crate) fn set_identity(&mut self, identity: Arc<Identity>) {
        self.extras.get_or_insert_default().identity = Some(identity);
    }

    /// Sets the session's state from the log.
    pub(crate) fn restore(&mut self, state: Session, persisted: PersistedSession) {
        self.session.change(|session| *session = state);
        self.update_outbound_usage();
        self.persist(persisted);
    }

    /// Sets the session's state from the cluster.
    pub(crate) fn set_state(&mut self, state: Session) {
        self.session.change(|session| *session = state);
        self.update_outbound_usage();
    }

    /// Marks the session as recorded in the log.
    pub(crate) fn persist(&mut self, persisted: PersistedSession) {
        self.extras.get_or_insert_default().persisted = Some(persisted);
    }

    /// Notes that the frame at `position` has a record of the session.
    pub(crate) fn count_written(&mut self, position: LogPosition) {
        if let Some(persisted) = self.extras.as_mut().and_then(|extras| extras.persisted.as_mut()) {
            persisted.position = position;
        }
    }

    /// The session's credit for messages of shared subscriptions, created on first use.
    pub(crate) fn member_credit(&mut self) -> Arc<MemberCredit> {
        let is_online = self.connection.is_some();
        self.member_credit.get_or_insert_with(|| Arc::new(MemberCredit::new(is_online))).clone()
    }

    fn set_online(&self, online: bool) {
        if let Some(member_credit) = &self.member_credit {
            member_credit.set_online(online);
            // Its shard grants credit once the client can receive.
            member_credit.grant(0);
        }
    }

    /// Applies a change. A persistent one must be recorded first, as [`crate::shard::ShardState::commit`] does.
    #[inline(always)]
    pub(crate) fn apply(&mut self, change: Change) -> Option<PendingMessage> {
        let changes_messages = matches!(
            change,
            Change::Queued(_)
                | Change::Unqueued
                | Change::Started(_)
                | Change::StartedQueued
                | Change::Received(_)
                | Change::Completed(_)
        );
        if !changes_messages {
            let gone = self.session.change(|session| session.apply(change));
            self.update_user_usage();
            return gone;
        }
        // Most changes concern messages, and most of those do not change the footprint.
        let gone = self.session.untracked_mut().apply(change);
        self.update_outbound_usage();
        self.update_user_usage();
        gone
    }

    #[inline]
    fn update_outbound_usage(&mut self) {
        if let Some(grown) = self.session.untracked_mut().outbound_mut().and_then(Outbound::take_growth) {
            for (kind, before, after) in grown {
                self.session.settle(kind, before, after);
            }
        }
    }

    /// Takes the next undelivered message out of an ended session.
    pub(crate) fn take_unfinished(&mut self) -> Option<(PendingMessage, Option<PacketId>)> {
        let unfinished = self.session.untracked_mut().take_unfinished();
        self.update_outbound_usage();
        unfinished
    }

    /// For the parts of outbound state that end with a connection: [`Outbound::rewind`] and [`Outbound::resend`].
    pub(crate) fn outbound(&mut self) -> Option<&mut Outbound> {
        self.session.untracked_mut().outbound_mut()
    }

    /// Arms the slot's timer for `at_ms`. Returns false if the timer fires earlier anyway.
    pub(crate) fn arm(&mut self, at_ms: u64) -> bool {
        self.timer.arm(at_ms)
    }

    /// Handles the firing of the slot's timer. Returns false if an earlier timer replaced it, or the slot has no offline session.
    pub(crate) fn disarm(&mut self, now_ms: u64) -> bool {
        self.timer.disarm(now_ms) && self.slot_generation.is_taken() && self.connection.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_memory::Kind;

    fn sessions(shard: u8) -> Sessions {
        Sessions::new(ShardIndex(shard), &Arc::default())
    }

    #[test]
    fn a_session_is_counted_until_it_ends() {
        let ledger = Arc::default();
        let mut sessions = Sessions::new(ShardIndex(0), &ledger);
        let index = sessions.open("a").expect("there is room");
        assert!(ledger.held(Kind::Session) > 0);
        let before = ledger.held(Kind::Session);
        sessions.record_drop(index, DropReason::QueueFull, "t", 1);
        sessions.record_drop(index, DropReason::Expired, "t", 2);
        assert!(ledger.held(Kind::Session) > before, "drops are charged");
        sessions.end(index);
        assert!(ledger.held(Kind::Session) > 0, "its slot is not free yet");
        sessions.free_slot(index);
        assert_eq!(ledger.all(), 0);
    }

    #[test]
    fn a_session_is_found_by_identifier_and_by_key_until_it_ends() {
        let mut sessions = sessions(3);
        let index = sessions.open("a").expect("there is room");
        let key = sessions.key(index);
        assert_eq!((sessions.find("a"), sessions.at(&key)), (Some(index), Some(index)));
        assert_eq!(sessions.at(&SessionKey { shard: ShardIndex(2), ..key }), None, "the key of another shard");
        sessions.end(index);
        assert_eq!((sessions.find("a"), sessions.at(&key)), (None, None));
        let other = sessions.open("a").expect("there is room");
        assert_ne!(other, index, "the first session is not cleaned up yet");
        sessions.free_slot(index);
        assert_eq!(sessions.open("b"), Some(index), "the slot is reused");
        assert_eq!(sessions.find("a"), Some(other));
        assert_eq!(sessions.at(&key), None, "the slot has another session");
    }

    #[test]
    fn members_of_shared_subscriptions_know_whether_a_client_is_online() {
        let mut sessions = sessions(0);
        let index = sessions.open("a").expect("there is room");
        let slot = sessions.entry(index);
        let member_credit = slot.member_credit();
        assert!(!member_credit.is_online());
        slot.bind(ConnectionIndex::new(7).expect("a valid index"));
        assert!(member_credit.is_online());
        slot.unbind();
        assert!(!member_credit.is_online());
    }

    #[test]
    fn a_timer_is_set_only_for_an_earlier_deadline() {
        let mut sessions = sessions(0);
        let index = sessions.open("a").expect("there is room");
        let slot = sessions.entry(index);
        assert!(slot.arm(500) && !slot.arm(600) && slot.arm(400));
        assert!(!slot.disarm(399) && slot.disarm(400));
        assert!(!slot.disarm(500), "an earlier timer replaced that entry of the wheel");
    }
}
