//! A shard's connections and sessions, and the ways in which bytes and changes reach them.

use std::collections::VecDeque;
use std::sync::Arc;

use tautwire_contracts::Catalogue;
use tautwire_memory::Share;
use tautwire_message::MessageIds;
use tautwire_protocol::Packet;
use tautwire_router::{Exchange, ShardIndex};
use tautwire_session::{Change, Journal, LogPosition, PendingMessage, Record, RetainedChange, SessionNumber};

use crate::access::Access;
use crate::account::Spare;
use crate::cold::ColdRoom;
use crate::connections::{Connections, OutputPool, Reason};
use crate::contracts::ViolationLog;
use crate::counters::{Counter, Counters, Totals};
use crate::drops::DropReason;
use crate::formats::WantedFormats;
use crate::frames::{Frames, Outgoing};
use crate::jobs::Jobs;
use crate::mutant::{Mutant, is};
use crate::place::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::quotas::{Departed, Flapping, Quotas, Users};
use crate::scans::Scans;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::survey::Surveys;
use crate::terms::TermsBook;
use crate::transit::Transit;
use crate::waiting::Waiting;
use crate::wheel::{Timer, Wheel};

/// A deadline further away is looked at before it comes: entries are never taken out of the wheel, so one for a far moment
/// would stay long after its connection or session.
const LOOK_AGAIN_MS: u64 = 60_000;

/// Something that the engine wants done with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Write what is pending, then close; give the client time to read it.
    Close(ConnectionId),
    /// Close at once: the client has said goodbye.
    Drop(ConnectionId),
    /// Take the connection to another shard, with the bytes that have not been consumed, and forget it here.
    Move(ConnectionId, ShardIndex),
    /// Read again: first what was not consumed, then the socket.
    Resume(ConnectionId),
    /// Read what has come on the first connection, which is about to be taken over, and only then bring the second one's
    /// unconsumed bytes again.
    HearFirst(ConnectionId, ConnectionId),
    /// Find out who the client is: take [`Shard::take_question`](crate::Shard::take_question), and give the verdict to
    /// [`Shard::decide`](crate::Shard::decide), at once or later.
    Ask(ConnectionId),
}

/// All of a shard but its subscriptions.
pub(crate) struct Hub<J> {
    pub(crate) settings: Arc<Settings>,
    /// What clients have been told of the settings.
    pub(crate) terms: TermsBook,
    /// What each client may do.
    pub(crate) quotas: Quotas,
    /// Somebody may publish only so fast.
    pub(crate) paces_publishers: bool,
    /// What clients that have gone had left of their rates.
    pub(crate) departed: Departed,
    /// What the clients of each user hold together, where there are quotas of users.
    pub(crate) users: Arc<Users>,
    /// Clients whose connections break off, where they are held back for it.
    pub(crate) flapping: Option<Flapping>,
    pub(crate) exchange: Arc<Exchange>,
    /// What messages must keep to.
    pub(crate) contracts: Arc<Catalogue>,
    /// Whether anybody has wanted payloads in a format of their own.
    pub(crate) wanted_formats: Arc<WantedFormats>,
    /// What clients may do.
    pub(crate) access: Access,
    pub(crate) shard: ShardIndex,
    pub(crate) journal: J,
    /// The last frame with a record of what the packet at hand has brought about.
    pub(crate) noted: LogPosition,
    pub(crate) connections: Connections,
    pub(crate) sessions: Sessions,
    pub(crate) transit: Transit,
    pub(crate) wheel: Wheel,
    /// What this shard's clients hold, and what still fits.
    pub(crate) memory: Share,
    pub(crate) message_ids: MessageIds,
    pub(crate) pool: OutputPool,
    pub(crate) frames: Frames,
    /// Messages given so far: to connections to write, and to sessions to keep.
    pub(crate) given: u64,
    /// Subscriptions looked at so far.
    pub(crate) visited: u64,
    /// Bytes written in this turn.
    pub(crate) written_bytes: usize,
    /// Packets taken in this turn.
    pub(crate) packets: usize,
    /// The log has failed, and those who relied on it have been told.
    pub(crate) knows_of_failure: bool,
    /// How far the log was when those who waited for it were last told.
    pub(crate) released: u64,
    /// Connections with acknowledgements that wait for the journal.
    pub(crate) holding: Vec<ConnectionIndex>,
    /// Connections all of whose output does.
    pub(crate) gated: Vec<ConnectionIndex>,
    /// Who is not heard, and why.
    pub(crate) waiting: Waiting,
    /// Connections whose session's queue has run over and that are to be ended for it.
    pub(crate) overrun: Vec<ConnectionId>,
    pub(crate) actions: VecDeque<Action>,
    /// Work that goes on over several turns.
    pub(crate) jobs: Jobs,
    pub(crate) all_counters: Arc<[Counters]>,
    pub(crate) now_ms: u64,
    /// What this shard may still take.
    pub(crate) spare: Spare,
    pub(crate) violation_log: ViolationLog,
    pub(crate) scans: Scans,
    /// What operators want to know.
    pub(crate) surveys: Surveys,
    /// Messages that are not in memory.
    pub(crate) cold: ColdRoom,
}

impl<J: Journal> Hub<J> {
    pub(crate) fn new(shard: ShardIndex, shared: Shared, journal: J, now_ms: u64) -> Hub<J> {
        let Shared { board, exchange, wanted_formats, memory, throttle, users, run, counters: all_counters, .. } =
            shared;
        let regime = board.current();
        let settings = regime.settings.clone();
        let memory = Share::new(memory, usize::from(shard.0));
        let spare = Spare::new(settings.connection_output_bytes, throttle);
        let transit = Transit::new(exchange.shards());
        let quotas = settings.quotas();
        let flapping = settings.flapping().map(Flapping::new);
        Hub {
            terms: TermsBook::new(&settings),
            settings,
            paces_publishers: quotas.pace_publishers(),
            quotas,
            departed: Departed::default(),
            users,
            flapping,
            exchange,
            contracts: regime.contracts.clone(),
            wanted_formats,
            access: Access::new(&regime),
            shard,
            journal,
            noted: LogPosition::default(),
            knows_of_failure: false,
            released: 0,
            sessions: Sessions::new(shard, memory.ledger()),
            connections: Connections::new(memory.ledger()),
            transit,
            wheel: Wheel::new(now_ms),
            pool: OutputPool::new(memory.ledger()),
            memory,
            message_ids: MessageIds::new(run.wrapping_add(u64::from(shard.0))),
            frames: Frames::default(),
            given: 0,
            visited: 0,
            written_bytes: 0,
            packets: 0,
            holding: Vec::new(),
            gated: Vec::new(),
            waiting: Waiting::default(),
            overrun: Vec::new(),
            actions: VecDeque::new(),
            jobs: Jobs::default(),
            all_counters,
            now_ms,
            spare,
            violation_log: ViolationLog::default(),
            scans: Scans::default(),
            surveys: Surveys::default(),
            cold: ColdRoom::default(),
        }
    }

    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.all_counters[usize::from(self.shard.0)]
    }

    /// One counter over all shards.
    pub(crate) fn sum(&self, counter: impl Fn(&Counters) -> &Counter) -> u64 {
        self.all_counters.iter().fold(0, |sum, counters| sum.wrapping_add(counter(counters).get()))
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals::of(self.all_counters.iter())
    }

    // Connections.

    pub(crate) fn id(&self, index: ConnectionIndex) -> ConnectionId {
        self.connections.id(index)
    }

    /// Reads again from a connection for which `reason` is gone, if it is still there.
    #[cold]
    pub(crate) fn hear_again(&mut self, id: ConnectionId, reason: Reason) {
        let now_ms = self.now_ms;
        if let Some(connection) = self.connections.get(id)
            && connection.let_go(reason, now_ms)
        {
            self.actions.push_back(Action::Resume(id));
        }
    }

    /// A place for a new connection; `None` where there is none.
    pub(crate) fn open_connection(&mut self) -> Option<ConnectionIndex> {
        let index = self.connections.open(self.now_ms)?;
        self.connections[index].set_ack_level(self.settings.acks.default);
        self.counters().connections.add(1);
        let deadline_ms = self.now_ms + u64::from(self.settings.connect_timeout_s) * 1000;
        self.arm_connection(index, deadline_ms);
        Some(index)
    }

    /// Frees the place. The owner of the socket has closed it or given it away.
    pub(crate) fn vacate(&mut self, index: ConnectionIndex) {
        self.discard_output(index);
        self.put_output_away(index);
        self.connections.vacate(index);
        self.counters().connections.subtract(1);
    }

    /// Forgets what waits to be written.
    pub(crate) fn discard_output(&mut self, index: ConnectionIndex) {
        if let Some(output) = self.connections[index].output() {
            output.clear();
            let fewer = output.count();
            self.counters().output_bytes.add(fewer);
        }
    }

    /// All output has been written: the connection needs no buffer.
    #[inline]
    pub(crate) fn put_output_away(&mut self, index: ConnectionIndex) {
        self.connections[index].put_output_away(&mut self.pool);
    }

    /// Makes sure that the connection is looked at no later than `at_ms`.
    pub(crate) fn arm_connection(&mut self, index: ConnectionIndex, at_ms: u64) {
        let at_ms = at_ms.min(self.now_ms + LOOK_AGAIN_MS);
        if self.connections[index].arm(at_ms) {
            self.wheel.arm(Timer::Connection(index), at_ms);
        }
    }

    #[inline]
    pub(crate) fn mark_fresh(&mut self, index: ConnectionIndex) {
        if J::KEEPS && self.connections[index].is_gated() {
            return;
        }
        self.connections.mark_fresh(index);
    }

    /// Lets `write` append to the connection's output.
    #[inline]
    pub(crate) fn write(&mut self, index: ConnectionIndex, write: impl FnOnce(&mut Vec<u8>)) {
        self.connections[index].output_or_take(&mut self.pool).append(write);
        self.mark_fresh(index);
    }

    /// Appends a control packet; false where it is larger than the client accepts [MQTT-3.1.2-24] or cannot be said in
    /// the connection's version.
    pub(crate) fn write_packet(&mut self, index: ConnectionIndex, packet: &Packet<'_>) -> bool {
        let terms = *self.connections[index].agreement();
        let version = terms.version;
        if let Some(maximum) = terms.maximum_packet_size_bytes
            && packet.encoded_len(version).is_ok_and(|len| len > maximum.get() as usize)
        {
            return false;
        }
        let mut result = Ok(0);
        self.write(index, |tail| result = packet.append_to(version, tail));
        if let Err(error) = &result {
            log::error!("{:?} could not be said in {version}: {error}", packet.packet_type());
        }
        self.counters().packets_sent.add(u64::from(result.is_ok()));
        result.is_ok()
    }

    // Sessions.

    /// A new session; `None` where there is no place for it.
    pub(crate) fn open_session(&mut self, name: &str) -> Option<SessionIndex> {
        let index = self.sessions.open(name)?;
        self.counters().sessions.add(1);
        Some(index)
    }

    /// The session is no more. What it leaves behind has to be cleared away. Gives what the log calls it, where that has it until
    /// then.
    pub(crate) fn end_session(&mut self, index: SessionIndex) -> Option<SessionNumber> {
        let number = self.write_ended(index);
        self.sessions.end(index);
        self.counters().sessions.subtract(1);
        number
    }

    pub(crate) fn arm_session(&mut self, index: SessionIndex, at_ms: u64) {
        let at_ms = at_ms.min(self.now_ms + LOOK_AGAIN_MS);
        if self.sessions.place(index).arm(at_ms) {
            self.wheel.arm(Timer::Session(index), at_ms);
        }
    }

    /// Remembers that a session did not get a message, for operators who ask why.
    #[cold]
    pub(crate) fn note_drop(&mut self, session: SessionIndex, reason: DropReason, topic: &str) {
        let now_ms = self.now_ms;
        self.sessions.note_drop(session, reason, topic, now_ms);
    }

    /// Writes a change down, if it is one that lasts, and applies it.
    pub(crate) fn commit(&mut self, index: SessionIndex, change: Change) {
        if let Change::Queued(delivery) | Change::Started(delivery) = &change {
            self.given += 1;
            self.counters().stored_messages.add(1);
            self.counters().stored_bytes.add(delivery.counted_bytes() as u64);
        }
        self.write_down(index, &change);
        let queues = J::KEEPS && matches!(change, Change::Queued(_));
        let sends = J::KEEPS && matches!(change, Change::Started(_) | Change::StartedQueued);
        if let Some(gone) = self.sessions.place(index).apply(change) {
            self.uncount_stored(&gone);
        }
        if queues {
            self.list_for_cooling(index);
        }
        if queues || sends {
            self.rest_before_cooling(index);
        }
    }

    /// Writes down what a message has changed of the retained messages. Those of `$SYS` are made anew after a restart.
    pub(crate) fn record_retained(&mut self, outgoing: &Outgoing<'_>, sequence: u64) {
        if !J::KEEPS || outgoing.message.topic.starts_with("$SYS/") || is(Mutant::ForgetsRetained) {
            return;
        }
        let change = match &outgoing.kept {
            Some(message) if !outgoing.message.payload.is_empty() => RetainedChange::Set(message.clone()),
            _ => RetainedChange::Cleared(outgoing.message.topic.into()),
        };
        self.noted = self.journal.record(Record::Retained { sequence, change: &change });
    }

    /// Counts all messages of a session that is taken on as a whole.
    pub(crate) fn count_stored(&self, session: SessionIndex) {
        let Some(outbound) = self.sessions[session].outbound() else { return };
        self.counters().stored_messages.add(outbound.messages() as u64);
        self.counters().stored_bytes.add(outbound.counted_bytes() as u64);
    }

    pub(crate) fn uncount_stored(&self, delivery: &PendingMessage) {
        self.counters().stored_messages.subtract(1);
        self.counters().stored_bytes.subtract(delivery.counted_bytes() as u64);
    }
}
