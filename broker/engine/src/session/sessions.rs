//! The sessions of a shard, by place and by name.

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

/// A session and what the shard knows of it.
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

/// How often a place has been taken; the last bit says whether it is taken now. As two fields they would take eight bytes more for each
/// session.
#[derive(Debug, Clone, Copy)]
struct SlotGeneration(u32);

impl SlotGeneration {
    const FIRST: SlotGeneration = SlotGeneration(1);

    #[inline]
    fn is_taken(self) -> bool {
        self.0 & 1 != 0
    }

    /// The same as long as nobody else takes the place.
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

/// What only some sessions need.
#[derive(Debug, Default)]
struct SessionExtras {
    /// What comes up while there is no connection.
    offline: OfflineState,
    /// What the log knows of the session.
    persisted: Option<PersistedSession>,
    /// Who left a will that is due later.
    identity: Option<Arc<Identity>>,
    /// The session's part in what its user's clients hold together.
    user: Option<SessionUsage>,
    /// Messages that it did not get.
    drops: Option<TrackedValue<Drops, 1>>,
    /// The user of a client that is offline, where the policy for a full queue depends on it.
    user_name: Option<Arc<str>>,
}

/// How much of a session is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PersistenceScope {
    /// Everything: the session outlives its connection.
    All,
    /// Its will, which is due after a crash although the session ends with its connection.
    WillOnly,
}

impl PersistenceScope {
    /// How much has to be written down of a session that begins with this change; `None` for nothing.
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

/// A session that is written down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PersistedSession {
    pub(crate) number: SessionNumber,
    pub(crate) extent: PersistenceScope,
    /// The last frame with a record of the session.
    pub(crate) position: LogPosition,
}

/// Deadlines of a session without a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OfflineState {
    /// When the client left, in seconds since the Unix epoch; 0 while it is connected.
    pub(crate) left_s: u32,
    /// When it is looked at whether messages have waited for too long, in the same seconds; 0 for never.
    pub(crate) look_s: u32,
    /// They have.
    pub(crate) is_neglected: bool,
    /// When the will is due.
    pub(crate) will_at_ms: Option<u64>,
    /// When the session ends.
    pub(crate) expires_at_ms: Option<u64>,
}

impl OfflineState {
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let look_ms = (self.look_s > 0).then(|| u64::from(self.look_s) * 1_000);
        [self.will_at_ms, self.expires_at_ms, look_ms].into_iter().flatten().min()
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

    /// A new session; `None` where no place can be numbered.
    pub(crate) fn open(&mut self, name: &str) -> Option<SessionIndex> {
        let index = self.open_unlisted(name)?;
        let Sessions { entries, directory, hasher, .. } = self;
        directory.insert_unique(hasher.hash_one(name), index, |index| {
            hasher.hash_one(entries[index.number()].session.name())
        });
        Some(index)
    }

    /// A session that is about to end, and that its client does not find: it may have another one.
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
                let place = &mut self.entries[index.number()];
                *place = SessionEntry { slot_generation: place.slot_generation.next(), timer: place.timer, ..fresh };
                index
            }
            None => {
                let index = SessionIndex::new(self.entries.len())?;
                self.entries.push(fresh);
                index
            }
        })
    }

    /// Ends the session: it is found no more, and takes no more messages. Its place is taken until
    /// [`Sessions::free_slot`], so that what it leaves behind can be cleared away piece by piece.
    pub(crate) fn end(&mut self, index: SessionIndex) {
        let place = &mut self.entries[index.number()];
        place.slot_generation = place.slot_generation.ended();
        place.connection = None;
        place.extras = None;
        place.set_online(false);
        let hash = self.hasher.hash_one(self[index].name());
        if let Ok(entry) = self.directory.find_entry(hash, |held| *held == index) {
            entry.remove();
        }
    }

    /// Frees the room that lists do not need any more. Places stay, since they count how often they were taken.
    pub(crate) fn shrink(&mut self) {
        let Sessions { entries, directory, hasher, free_slots, .. } = self;
        directory.shrink_to_fit(|index| hasher.hash_one(entries[index.number()].session.name()));
        free_slots.shrink_to_fit();
    }

    /// How many places there are, free_slots ones included.
    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Messages that the session did not get, where there were some.
    pub(crate) fn drops(&self, index: SessionIndex) -> Option<&Drops> {
        self.entries[index.number()].extras.as_ref()?.drops.as_deref()
    }

    /// The session did not get a message.
    pub(crate) fn record_drop(&mut self, index: SessionIndex, reason: DropReason, topic: &str, now_ms: u64) {
        if let Some(drops) = self.drops_or_new(index) {
            drops.note(reason, topic, now_ms);
        }
    }

    /// The session has lost a message because its queue was full; says whether it is the first of an episode.
    pub(crate) fn record_loss(&mut self, index: SessionIndex, now_ms: u64) -> bool {
        self.drops_or_new(index).is_some_and(|drops| drops.record_loss(now_ms))
    }

    fn drops_or_new(&mut self, index: SessionIndex) -> Option<&mut Drops> {
        let place = &mut self.entries[index.number()];
        if !place.slot_generation.is_taken() {
            return None;
        }
        let drops = &mut place.extras.get_or_insert_default().drops;
        Some(drops.get_or_insert_with(|| TrackedValue::new(Drops::default(), &self.ledger)).untracked_mut())
    }

    /// The client has been told what it has lost.
    pub(crate) fn clear_reported_loss(&mut self, index: SessionIndex) {
        if let Some(drops) = self.entries[index.number()].extras.as_mut().and_then(|extras| extras.drops.as_mut()) {
            drops.untracked_mut().mark_reported();
        }
    }

    /// The client has caught up. Gives what it has lost before, if something was lost.
    #[inline]
    pub(crate) fn end_episode(&mut self, index: SessionIndex) -> Option<QueueLoss> {
        self.entries[index.number()].extras.as_mut()?.drops.as_mut()?.untracked_mut().end_episode()
    }

    /// The sessions that have not ended.
    pub(crate) fn indices(&self) -> Vec<SessionIndex> {
        let entries = self.entries.iter().enumerate().filter(|(_, place)| place.slot_generation.is_taken());
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

    /// Frees the place of a session that has ended and left nothing behind.
    pub(crate) fn free_slot(&mut self, index: SessionIndex) {
        let free_slots = TrackedValue::new(Session::default(), &self.ledger);
        let place = &mut self.entries[index.number()];
        place.session = free_slots;
        place.member_credit = None;
        self.free_slots.push(index);
    }

    /// What names the session outside of this shard.
    pub(crate) fn key(&self, index: SessionIndex) -> SessionKey {
        SessionKey {
            shard: self.shard,
            index: index.number() as u32,
            generation: self.entries[index.number()].slot_generation.generation(),
        }
    }

    /// The place of the session that `key` means, if it still exists and is one of this shard.
    pub(crate) fn at(&self, key: &SessionKey) -> Option<SessionIndex> {
        let place = self.entries.get(key.index as usize)?;
        let is_taken = place.slot_generation.is_taken() && place.slot_generation.generation() == key.generation;
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

    /// Whether messages wait to be sent to the session's client, or to be sent again.
    #[inline]
    pub(crate) fn has_unsent(&self, index: SessionIndex) -> bool {
        self.entries[index.number()].session.outbound().is_some_and(Outbound::has_unsent)
    }

    /// What comes up while the session has no connection.
    pub(crate) fn offline(&self, index: SessionIndex) -> OfflineState {
        self.entries[index.number()].extras.as_ref().map_or(OfflineState::default(), |extras| extras.offline)
    }

    /// Who has left the session's will, where that is known.
    pub(crate) fn identity(&self, index: SessionIndex) -> Option<&Arc<Identity>> {
        self.entries[index.number()].extras.as_ref()?.identity.as_ref()
    }

    /// The user of a client that is offline, where that has been kept.
    pub(crate) fn user_name(&self, index: SessionIndex) -> Option<&Arc<str>> {
        self.entries[index.number()].extras.as_ref()?.user_name.as_ref()
    }

    /// Nothing has to wait for what has been written down of any session so far.
    pub(crate) fn reset_positions(&mut self) {
        for place in &mut self.entries {
            place.count_written(LogPosition::default());
        }
    }

    /// The session's part in what its user's clients hold together, where that counts.
    #[inline]
    pub(crate) fn user(&self, index: SessionIndex) -> Option<&SessionUsage> {
        self.entries[index.number()].extras.as_ref()?.user.as_ref()
    }

    /// The room of the session for messages of shared subscriptions, if it has been a member of one.
    #[inline]
    pub(crate) fn member_credit(&self, index: SessionIndex) -> Option<&Arc<MemberCredit>> {
        self.entries[index.number()].member_credit.as_ref()
    }

    /// What the log knows of the session; `None` where it is not written down.
    #[inline]
    pub(crate) fn persisted(&self, index: SessionIndex) -> Option<PersistedSession> {
        self.entries[index.number()].extras.as_ref().and_then(|extras| extras.persisted)
    }
}

/// Sessions can be read by anyone; they change through [`SessionEntry`].
impl Index<SessionIndex> for Sessions {
    type Output = Session;

    #[inline]
    fn index(&self, index: SessionIndex) -> &Session {
        &self.entries[index.number()].session
    }
}

impl SessionEntry {
    /// A connection serves the session from now on.
    pub(crate) fn bind(&mut self, connection: ConnectionIndex) {
        self.connection = Some(connection);
        self.set_offline_deadlines(OfflineState::default());
        self.set_online(true);
    }

    /// The connection is gone.
    #[inline(always)]
    pub(crate) fn unbind(&mut self) {
        self.connection = None;
        self.session.change(Session::shrink);
        self.set_online(false);
    }

    /// Sets when something comes up while there is no connection.
    pub(crate) fn set_offline_deadlines(&mut self, offline: OfflineState) {
        let extras = self.extras.take().map_or_else(SessionExtras::default, |extras| *extras);
        let SessionExtras { persisted, identity, user, drops, user_name, .. } = extras;
        let is_needed = offline.left_s > 0 || persisted.is_some() || user.is_some() || drops.is_some();
        let identity = identity.filter(|_| offline.will_at_ms.is_some());
        let user_name = user_name.filter(|_| offline.left_s > 0);
        self.extras =
            is_needed.then(|| Box::new(SessionExtras { offline, persisted, identity, user, drops, user_name }));
    }

    /// Whose client the session serves, where that counts. What it held of another user's is given back.
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

    /// Whose the session is while its client is offline.
    pub(crate) fn set_user_name(&mut self, user: Arc<str>) {
        self.extras.get_or_insert_default().user_name = Some(user);
    }

    /// Who has left the session's will.
    pub(crate) fn set_identity(&mut self, identity: Arc<Identity>) {
        self.extras.get_or_insert_default().identity = Some(identity);
    }

    /// The session has this state from the log.
    pub(crate) fn restore(&mut self, state: Session, persisted: PersistedSession) {
        self.session.change(|session| *session = state);
        self.update_outbound_usage();
        self.persist(persisted);
    }

    /// The session has this state, which comes from the cluster.
    pub(crate) fn set_state(&mut self, state: Session) {
        self.session.change(|session| *session = state);
        self.update_outbound_usage();
    }

    /// The session is in the log from now on.
    pub(crate) fn persist(&mut self, persisted: PersistedSession) {
        self.extras.get_or_insert_default().persisted = Some(persisted);
    }

    /// There is a record of the session in the frame at `position`.
    pub(crate) fn count_written(&mut self, position: LogPosition) {
        if let Some(persisted) = self.extras.as_mut().and_then(|extras| extras.persisted.as_mut()) {
            persisted.position = position;
        }
    }

    /// The room of the session for messages of its shared subscriptions.
    pub(crate) fn member_credit(&mut self) -> Arc<MemberCredit> {
        let is_online = self.connection.is_some();
        self.member_credit.get_or_insert_with(|| Arc::new(MemberCredit::new(is_online))).clone()
    }

    fn set_online(&self, online: bool) {
        if let Some(member_credit) = &self.member_credit {
            member_credit.set_online(online);
            // Its shard grants room once the client can take something.
            member_credit.grant(0);
        }
    }

    /// Applies a change. One that lasts must be written down first, as [`crate::state::ShardState::commit`] does.
    #[inline(always)]
    pub(crate) fn apply(&mut self, change: Change) -> Option<PendingMessage> {
        let of_messages = matches!(
            change,
            Change::Queued(_)
                | Change::Unqueued
                | Change::Started(_)
                | Change::StartedQueued
                | Change::Received(_)
                | Change::Completed(_)
        );
        if !of_messages {
            let gone = self.session.change(|session| session.apply(change));
            self.update_user_usage();
            return gone;
        }
        // Most changes are of messages, and most of those leave the footprint as it is.
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

    /// The session has ended: takes out the next message that was on its way to the client.
    pub(crate) fn take_unfinished(&mut self) -> Option<(PendingMessage, Option<PacketId>)> {
        let unfinished = self.session.untracked_mut().take_unfinished();
        self.update_outbound_usage();
        unfinished
    }

    /// For the parts of outbound state that end with a connection: [`Outbound::rewind`] and [`Outbound::resend`].
    pub(crate) fn outbound(&mut self) -> Option<&mut Outbound> {
        self.session.untracked_mut().outbound_mut()
    }

    /// Sets the place's timer to `at_ms`, unless it comes up sooner anyway; says whether it must be set.
    pub(crate) fn arm(&mut self, at_ms: u64) -> bool {
        self.timer.arm(at_ms)
    }

    /// The place's timer has come up; false where a sooner one has made it superfluous, or where nobody is away here.
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
    fn a_session_counts_as_long_as_it_is_there() {
        let ledger = Arc::default();
        let mut sessions = Sessions::new(ShardIndex(0), &ledger);
        let index = sessions.open("a").expect("there is room");
        assert!(ledger.held(Kind::Session) > 0);
        let before = ledger.held(Kind::Session);
        sessions.record_drop(index, DropReason::QueueFull, "t", 1);
        sessions.record_drop(index, DropReason::Expired, "t", 2);
        assert!(ledger.held(Kind::Session) > before, "what it did not get is remembered");
        sessions.end(index);
        assert!(ledger.held(Kind::Session) > 0, "its place has not been cleared");
        sessions.free_slot(index);
        assert_eq!(ledger.all(), 0);
    }

    #[test]
    fn a_session_is_found_by_identifier_and_by_key_until_it_ends() {
        let mut sessions = sessions(3);
        let index = sessions.open("a").expect("there is room");
        let key = sessions.key(index);
        assert_eq!((sessions.find("a"), sessions.at(&key)), (Some(index), Some(index)));
        assert_eq!(sessions.at(&SessionKey { shard: ShardIndex(2), ..key }), None, "that is another shard's");
        sessions.end(index);
        assert_eq!((sessions.find("a"), sessions.at(&key)), (None, None));
        let other = sessions.open("a").expect("there is room");
        assert_ne!(other, index, "what the first has left behind is still there");
        sessions.free_slot(index);
        assert_eq!(sessions.open("b"), Some(index), "the place is used again");
        assert_eq!(sessions.find("a"), Some(other));
        assert_eq!(sessions.at(&key), None, "by another session");
    }

    #[test]
    fn members_of_shared_subscriptions_see_whether_a_client_is_there() {
        let mut sessions = sessions(0);
        let index = sessions.open("a").expect("there is room");
        let place = sessions.entry(index);
        let member_credit = place.member_credit();
        assert!(!member_credit.is_online());
        place.bind(ConnectionIndex::new(7).expect("a place"));
        assert!(member_credit.is_online());
        place.unbind();
        assert!(!member_credit.is_online());
    }

    #[test]
    fn a_timer_is_set_only_for_a_sooner_deadline() {
        let mut sessions = sessions(0);
        let index = sessions.open("a").expect("there is room");
        let place = sessions.entry(index);
        assert!(place.arm(500) && !place.arm(600) && place.arm(400));
        assert!(!place.disarm(399) && place.disarm(400));
        assert!(!place.disarm(500), "that entry of the wheel has become superfluous");
    }
}
