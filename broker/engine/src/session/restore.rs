//! Restoring state from the log when the broker starts.

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

/// Why the state in the log cannot be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreError {
    /// There is no room for a session.
    Sessions,
    /// There is no room for a retained message.
    Retained,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (entry, limit) = match self {
            RestoreError::Sessions => ("a session", "limits.sessions"),
            RestoreError::Retained => ("a retained message", "limits.retained_messages or limits.retained_bytes"),
        };
        write!(f, "cannot restore {entry} from the log because the limit is reached; raise {limit}")
    }
}

impl std::error::Error for RestoreError {}

/// Restores all shards of a broker from the log of its last run. Call it before the first turn of any shard.
///
/// Each session goes to the shard that [owns](tautwire_router::Exchange::owner) its client now. Messages that were in transit to a
/// shard when the log ended are delivered to the sessions that were on it.
///
/// All changes are recorded in one frame, the first of the run: after a crash, all of them have happened, or none.
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
                let was_on_shard = |name: &str| last_placement.is_none_or(|last| is_same(last.owner(name), to));
                for shard in 0..shards.len() {
                    with_first_journal(shards, ShardIndex(shard as u8), |shard| {
                        shard.deliver_restored(&mut OutgoingPublish::of(&message), was_on_shard);
                    });
                }
            }
            // The member has not received it, and is offline now.
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

/// Removes the subscriptions of a session that is about to end.
fn remove_subscriptions(session: &mut Session) {
    while let Some(filter) = session.subscriptions().first().map(|(filter, _)| Box::from(filter)) {
        session.apply(Change::Unsubscribed(filter));
    }
}

fn is_same(shard: ShardIndex, number: ShardNumber) -> bool {
    u16::from(shard.0) == number.0
}

/// Runs `act` on a shard, recorded in the journal of the first shard.
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
    /// Restores a session from the log. Returns whether there was room for it.
    ///
    /// Offline deadlines run from the disconnection of the client, or from now if the client was connected when the log ended.
    /// Overdue ones are left to [`Shard::run_overdue`].
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
        let persisted = PersistedSession { number, extent: PersistenceScope::All, position: LogPosition::default() };
        sessions.entry(session).restore(state, persisted);
        self.state.add_stored(session);
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
            // A second crash must not restart the deadlines.
            M::record_disconnected(&mut self.state, session);
        }
        // A time in the future comes from a wrong clock.
        let disconnected_at_ms = disconnected_at_ms.unwrap_or(now_ms).min(now_ms);
        self.set_offline_deadlines(session, self.offline_since(session, disconnected_at_ms));
        true
    }

    /// Adds the subscriptions of a session to the router.
    pub(crate) fn restore_subscriptions(&mut self, session: SessionIndex) {
        let subscriptions = self.state.sessions[session].subscriptions().iter();
        let subscriptions: Vec<_> = subscriptions.map(|(filter, record)| (Box::<str>::from(filter), record)).collect();
        for (filter, record) in subscriptions {
            // It was valid when it was recorded.
            let Ok(filter) = TopicFilter::new(&filter) else { continue };
            let Ok(format_request) = transcoding::requested_format(filter, record.format) else { continue };
            if record.format.is_some() {
                self.state.context.requested_formats().request();
            }
            self.state.counters().subscriptions.add(1);
            if filter.share().is_some() {
                self.join_share(session, filter, format_request.filter, &record);
            } else {
                self.add_route(session, format_request, &record, false);
            }
        }
    }

    /// Publishes wills and ends sessions that came due while the broker was down. Runs once all sessions are restored, and before
    /// clients reconnect, which would cancel their wills. Sessions that ended with their connection end now, and so do those whose
    /// end was interrupted by the crash.
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

    /// Delivers a message to the subscribers whose session name satisfies `is_receiver`.
    fn deliver_restored(&mut self, outgoing: &mut OutgoingPublish<'_>, is_receiver: impl Fn(&str) -> bool) {
        (outgoing.is_checked, outgoing.is_admitted) = (true, true);
        let sessions = &self.state.sessions;
        let matches =
            self.table.find_for_sessions(outgoing.message.topic, |session| is_receiver(sessions[session].name()));
        let contract = self.state.config.contracts().find(outgoing.message.topic).cloned();
        self.state.deliver_to_all(&matches, contract.as_deref(), outgoing, MessageSource::Broker, 0);
    }
}
