//! What comes out of the log when the broker starts.

use std::fmt;

use tautwire_protocol::TopicFilter;
use tautwire_router::{Placement, ShardIndex};
use tautwire_session::{
    Change, ForwardTarget, LogPosition, PendingForward, Record, ReplayedSession, ReplayedState, Session, ShardNumber,
    ShardPlacement, share_of_queue, share_queue_name,
};

use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::MessageSource;
use crate::routing::transcoding;
use crate::session::sessions::{PersistedSession, PersistenceScope};
use crate::shard::Shard;

/// Why the shards cannot go on with what the log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreError {
    /// There is no place for a session.
    Sessions,
    /// There is no place for a retained message.
    Retained,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, limit) = match self {
            RestoreError::Sessions => ("a session", "limits.sessions"),
            RestoreError::Retained => ("a retained message", "limits.retained_messages or limits.retained_bytes"),
        };
        write!(f, "there is no place for {what} that was kept; raise {limit}")
    }
}

impl std::error::Error for RestoreError {}

/// Has all shards of a broker begin with what the log of its last run has led to. To be called before the first turn of any. Each
/// session goes to the shard that [owns](tautwire_router::Exchange::owner) its client now. What was on its way between shards when the
/// log ended reaches those who lived where it went.
///
/// What this changes is written down in one frame, the first of the run: after a crash all of it has happened, or nothing.
///
/// # Errors
/// See [`RestoreError`]. The shards must not be used then.
pub fn restore<M: Mode>(shards: &mut [Shard<M>], replayed: ReplayedState, now_ms: u64) -> Result<(), RestoreError> {
    let Some(exchange) = shards.first().map(|shard| shard.state.context.exchange().clone()) else { return Ok(()) };
    let placement = exchange.placement();
    let homes = ShardPlacement { shards: placement.shards() as u16, seed: placement.seed() };
    shards[0].state.log.record(Record::RunStarted(homes));

    let ReplayedState { sessions, retained, pending_forwards, homes: last_homes, last_sequence } = replayed;
    retained.into_entries(|topic, body| exchange.restore_retained(topic, body).map_err(|_| RestoreError::Retained))?;
    exchange.resume_sequence_after(last_sequence);

    for session in sessions {
        let owner = placement.owner(session.session.name());
        if !with_first_journal(shards, owner, |shard| shard.restore(session, now_ms)) {
            return Err(RestoreError::Sessions);
        }
    }
    for shard in 0..shards.len() {
        with_first_journal(shards, ShardIndex(shard as u8), Shard::restore_share_queues);
    }
    let last_placement = last_homes.and_then(|homes| Placement::checked(usize::from(homes.shards), homes.seed));
    for (to, PendingForward { message, receivers, .. }) in pending_forwards {
        match receivers {
            ForwardTarget::Subscribers => {
                let lived_there = |name: &str| last_placement.is_none_or(|last| is(last.owner(name), to));
                for shard in 0..shards.len() {
                    with_first_journal(shards, ShardIndex(shard as u8), |shard| {
                        shard.deliver_restored(&mut OutgoingPublish::of(&message), lived_there);
                    });
                }
            }
            // Its member has not been sent it, and is not connected now.
            ForwardTarget::Member(_, share) => {
                let shard = placement.owner(&share_queue_name(&share));
                with_first_journal(shards, shard, |shard| {
                    shard.restore_shared(&share, &mut OutgoingPublish::of(&message))
                });
            }
        }
    }
    for shard in 0..shards.len() {
        with_first_journal(shards, ShardIndex(shard as u8), Shard::run_overdue);
    }
    for shard in shards.iter_mut() {
        shard.state.log.begin_packet();
        shard.state.sessions.reset_positions();
    }
    shards[0].state.log.end_frame();
    Ok(())
}

/// Nothing more is for a session that is about to end.
fn remove_subscriptions(session: &mut Session) {
    while let Some(filter) = session.subscriptions().first().map(|(filter, _)| Box::from(filter)) {
        session.apply(Change::Unsubscribed(filter));
    }
}

fn is(shard: ShardIndex, number: ShardNumber) -> bool {
    u16::from(shard.0) == number.0
}

/// Has a shard do something that is written down in the journal of the first.
fn with_first_journal<M: Mode, T>(
    shards: &mut [Shard<M>],
    index: ShardIndex,
    act: impl FnOnce(&mut Shard<M>) -> T,
) -> T {
    let index = usize::from(index.0);
    if index == 0 {
        return act(&mut shards[0]);
    }
    let (first, others) = shards.split_at_mut(1);
    let (first, shard) = (&mut first[0], &mut others[index - 1]);
    first.state.log.swap_journals(&mut shard.state.log);
    let done = act(shard);
    first.state.log.swap_journals(&mut shard.state.log);
    done
}

impl<M: Mode> Shard<M> {
    /// Takes on a session as the log has it. Says whether there was a place for it.
    ///
    /// What runs while a client is away goes on from when it left; for one that was connected when the log ended, it begins
    /// now. What is due already is left to [`Shard::run_overdue`].
    fn restore(&mut self, replayed: ReplayedSession, now_ms: u64) -> bool {
        let ReplayedSession { number, session: mut state, disconnected_at_ms } = replayed;
        self.state.clock.set(now_ms);
        let sessions = &mut self.state.sessions;
        let ends = state.expiry_interval_s() == 0;
        let opened = if ends { sessions.open_unlisted(state.name()) } else { sessions.open(state.name()) };
        let Some(session) = opened else { return false };
        if ends {
            remove_subscriptions(&mut state);
        }
        let written = PersistedSession { number, extent: PersistenceScope::All, position: LogPosition::default() };
        sessions.entry(session).restore(state, written);
        self.state.count_stored(session);
        let is_queue = share_of_queue(self.state.sessions[session].name()).is_some();
        self.state.counters().sessions.add(u64::from(!is_queue));
        if ends {
            return true;
        }
        self.state.queue_all_for_spill(session);
        if is_queue {
            return true;
        }
        self.state.watch_restored(session);
        self.restore_subscriptions(session);
        if disconnected_at_ms.is_none() {
            // A second crash must not begin anew.
            M::record_disconnected(&mut self.state, session);
        }
        // A moment that has not come yet is by a clock that was wrong.
        let disconnected_at_ms = disconnected_at_ms.unwrap_or(now_ms).min(now_ms);
        self.set_offline_deadlines(session, self.offline_since(session, disconnected_at_ms));
        true
    }

    /// Puts the subscriptions of a session where messages find them.
    pub(crate) fn restore_subscriptions(&mut self, session: SessionIndex) {
        let subscriptions = self.state.sessions[session].subscriptions().iter();
        let subscriptions: Vec<_> = subscriptions.map(|(filter, record)| (Box::<str>::from(filter), record)).collect();
        for (filter, record) in subscriptions {
            // It was one when it was written down.
            let Ok(filter) = TopicFilter::new(&filter) else { continue };
            let Ok(wanted) = transcoding::requested_format(filter, record.format) else { continue };
            if record.format.is_some() {
                self.state.context.requested_formats().request();
            }
            self.state.counters().subscriptions.add(1);
            if filter.share().is_some() {
                self.join(session, filter, wanted.filter, &record);
            } else {
                self.enter(session, wanted, &record, false);
            }
        }
    }

    /// Publishes wills and ends sessions that came due while the broker was down, once all sessions are there: before a client
    /// comes back, whose will would be set aside. Those that ended with their connection end now, and so do those whose end the
    /// crash has interrupted.
    fn run_overdue(&mut self) {
        let now_ms = self.state.clock.now_ms();
        for session in self.state.sessions.indices() {
            if self.state.sessions[session].expiry_interval_s() == 0 {
                self.end_session(session);
            } else if self.state.sessions.offline(session).next_ms().is_some_and(|at_ms| at_ms <= now_ms) {
                self.run_offline_deadlines(session);
            }
        }
    }

    /// Gives a message to those subscribers for whom `lived_there` holds.
    fn deliver_restored(&mut self, outgoing: &mut OutgoingPublish<'_>, lived_there: impl Fn(&str) -> bool) {
        (outgoing.is_checked, outgoing.is_admitted) = (true, true);
        let sessions = &self.state.sessions;
        let matches =
            self.table.find_for_sessions(outgoing.message.topic, |session| lived_there(sessions[session].name()));
        let contract = self.state.config.contracts().find(outgoing.message.topic).cloned();
        self.state.deliver_to_all(&matches, contract.as_deref(), outgoing, MessageSource::Broker, 0);
    }
}
