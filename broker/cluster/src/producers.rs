//! The ways of messages into the log: one for each partition, on which one group at a time is under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Incarnation, LogSubject, PARTITIONS, Partition};
use crate::operation::{Answer, Operation, OperationId, Sequence};
use crate::outbox::{Outbox, Purpose};
use crate::queue::pop_front_if;
use crate::record::{Body, End, Group, Intent, Place, Publisher, Retain, RetainEntry, RetainedRecord};
use crate::settings::Settings;

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageOrigin {
    pub(crate) client: ClientKey,
    /// The number of the client's claim, so that nothing is told to the next service.
    pub(crate) claim: u64,
    pub(crate) what: MessageSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageSource {
    /// The client has published it; for QoS 2, with a Packet Identifier.
    Message { ticket: u64, packet_id: Option<NonZeroU16> },
    /// A will, by its number in the service.
    Will(u64),
    /// Those who run the broker have published it, by this request.
    OperatorPublish { ticket: u64 },
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) message: Vec<u8>,
    pub(crate) origin: MessageOrigin,
    /// How the message is to be retained.
    pub(crate) to_retain: Option<RetainRequest>,
    /// Since when it waits.
    pub(crate) since_ms: u64,
}

impl MessageOrigin {
    /// Of a message that no client has published.
    pub(crate) fn own(ticket: u64) -> MessageOrigin {
        MessageOrigin { client: Publisher::OPERATOR.client, claim: 0, what: MessageSource::OperatorPublish { ticket } }
    }
}

/// MessageSource is known of a message that is to be retained.
#[derive(Debug)]
pub(crate) struct RetainRequest {
    pub(crate) retain: Retain,
    pub(crate) topic: String,
    pub(crate) known: Option<Sequence>,
}

/// A message that is in the log and has to be retained now.
#[derive(Debug)]
pub(crate) struct PendingRetain {
    pub(crate) origin: MessageOrigin,
    pub(crate) record: RetainedRecord,
    /// MessageSource the topic had, as far as its publisher's node knew.
    pub(crate) known: Option<Sequence>,
}

/// A message that never comes into the log.
#[derive(Debug)]
pub(crate) struct WithdrawnMessage {
    pub(crate) origin: MessageOrigin,
    /// For QoS 2: what the session's record says of it. [`PartitionProducers::forget`] is to be called when it says so no more.
    pub(crate) intent: Option<Intent>,
}

/// How it is with the way into one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerStatus {
    /// Which.
    pub partition: Partition,
    /// Messages that wait for the next group.
    pub waiting: usize,
    /// Their bytes.
    pub waiting_bytes: usize,
    /// For how long a group has been on its way, in milliseconds, if one is.
    pub group_age_ms: Option<u64>,
}

/// MessageSource an answer has changed.
#[derive(Debug)]
pub(crate) enum ProducerEvent {
    Nothing,
    /// These are in the log, and all QoS 2 messages up to this ordinal.
    Stored {
        origins: Vec<MessageOrigin>,
        ordinal: u64,
        /// These are not safe before they are retained.
        retaining: Vec<PendingRetain>,
    },
    /// The lane has been fenced off: the node is dead.
    Fenced,
}

#[derive(Debug)]
pub(crate) struct PartitionProducers {
    producers: Vec<PartitionProducer>,
}

#[derive(Debug)]
struct PartitionProducer {
    subject: LogSubject,
    /// The last group that is in the log for sure.
    last: Option<Sequence>,
    /// Number of the last group that was made.
    number: u64,
    /// Highest ordinal in a group that was made.
    ordinal: u64,
    /// Highest ordinal that was given.
    last_intended: u64,
    /// QoS 2 messages in the order of their ordinals. The log is to have them in this order, so that one number says which are there.
    intents: VecDeque<(u64, IntentState)>,
    waiting: VecDeque<(Option<u64>, Entry)>,
    waiting_bytes: usize,
    /// Ordinals of messages that were withdrawn while a record says that they are coming. No later one is appended before the record says so no
    /// more: otherwise these would be taken for stored if the node dies.
    withdrawn: BTreeSet<u64>,
    in_flight: Option<InFlight>,
    /// Groups with messages that are in the log and not retained yet, and how many of these there are.
    unsettled: BTreeMap<Sequence, usize>,
}

#[derive(Debug)]
enum IntentState {
    /// The session's record does not know of it yet.
    Open,
    Ready(Entry),
    /// The session's record never will.
    Dropped,
}

#[derive(Debug)]
struct InFlight {
    step: Step,
    number: u64,
    ordinal: u64,
    group: Vec<u8>,
    origins: Vec<MessageOrigin>,
    retaining: Vec<PendingRetain>,
    since_ms: u64,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Appending(OperationId),
    Verifying(OperationId),
}

impl PartitionProducers {
    pub(crate) fn new(writer: Incarnation) -> PartitionProducers {
        let producer = |partition| PartitionProducer {
            subject: LogSubject { partition, writer },
            last: None,
            number: 0,
            ordinal: 0,
            last_intended: 0,
            intents: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            withdrawn: BTreeSet::new(),
            in_flight: None,
            unsettled: BTreeMap::new(),
        };
        PartitionProducers { producers: Partition::all().map(producer).collect() }
    }

    fn producer(&mut self, partition: Partition) -> &mut PartitionProducer {
        debug_assert_eq!(self.producers.len(), usize::from(PARTITIONS));
        &mut self.producers[partition.index()]
    }

    /// Whether the lane takes a message now.
    pub(crate) fn has_room(&self, partition: Partition, settings: &Settings) -> bool {
        self.producers[partition.index()].waiting_bytes < settings.waiting_max_bytes
    }

    /// A message of QoS 1 joins the next group.
    pub(crate) fn push(&mut self, partition: Partition, entry: Entry, settings: &Settings, out: &mut Outbox) {
        let producer = self.producer(partition);
        let now_ms = entry.since_ms;
        producer.join(None, entry);
        producer.begin(now_ms, settings, out);
    }

    /// Messages whose time has come and that are not on their way, with all that their clients have sent after them and that is not on its way
    /// either: they never will be. A message in a group that is on its way may be in the log, so it is neither stored nor refused before that is
    /// known.
    ///
    /// Whoever cannot be told is not refused: it would send the message again, behind what came after it.
    pub(crate) fn withdraw(
        &mut self,
        now_ms: u64,
        settings: &Settings,
        can_be_told: impl Fn(&MessageOrigin) -> bool,
    ) -> Vec<WithdrawnMessage> {
        let mut withdrawn = self.withdraw_overdue(now_ms, settings, can_be_told);
        if !is(Mutant::RefusesOne) && !withdrawn.is_empty() {
            let behind = self.withdraw_behind(&withdrawn);
            withdrawn.extend(behind);
        }
        withdrawn
    }

    fn withdraw_overdue(
        &mut self,
        now_ms: u64,
        settings: &Settings,
        can_be_told: impl Fn(&MessageOrigin) -> bool,
    ) -> Vec<WithdrawnMessage> {
        let mut withdrawn = Vec::new();
        for producer in self.producers.iter_mut().filter(|producer| producer.in_flight.is_some()) {
            let mut at = 0;
            while let Some((ordinal, entry)) = producer.waiting.get(at)
                && entry.since_ms + settings.publish_timeout_ms <= now_ms
            {
                if !can_be_told(&entry.origin) {
                    at += 1;
                    continue;
                }
                let intent = ordinal.map(|ordinal| Intent { partition: producer.subject.partition, ordinal });
                withdrawn.push(WithdrawnMessage { origin: entry.origin, intent });
                producer.withdrawn.extend(ordinal.filter(|_| !is(Mutant::PassesWithdrawn)));
                if is(Mutant::RefusesWithoutWithdrawing) {
                    at += 1;
                    continue;
                }
                producer.waiting_bytes -= entry.message.len();
                producer.waiting.remove(at);
            }
        }
        withdrawn
    }

    /// MessageSource the clients of these messages have sent after them. In the log, it would stand before them when they are sent again [MQTT-4.6.0-6].
    fn withdraw_behind(&mut self, refused: &[WithdrawnMessage]) -> Vec<WithdrawnMessage> {
        let mut firsts: BTreeMap<(ClientKey, u64), u64> = BTreeMap::new();
        for WithdrawnMessage { origin, .. } in refused {
            if let MessageSource::Message { ticket, .. } = origin.what {
                let first = firsts.entry((origin.client, origin.claim)).or_insert(ticket);
                *first = ticket.min(*first);
            }
        }
        let is_behind = |origin: &MessageOrigin| match origin.what {
            MessageSource::Message { ticket, .. } => {
                firsts.get(&(origin.client, origin.claim)).is_some_and(|first| *first < ticket)
            }
            MessageSource::Will(_) | MessageSource::OperatorPublish { .. } => false,
        };
        self.producers.iter_mut().flat_map(|producer| producer.withdraw_behind(is_behind)).collect()
    }

    /// A QoS 2 message of which the record has just come to know is withdrawn. [`forget`](Self::forget) is to be called as for others.
    pub(crate) fn withdraw_intended(&mut self, now_ms: u64, intent: Intent, settings: &Settings, out: &mut Outbox) {
        self.producer(intent.partition).withdrawn.insert(intent.ordinal);
        self.resolve(now_ms, intent.partition, intent.ordinal, None, settings, out);
    }

    /// No record says any more that this message is coming.
    pub(crate) fn forget(&mut self, now_ms: u64, intent: Intent, settings: &Settings, out: &mut Outbox) {
        let producer = self.producer(intent.partition);
        producer.withdrawn.remove(&intent.ordinal);
        producer.begin(now_ms, settings, out);
    }

    /// A message of this group has been retained.
    pub(crate) fn settled(&mut self, partition: Partition, group: Sequence) {
        let producer = self.producer(partition);
        if let Some(count) = producer.unsettled.get_mut(&group) {
            *count -= 1;
            if *count == 0 {
                producer.unsettled.remove(&group);
            }
        }
    }

    /// Where all lanes end, if nothing is under way.
    pub(crate) fn ends(&self) -> Option<Box<[End; PARTITIONS as usize]>> {
        let mut ends = Box::new([End::default(); PARTITIONS as usize]);
        for (end, producer) in ends.iter_mut().zip(&self.producers) {
            let is_idle = producer.in_flight.is_none()
                && producer.waiting.is_empty()
                && producer.intents.is_empty()
                && producer.withdrawn.is_empty()
                && producer.unsettled.is_empty();
            if !is_idle {
                return None;
            }
            *end = End { group: producer.number, ordinal: producer.ordinal };
        }
        Some(ends)
    }

    pub(crate) fn status(&self, now_ms: u64) -> Vec<ProducerStatus> {
        let status = |producer: &PartitionProducer| ProducerStatus {
            partition: producer.subject.partition,
            waiting: producer.waiting.len(),
            waiting_bytes: producer.waiting_bytes,
            group_age_ms: producer.in_flight.as_ref().map(|group| now_ms.saturating_sub(group.since_ms)),
        };
        self.producers.iter().map(status).collect()
    }

    /// A place among the QoS 2 messages of a partition. It has to be made ready or dropped, because those behind it wait.
    pub(crate) fn intend(&mut self, partition: Partition) -> u64 {
        let producer = self.producer(partition);
        producer.last_intended += 1;
        producer.intents.push_back((producer.last_intended, IntentState::Open));
        producer.last_intended
    }

    /// The session's record knows of the message: it may be appended. Without one, it never will be.
    pub(crate) fn resolve(
        &mut self,
        now_ms: u64,
        partition: Partition,
        ordinal: u64,
        entry: Option<Entry>,
        settings: &Settings,
        out: &mut Outbox,
    ) {
        let producer = self.producer(partition);
        if let Some((_, intended)) = producer.intents.iter_mut().find(|(number, _)| *number == ordinal) {
            *intended = entry.map_or(IntentState::Dropped, IntentState::Ready);
        }
        while let Some((ordinal, intended)) =
            pop_front_if(&mut producer.intents, |(_, state)| !matches!(state, IntentState::Open))
        {
            if let IntentState::Ready(entry) = intended {
                producer.join(Some(ordinal), Entry { since_ms: now_ms, ..entry });
            }
        }
        producer.begin(now_ms, settings, out);
    }

    pub(crate) fn answer(
        &mut self,
        now_ms: u64,
        partition: Partition,
        id: OperationId,
        answer: &Answer,
        settings: &Settings,
        out: &mut Outbox,
    ) -> ProducerEvent {
        self.producer(partition).answer(now_ms, id, answer, settings, out)
    }
}

impl PartitionProducer {
    fn join(&mut self, ordinal: Option<u64>, entry: Entry) {
        self.waiting_bytes += entry.message.len();
        self.waiting.push_back((ordinal, entry));
    }

    fn withdraw_behind(&mut self, is_behind: impl Fn(&MessageOrigin) -> bool) -> Vec<WithdrawnMessage> {
        let partition = self.subject.partition;
        let mut withdrawn = Vec::new();
        let mut withdraw = |ordinal: Option<u64>, entry: &Entry| {
            let intent = ordinal.map(|ordinal| Intent { partition, ordinal });
            withdrawn.push(WithdrawnMessage { origin: entry.origin, intent });
            self.withdrawn.extend(ordinal);
        };
        self.waiting.retain(|(ordinal, entry)| {
            let stays = !is_behind(&entry.origin);
            if !stays {
                withdraw(*ordinal, entry);
                self.waiting_bytes -= entry.message.len();
            }
            stays
        });
        for (ordinal, intended) in &mut self.intents {
            if let IntentState::Ready(entry) = intended
                && is_behind(&entry.origin)
            {
                withdraw(Some(*ordinal), entry);
                *intended = IntentState::Dropped;
            }
        }
        withdrawn
    }

    /// Makes a group of what waits, unless one is under way.
    fn begin(&mut self, now_ms: u64, settings: &Settings, out: &mut Outbox) {
        let barrier = self.withdrawn.first().copied().unwrap_or(u64::MAX);
        let may_go = |ordinal: Option<u64>| ordinal.is_none_or(|ordinal| ordinal < barrier);
        if self.in_flight.is_some() || self.waiting.front().is_none_or(|(ordinal, _)| !may_go(*ordinal)) {
            return;
        }
        let (mut messages, mut origins, mut bytes) = (Vec::new(), Vec::new(), 0);
        let (mut to_retain, mut retaining) = (Vec::new(), Vec::new());
        while let Some((ordinal, entry)) = pop_front_if(&mut self.waiting, |(ordinal, entry)| {
            messages.is_empty()
                || may_go(*ordinal)
                    && messages.len() < settings.group_messages_max
                    && bytes + entry.message.len() <= settings.group_max_bytes
        }) {
            bytes += entry.message.len();
            self.ordinal = ordinal.unwrap_or(self.ordinal);
            match entry.to_retain {
                None => origins.push(entry.origin),
                Some(RetainRequest { retain, topic, known }) => {
                    // Where the group is going to stand is known when it stands there.
                    let place = Place { index: messages.len() as u32, ..Place::START };
                    to_retain.push(RetainEntry { index: place.index, retain, topic: topic.clone() });
                    let record = RetainedRecord::of(place, retain, topic, &entry.message);
                    retaining.push(PendingRetain { origin: entry.origin, record, known });
                }
            }
            messages.push(entry.message);
        }
        self.waiting_bytes -= bytes;
        self.number += 1;
        let unsettled = self.unsettled.keys().next().copied();
        let body = Body::Messages { messages, to_retain };
        let (number, ordinal) = (self.number, self.ordinal);
        let group = Group { number, ordinal, unsettled, body }.encode();
        let step = self.append(&group, out);
        self.in_flight = Some(InFlight { step, number, ordinal, group, origins, retaining, since_ms: now_ms });
    }

    fn append(&self, group: &[u8], out: &mut Outbox) -> Step {
        let append = Operation::Append { subject: self.subject, expected: self.last, group: group.to_vec() };
        Step::Appending(out.ask(Purpose::PartitionProducer(self.subject.partition), append))
    }

    fn answer(
        &mut self,
        now_ms: u64,
        id: OperationId,
        answer: &Answer,
        settings: &Settings,
        out: &mut Outbox,
    ) -> ProducerEvent {
        let Some(in_flight) = &mut self.in_flight else { return ProducerEvent::Nothing };
        match (in_flight.step, answer) {
            (Step::Appending(op), Answer::Appended(sequence)) if op == id => {
                self.stored(now_ms, *sequence, settings, out)
            }
            (Step::Verifying(op), Answer::Last(found)) if op == id => {
                self.check_record(now_ms, found.as_ref(), settings, out)
            }
            (Step::Appending(op) | Step::Verifying(op), answer) if op == id => {
                if is(Mutant::TrustsUnknownGroups) && *answer == Answer::Unknown {
                    let last = self.last.unwrap_or(Sequence(0));
                    return self.stored(now_ms, last, settings, out);
                }
                let look = Operation::Last(self.subject);
                in_flight.step = Step::Verifying(out.ask(Purpose::PartitionProducer(self.subject.partition), look));
                ProducerEvent::Nothing
            }
            _ => ProducerEvent::Nothing,
        }
    }

    /// The fate of a group was unknown: the last one on the subject tells it.
    fn check_record(
        &mut self,
        now_ms: u64,
        found: Option<&(Sequence, Vec<u8>)>,
        settings: &Settings,
        out: &mut Outbox,
    ) -> ProducerEvent {
        let Some(mut in_flight) = self.in_flight.take() else { return ProducerEvent::Nothing };
        match found.map(|(sequence, group)| (*sequence, Group::decode(group))) {
            Some((sequence, Ok(Group { number, body: Body::Messages { .. }, .. })))
                if number == in_flight.number && !is(Mutant::AppendsTwice) =>
            {
                self.in_flight = Some(in_flight);
                self.stored(now_ms, sequence, settings, out)
            }
            Some((sequence, Ok(Group { body: Body::Messages { .. }, .. }))) => {
                // It is not there, at least not yet. If it comes after all, this attempt is refused.
                self.last = Some(sequence);
                in_flight.step = self.append(&in_flight.group, out);
                self.in_flight = Some(in_flight);
                ProducerEvent::Nothing
            }
            // There was none yet, or all have gone out of the log by age, which takes longer than any append.
            None => {
                self.last = None;
                in_flight.step = self.append(&in_flight.group, out);
                self.in_flight = Some(in_flight);
                ProducerEvent::Nothing
            }
            // A fence, or something that only a fault of the store explains.
            _ => ProducerEvent::Fenced,
        }
    }

    fn stored(&mut self, now_ms: u64, sequence: Sequence, settings: &Settings, out: &mut Outbox) -> ProducerEvent {
        let Some(mut in_flight) = self.in_flight.take() else { return ProducerEvent::Nothing };
        self.last = Some(sequence);
        in_flight.retaining.iter_mut().for_each(|retaining| retaining.record.place.sequence = sequence);
        if !in_flight.retaining.is_empty() {
            self.unsettled.insert(sequence, in_flight.retaining.len());
        }
        self.begin(now_ms, settings, out);
        let InFlight { origins, ordinal, retaining, .. } = in_flight;
        ProducerEvent::Stored { origins, ordinal, retaining }
    }
}
