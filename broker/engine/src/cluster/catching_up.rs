//! A session that is behind reads for itself.

use tautwire_cluster::record::Place;
use tautwire_protocol::QoS;
use tautwire_session::Journal;

use super::fetching::read;
use super::port::Span;
use super::room::{LogPlace, Reader, behind};
use crate::frames::Outgoing;
use crate::mutant::{Mutant, is};
use crate::place::SessionIndex;
use crate::route::Publisher;
use crate::shard::Shard;

impl<J: Journal> Shard<J> {
    /// A part of the log has been read.
    pub(super) fn take_read(&mut self, number: u64, span: &Span) {
        let Some(room) = &mut self.hub.cluster else { return };
        match room.end_read(number) {
            Some(Reader::Session(session)) => self.walk(session, span),
            Some(Reader::Claim(id)) => self.take_fetched(id, span),
            None => {}
        }
    }

    /// Offers a part of the log to a session that is behind.
    fn walk(&mut self, session: SessionIndex, span: &Span) {
        let partition = span.partition;
        let Some(room) = &mut self.hub.cluster else { return };
        let Some(from) = room.begin_walk(session, partition) else { return room.has_room(session) };
        let client = room.served(session).map(|served| served.client());
        self.count_lost(span);
        let mut next = from;
        for message in span.messages.iter().filter(|message| from <= message.place) {
            let at = LogPlace { partition, place: message.place };
            if let Some(parts) = read(message, span)
                && !parts.is_expired(self.hub.clock.now_ms())
            {
                let own = (client == Some(message.publisher)).then_some(session);
                if !self.offer(
                    session,
                    at,
                    Outgoing { is_checked: true, is_admitted: true, ..Outgoing::new(parts) },
                    own,
                ) {
                    break;
                }
            }
            next = behind(at.place);
        }
        let is_all = span.messages.last().is_none_or(|last| last.place < next);
        let end = Place { sequence: span.until, index: 0 };
        let Some(room) = &mut self.hub.cluster else { return };
        room.end_walk();
        let next = if is_all { next.max(end) } else { next };
        let joins = is_all && is(Mutant::JoinsTooEarly);
        let stands_at = if joins { room.position(partition) } else { next };
        room.stand(session, partition, stands_at);
        if is_all {
            room.has_room(session);
        }
        self.settle_overruns();
    }

    /// Gives the session a message if it wants it; false where it has no room for it.
    fn offer(
        &mut self,
        session: SessionIndex,
        at: LogPlace,
        mut outgoing: Outgoing<'_>,
        own: Option<SessionIndex>,
    ) -> bool {
        if outgoing.message.qos == QoS::AtMostOnce {
            return true;
        }
        let topic = outgoing.message.topic;
        // Copies of QoS 0 were for those who were there.
        let matches = self.table.find_acknowledged(topic, session);
        let contract = self.hub.regime.contracts().find(topic).cloned();
        self.hub.deliver_to_all(&matches, contract.as_deref(), &mut outgoing, Publisher::Log(own), 0);
        self.hub.cluster.as_mut().is_some_and(|room| !room.take_held(session, at))
    }
}
