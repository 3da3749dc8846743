//! Sessions that come out of the log when the broker starts.

use tautwire_protocol::TopicFilter;
use tautwire_session::{Journal, LogPosition, ReplayedSession};

use crate::formats;
use crate::place::SessionIndex;
use crate::sessions::{Extent, Written};
use crate::shard::Shard;

impl<J: Journal> Shard<J> {
    /// Takes on a session as the log has it. To be called before the first turn, for sessions whose client this shard
    /// [owns](tautwire_router::Exchange::owner). Says whether there was a place for it.
    ///
    /// What runs while a client is away goes on from when it left; for one that was connected when the log ended, it begins
    /// now. What is due already comes up in the first turn, when all sessions are there.
    pub fn restore(&mut self, replayed: ReplayedSession, now_ms: u64) -> bool {
        let ReplayedSession { number, session: state, left_at_ms } = replayed;
        self.hub.now_ms = now_ms;
        let Some(session) = self.hub.sessions.open(state.client_id()) else { return false };
        let extent = if state.expiry_interval_s() > 0 { Extent::All } else { Extent::WillAlone };
        let place = self.hub.sessions.place(session);
        place.restore(state, Written { number, extent, position: LogPosition::default() });
        self.hub.counters().sessions.add(1);
        self.hub.count_stored(session);
        self.restore_subscriptions(session);
        if left_at_ms.is_none() {
            // A second crash must not begin anew.
            self.hub.write_left(session);
        }
        self.wait_away(session, self.away_since(session, left_at_ms.unwrap_or(now_ms)));
        true
    }

    fn restore_subscriptions(&mut self, session: SessionIndex) {
        let subscriptions = self.hub.sessions[session].subscriptions().iter();
        let subscriptions: Vec<_> = subscriptions.map(|(filter, record)| (Box::<str>::from(filter), record)).collect();
        for (filter, record) in subscriptions {
            // It was one when it was written down.
            let Ok(filter) = TopicFilter::new(&filter) else { continue };
            let Ok(wanted) = formats::wanted(filter, record.format) else { continue };
            if record.format.is_some() {
                self.hub.contracts.want_formats();
            }
            self.hub.counters().subscriptions.add(1);
            if filter.share().is_some() {
                self.join(session, filter, wanted.filter, &record);
            } else {
                self.enter(session, wanted, &record, false);
            }
        }
    }
}
