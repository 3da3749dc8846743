//! The producers of the log: one for each partition, each with at most one group in flight.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Incarnation, LogSubject, PARTITIONS, Partition};
use crate::numbers::Sequence;
use crate::operation::{Answer, Operation, OperationId};
use crate::outbox::{Outbox, Purpose};
use crate::queue::pop_front_if;
use crate::record::{Body, End, Group, Intent, Place, Publisher, Retain, RetainEntry, RetainedRecord};
use crate::settings::Settings;

/// The origin of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageOrigin {
    pub(crate) client: ClientKey,
    /// The number of the client's claim, so that no later service receives the answer.
    pub(crate) claim: u64,
    pub(crate) what: MessageSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageSource {
    /// Published by the client; with a Packet Identifier for QoS 2.
    Message { ticket: u64, packet_id: Option<NonZeroU16> },
    /// A will, by its number in the service.
    Will(u64),
    /// Published by an operator, by this request.
    OperatorPublish { ticket: u64 },
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) message: Vec<u8>,
    pub(crate) origin: MessageOrigin,
    /// How to retain the message.
    pub(crate) to_retain: Option<RetainRequest>,
    /// The time since which it waits.
    pub(crate) since_ms: u64,
}

impl MessageOrigin {
    /// Creates the origin of an operator's message.
    pub(crate) fn own(ticket: u64) -> MessageOrigin {
        MessageOrigin { client: Publisher::OPERATOR.client, claim: 0, what: MessageSource::OperatorPublish { ticket } }
    }
}

/// How to retain a message.
#[derive(Debug)]
pub(crate) struct RetainRequest {
    pub(crate) retain: Retain,
    pub(crate) topic: String,
    pub(crate) known: Option<Sequence>,
}

/// A message in the log that must be retained now.
#[derive(Debug)]
pub(crate) struct PendingRetain {
    pub(crate) origin: MessageOrigin,
    pub(crate) record: RetainedRecord,
    /// The sequence of the topic's retained message, as far as its publisher's node knew.
    pub(crate) known: Option<Sequence>,
}

/// A message that will never be in the log.
#[derive(Debug)]
pub(crate) struct WithdrawnMessage {
    pub(crate) origin: MessageOrigin,
    /// For QoS 2: the intent in the session's record. Call [`PartitionProducers::forget`] when the record no longer has it.
    pub(crate) intent: Option<Intent>,
}

/// The state of the producer of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerStatus {
    /// The partition.
    pub partition: Partition,
    /// Messages that wait for the next group.
    pub waiting: usize,
    /// The bytes of these messages.
    pub waiting_bytes: usize,
    /// The age of the group in flight in milliseconds, if there is one.
    pub group_age_ms: Option<u64>,
}

/// The effect of an answer.
#[derive(Debug)]
pub(crate) enum ProducerEvent {
    Nothing,
    /// These are in the log, and all QoS 2 messages up to this ordinal.
    Stored {
        origins: Vec<MessageOrigin>,
        ordinal: u64,
        /// These are persisted only when they are retained.
        retaining: Vec<PendingRetain>,
    },
    /// The partition was fenced: other nodes have declared this one dead.
    Fenced,
}

#[derive(Debug)]
pub(crate) struct PartitionProducers {
    producers: Vec<PartitionProducer>,
}

#[derive(Debug)]
struct PartitionProducer {
    subject: LogSubject,
    /// The last group that is known to be in the log.
    last: Option<Sequence>,
    /// The number of the last group.
    number: u64,
    /// The highest ordinal in a group.
    ordinal: u64,
    /// The highest ordinal that was assigned.
    last_intended: u64,
    /// QoS 2 messages in the order of their ordinals. They must be appended in this order, so that one number tells which are in the log.
    intents: VecDeque<(u64, IntentState)>,
    waiting: VecDeque<(Option<u64>, Entry)>,
    waiting_bytes: usize,
    /// Ordinals of withdrawn messages that a record still announces. No later one is appended until the record no longer does: otherwise,
    /// these would count as stored if the node died.
    withdrawn: BTreeSet<u64>,
    in_flight: Option<InFlight>,
    /// Groups in the log with messages that are not retained yet, and their number.
    unsettled: BTreeMap<Sequence, usize>,
}

#[derive(Debug)]
enum IntentState {
    /// The session's record does not have it yet.
    Open,
    Ready(Entry),
    /// The session's record will never have it.
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

    /// Whether a partition accepts a message now.
    pub(crate) fn has_room(&self, partition: Partition, settings: &Settings) -> bool {
        self.producers[partition.index()].waiting_bytes < settings.waiting_max_bytes
    }

    /// Adds a QoS 1 message to the next group.
    pub(crate) fn push(&mut self, partition: Partition, entry: Entry, settings: &Settings, out: &mut Outbox) {
        let producer = self.producer(partition);
        let now_ms = entry.since_ms;
        producer.join(None, entry);
        producer.begin(now_ms, settings, out);
    }

    /// Withdraws overdue messages that are not in flight, with all later messages of the same clients that are not in flight: they will
    /// never be in the log. A message of a group in flight may be in the log, so it is neither stored nor rejected until that is known.
    ///
    /// A message whose client cannot be notified is not rejected: the client would send it again, after later ones.
    pub(crate) fn withdraw(
        &mut self,
        now_ms: u64,
        settings: &Settings,
        can_notify: impl Fn(&MessageOrigin) -> bool,
    ) -> Vec<WithdrawnMessage> {
        let mut withdrawn = self.withdraw_overdue(now_ms, settings, can_notify);
        if !is(Mutant::RefusesOnlyOne) && !withdrawn.is_empty() {
            let behind = self.withdraw_following(&withdrawn);
            withdrawn.extend(behind);
        }
        withdrawn
    }

    fn withdraw_overdue(
        &mut self,
        now_ms: u64,
        settings: &Settings,
        can_notify: impl Fn(&MessageOrigin) -> bool,
    ) -> Vec<WithdrawnMessage> {
        let mut withdrawn = Vec::new();
        for producer in self.producers.iter_mut().filter(|producer| producer.in_flight.is_some()) {
            let mut at = 0;
            while let Some((ordinal, entry)) = producer.waiting.get(at)
                && entry.since_ms + settings.publish_timeout_ms <= now_ms
            {
                if !can_notify(&entry.origin) {
                    at += 1;
                    continue;
                }
                let intent = ordinal.map(|ordinal| Intent { partition: producer.subject.partition, ordinal });
                withdrawn.push(WithdrawnMessage { origin: entry.origin, intent });
                producer.withdrawn.extend(ordinal.filter(|_| !is(Mutant::AppendsAfterRefusal)));
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

    /// Withdraws later messages of the same clients. In the log, they would precede those messages when these are sent again
    /// [MQTT-4.6.0-6].
    fn withdraw_following(&mut self, refused: &[WithdrawnMessage]) -> Vec<WithdrawnMessage> {
        let mut firsts: BTreeMap<(ClientKey, u64), u64> = BTreeMap::new();
        for WithdrawnMessage { origin, .. } in refused {
            if let MessageSource::Message { ticket, .. } = origin.what {
                let first = firsts.entry((origin.client, origin.claim)).or_insert(ticket);
                *first = ticket.min(*first);
            }
        }
        let is_following = |origin: &MessageOrigin| match origin.what {
            MessageSource::Message { ticket, .. } => {
                firsts.get(&(origin.client, origin.claim)).is_some_and(|first| *first < ticket)
            }
            MessageSource::Will(_) | MessageSource::OperatorPublish { .. } => false,
        };
        self.producers.iter_mut().flat_map(|producer| producer.withdraw_following(is_following)).collect()
    }

    /// Withdraws a QoS 2 message whose intent was just recorded. Call [`forget`](Self::forget) as for others.
    pub(crate) fn withdraw_intended(&mut self, now_ms: u64, intent: Intent, settings: &Settings, out: &mut Outbox) {
        self.producer(intent.partition).withdrawn.insert(intent.ordinal);
        self.resolve(now_ms, intent.partition, intent.ordinal, None, settings, out);
    }

    /// The intent is no longer in any record.
    pub(crate) fn forget(&mut self, now_ms: u64, intent: Intent, settings: &Settings, out: &mut Outbox) {
        let producer = self.producer(intent.partition);
        producer.withdrawn.remove(&intent.ordinal);
        producer.begin(now_ms, settings, out);
    }

    /// A message of this group was retained.
    pub(crate) fn settled(&mut self, partition: Partition, group: Sequence) {
        let producer = self.producer(partition);
        if let Some(count) = producer.unsettled.get_mut(&group) {
            *count -= 1;
            if *count == 0 {
                producer.unsettled.remove(&group);
            }
        }
    }

    /// Returns the ends of all partitions, if nothing is in flight.
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

    /// Reserves an ordinal for a QoS 2 message. It must be resolved, because later ones wait for it.
    pub(crate) fn intend(&mut self, partition: Partition) -> u64 {
        let producer = self.producer(partition);
        producer.last_intended += 1;
        producer.intents.push_back((producer.last_intended, IntentState::Open));
        producer.last_intended
    }

    /// Resolves an ordinal: with an entry, the session's record has the intent and the message may be appended; without, it never will be.
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

    fn withdraw_following(&mut self, is_following: impl Fn(&MessageOrigin) -> bool) -> Vec<WithdrawnMessage> {
        let partition = self.subject.partition;
        let mut withdrawn = Vec::new();
        let mut withdraw = |ordinal: Option<u64>, entry: &Entry| {
            let intent = ordinal.map(|ordinal| Intent { partition, ordinal });
            withdrawn.push(WithdrawnMessage { origin: entry.origin, intent });
            self.withdrawn.extend(ordinal);
        };
        self.waiting.retain(|(ordinal, entry)| {
            let is_kept = !is_following(&entry.origin);
            if !is_kept {
                withdraw(*ordinal, entry);
                self.waiting_bytes -= entry.message.len();
            }
            is_kept
        });
        for (ordinal, intended) in &mut self.intents {
            if let IntentState::Ready(entry) = intended
                && is_following(&entry.origin)
            {
                withdraw(Some(*ordinal), entry);
                *intended = IntentState::Dropped;
            }
        }
        withdrawn
    }

    /// Builds a group from the waiting messages, unless one is in flight.
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
                    // The sequence of the group is only known once it is in the log.
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

    /// Resolves an unknown outcome from the last group on the subject.
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
                // It has not been written yet. If it is after all, this attempt is rejected.
                self.last = Some(sequence);
                in_flight.step = self.append(&in_flight.group, out);
                self.in_flight = Some(in_flight);
                ProducerEvent::Nothing
            }
            // There was none yet, or all have expired from the log, which takes longer than any append.
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
