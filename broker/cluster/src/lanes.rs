//! The ways of messages into the log: one for each partition, on which one group at a time is under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Incarnation, LogSubject, PARTITIONS, Partition};
use crate::operation::{Answer, Operation, OperationId, Sequence};
use crate::outbox::{Outbox, Purpose};
use crate::queue::pop_front_if;
use crate::record::{Body, End, Group, Intent, Keeps, Place, Publisher, Retain, RetainedRecord};
use crate::settings::Settings;

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) client: ClientKey,
    /// The number of the client's claim, so that nothing is told to the next service.
    pub(crate) claim: u64,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// The client has published it; for QoS 2, with a Packet Identifier.
    Message { ticket: u64, packet_id: Option<NonZeroU16> },
    /// A will, by its number in the service.
    Will(u64),
    /// Those who run the broker have published it, by this request.
    Own { ticket: u64 },
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) message: Vec<u8>,
    pub(crate) origin: Origin,
    /// How the message is to be retained.
    pub(crate) keeps: Option<Keeping>,
    /// Since when it waits.
    pub(crate) since_ms: u64,
}

impl Origin {
    /// Of a message that no client has published.
    pub(crate) fn own(ticket: u64) -> Origin {
        Origin { client: Publisher::OPERATOR.client, claim: 0, what: What::Own { ticket } }
    }
}

/// What is known of a message that is to be retained.
#[derive(Debug)]
pub(crate) struct Keeping {
    pub(crate) retain: Retain,
    pub(crate) topic: String,
    pub(crate) known: Option<Sequence>,
}

/// A message that is in the log and has to be retained now.
#[derive(Debug)]
pub(crate) struct Retaining {
    pub(crate) origin: Origin,
    pub(crate) record: RetainedRecord,
    /// What the topic had, as far as its publisher's node knew.
    pub(crate) known: Option<Sequence>,
}

/// A message that never comes into the log.
#[derive(Debug)]
pub(crate) struct Withdrawn {
    pub(crate) origin: Origin,
    /// For QoS 2: what the session's record says of it. [`Lanes::forget`] is to be called when it says so no more.
    pub(crate) intent: Option<Intent>,
}

/// How it is with the way into one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneStatus {
    /// Which.
    pub partition: Partition,
    /// Messages that wait for the next group.
    pub waiting: usize,
    /// Their bytes.
    pub waiting_bytes: usize,
    /// For how long a group has been on its way, in milliseconds, if one is.
    pub group_age_ms: Option<u64>,
}

/// What an answer has changed.
#[derive(Debug)]
pub(crate) enum LaneEvent {
    Nothing,
    /// These are in the log, and all QoS 2 messages up to this ordinal.
    Stored {
        origins: Vec<Origin>,
        ordinal: u64,
        /// These are not safe before they are retained.
        retaining: Vec<Retaining>,
    },
    /// The lane has been fenced off: the node is dead.
    Fenced,
}

#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
}

#[derive(Debug)]
struct Lane {
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
    intents: VecDeque<(u64, Intended)>,
    waiting: VecDeque<(Option<u64>, Entry)>,
    waiting_bytes: usize,
    /// Ordinals of messages that were withdrawn while a record says that they are coming. No later one is appended before the record says so no
    /// more: otherwise these would be taken for stored if the node dies.
    withdrawn: BTreeSet<u64>,
    under_way: Option<UnderWay>,
    /// Groups with messages that are in the log and not retained yet, and how many of these there are.
    unsettled: BTreeMap<Sequence, usize>,
}

#[derive(Debug)]
enum Intended {
    /// The session's record does not know of it yet.
    Open,
    Ready(Entry),
    /// The session's record never will.
    Dropped,
}

#[derive(Debug)]
struct UnderWay {
    step: Step,
    number: u64,
    ordinal: u64,
    group: Vec<u8>,
    origins: Vec<Origin>,
    retaining: Vec<Retaining>,
    since_ms: u64,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Appending(OperationId),
    Looking(OperationId),
}

impl Lanes {
    pub(crate) fn new(writer: Incarnation) -> Lanes {
        let lane = |partition| Lane {
            subject: LogSubject { partition, writer },
            last: None,
            number: 0,
            ordinal: 0,
            last_intended: 0,
            intents: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            withdrawn: BTreeSet::new(),
            under_way: None,
            unsettled: BTreeMap::new(),
        };
        Lanes { lanes: Partition::all().map(lane).collect() }
    }

    fn lane(&mut self, partition: Partition) -> &mut Lane {
        debug_assert_eq!(self.lanes.len(), usize::from(PARTITIONS));
        &mut self.lanes[partition.index()]
    }

    /// Whether the lane takes a message now.
    pub(crate) fn has_room(&self, partition: Partition, settings: &Settings) -> bool {
        self.lanes[partition.index()].waiting_bytes < settings.waiting_max_bytes
    }

    /// A message of QoS 1 joins the next group.
    pub(crate) fn push(&mut self, partition: Partition, entry: Entry, settings: &Settings, out: &mut Outbox) {
        let lane = self.lane(partition);
        let now_ms = entry.since_ms;
        lane.join(None, entry);
        lane.begin(now_ms, settings, out);
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
        can_be_told: impl Fn(&Origin) -> bool,
    ) -> Vec<Withdrawn> {
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
        can_be_told: impl Fn(&Origin) -> bool,
    ) -> Vec<Withdrawn> {
        let mut withdrawn = Vec::new();
        for lane in self.lanes.iter_mut().filter(|lane| lane.under_way.is_some()) {
            let mut at = 0;
            while let Some((ordinal, entry)) = lane.waiting.get(at)
                && entry.since_ms + settings.publish_timeout_ms <= now_ms
            {
                if !can_be_told(&entry.origin) {
                    at += 1;
                    continue;
                }
                let intent = ordinal.map(|ordinal| Intent { partition: lane.subject.partition, ordinal });
                withdrawn.push(Withdrawn { origin: entry.origin, intent });
                lane.withdrawn.extend(ordinal.filter(|_| !is(Mutant::PassesWithdrawn)));
                if is(Mutant::RefusesWithoutWithdrawing) {
                    at += 1;
                    continue;
                }
                lane.waiting_bytes -= entry.message.len();
                lane.waiting.remove(at);
            }
        }
        withdrawn
    }

    /// What the clients of these messages have sent after them. In the log, it would stand before them when they are sent again [MQTT-4.6.0-6].
    fn withdraw_behind(&mut self, refused: &[Withdrawn]) -> Vec<Withdrawn> {
        let mut firsts: BTreeMap<(ClientKey, u64), u64> = BTreeMap::new();
        for Withdrawn { origin, .. } in refused {
            if let What::Message { ticket, .. } = origin.what {
                let first = firsts.entry((origin.client, origin.claim)).or_insert(ticket);
                *first = ticket.min(*first);
            }
        }
        let is_behind = |origin: &Origin| match origin.what {
            What::Message { ticket, .. } => {
                firsts.get(&(origin.client, origin.claim)).is_some_and(|first| *first < ticket)
            }
            What::Will(_) | What::Own { .. } => false,
        };
        self.lanes.iter_mut().flat_map(|lane| lane.withdraw_behind(is_behind)).collect()
    }

    /// A QoS 2 message of which the record has just come to know is withdrawn. [`forget`](Self::forget) is to be called as for others.
    pub(crate) fn withdraw_intended(&mut self, now_ms: u64, intent: Intent, settings: &Settings, out: &mut Outbox) {
        self.lane(intent.partition).withdrawn.insert(intent.ordinal);
        self.resolve(now_ms, intent.partition, intent.ordinal, None, settings, out);
    }

    /// No record says any more that this message is coming.
    pub(crate) fn forget(&mut self, now_ms: u64, intent: Intent, settings: &Settings, out: &mut Outbox) {
        let lane = self.lane(intent.partition);
        lane.withdrawn.remove(&intent.ordinal);
        lane.begin(now_ms, settings, out);
    }

    /// A message of this group has been retained.
    pub(crate) fn settled(&mut self, partition: Partition, group: Sequence) {
        let lane = self.lane(partition);
        if let Some(count) = lane.unsettled.get_mut(&group) {
            *count -= 1;
            if *count == 0 {
                lane.unsettled.remove(&group);
            }
        }
    }

    /// Where all lanes end, if nothing is under way.
    pub(crate) fn ends(&self) -> Option<Box<[End; PARTITIONS as usize]>> {
        let mut ends = Box::new([End::default(); PARTITIONS as usize]);
        for (end, lane) in ends.iter_mut().zip(&self.lanes) {
            let is_idle = lane.under_way.is_none()
                && lane.waiting.is_empty()
                && lane.intents.is_empty()
                && lane.withdrawn.is_empty()
                && lane.unsettled.is_empty();
            if !is_idle {
                return None;
            }
            *end = End { group: lane.number, ordinal: lane.ordinal };
        }
        Some(ends)
    }

    pub(crate) fn status(&self, now_ms: u64) -> Vec<LaneStatus> {
        let status = |lane: &Lane| LaneStatus {
            partition: lane.subject.partition,
            waiting: lane.waiting.len(),
            waiting_bytes: lane.waiting_bytes,
            group_age_ms: lane.under_way.as_ref().map(|group| now_ms.saturating_sub(group.since_ms)),
        };
        self.lanes.iter().map(status).collect()
    }

    /// A place among the QoS 2 messages of a partition. It has to be made ready or dropped, because those behind it wait.
    pub(crate) fn intend(&mut self, partition: Partition) -> u64 {
        let lane = self.lane(partition);
        lane.last_intended += 1;
        lane.intents.push_back((lane.last_intended, Intended::Open));
        lane.last_intended
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
        let lane = self.lane(partition);
        if let Some((_, intended)) = lane.intents.iter_mut().find(|(number, _)| *number == ordinal) {
            *intended = entry.map_or(Intended::Dropped, Intended::Ready);
        }
        while let Some((ordinal, intended)) =
            pop_front_if(&mut lane.intents, |(_, state)| !matches!(state, Intended::Open))
        {
            if let Intended::Ready(entry) = intended {
                lane.join(Some(ordinal), Entry { since_ms: now_ms, ..entry });
            }
        }
        lane.begin(now_ms, settings, out);
    }

    pub(crate) fn answer(
        &mut self,
        now_ms: u64,
        partition: Partition,
        id: OperationId,
        answer: &Answer,
        settings: &Settings,
        out: &mut Outbox,
    ) -> LaneEvent {
        self.lane(partition).answer(now_ms, id, answer, settings, out)
    }
}

impl Lane {
    fn join(&mut self, ordinal: Option<u64>, entry: Entry) {
        self.waiting_bytes += entry.message.len();
        self.waiting.push_back((ordinal, entry));
    }

    fn withdraw_behind(&mut self, is_behind: impl Fn(&Origin) -> bool) -> Vec<Withdrawn> {
        let partition = self.subject.partition;
        let mut withdrawn = Vec::new();
        let mut withdraw = |ordinal: Option<u64>, entry: &Entry| {
            let intent = ordinal.map(|ordinal| Intent { partition, ordinal });
            withdrawn.push(Withdrawn { origin: entry.origin, intent });
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
            if let Intended::Ready(entry) = intended
                && is_behind(&entry.origin)
            {
                withdraw(Some(*ordinal), entry);
                *intended = Intended::Dropped;
            }
        }
        withdrawn
    }

    /// Makes a group of what waits, unless one is under way.
    fn begin(&mut self, now_ms: u64, settings: &Settings, out: &mut Outbox) {
        let barrier = self.withdrawn.first().copied().unwrap_or(u64::MAX);
        let may_go = |ordinal: Option<u64>| ordinal.is_none_or(|ordinal| ordinal < barrier);
        if self.under_way.is_some() || self.waiting.front().is_none_or(|(ordinal, _)| !may_go(*ordinal)) {
            return;
        }
        let (mut messages, mut origins, mut bytes) = (Vec::new(), Vec::new(), 0);
        let (mut keeps, mut retaining) = (Vec::new(), Vec::new());
        while let Some((ordinal, entry)) = pop_front_if(&mut self.waiting, |(ordinal, entry)| {
            messages.is_empty()
                || may_go(*ordinal)
                    && messages.len() < settings.group_messages_max
                    && bytes + entry.message.len() <= settings.group_max_bytes
        }) {
            bytes += entry.message.len();
            self.ordinal = ordinal.unwrap_or(self.ordinal);
            match entry.keeps {
                None => origins.push(entry.origin),
                Some(Keeping { retain, topic, known }) => {
                    // Where the group is going to stand is known when it stands there.
                    let place = Place { index: messages.len() as u32, ..Place::START };
                    keeps.push(Keeps { index: place.index, retain, topic: topic.clone() });
                    let record = RetainedRecord::of(place, retain, topic, &entry.message);
                    retaining.push(Retaining { origin: entry.origin, record, known });
                }
            }
            messages.push(entry.message);
        }
        self.waiting_bytes -= bytes;
        self.number += 1;
        let unsettled = self.unsettled.keys().next().copied();
        let body = Body::Messages { messages, keeps };
        let (number, ordinal) = (self.number, self.ordinal);
        let group = Group { number, ordinal, unsettled, body }.encode();
        let step = self.append(&group, out);
        self.under_way = Some(UnderWay { step, number, ordinal, group, origins, retaining, since_ms: now_ms });
    }

    fn append(&self, group: &[u8], out: &mut Outbox) -> Step {
        let append = Operation::Append { subject: self.subject, expected: self.last, group: group.to_vec() };
        Step::Appending(out.ask(Purpose::Lane(self.subject.partition), append))
    }

    fn answer(
        &mut self,
        now_ms: u64,
        id: OperationId,
        answer: &Answer,
        settings: &Settings,
        out: &mut Outbox,
    ) -> LaneEvent {
        let Some(under_way) = &mut self.under_way else { return LaneEvent::Nothing };
        match (under_way.step, answer) {
            (Step::Appending(op), Answer::Appended(sequence)) if op == id => {
                self.stored(now_ms, *sequence, settings, out)
            }
            (Step::Looking(op), Answer::Last(found)) if op == id => self.look_at(now_ms, found.as_ref(), settings, out),
            (Step::Appending(op) | Step::Looking(op), answer) if op == id => {
                if is(Mutant::TrustsUnknownGroups) && *answer == Answer::Unknown {
                    let last = self.last.unwrap_or(Sequence(0));
                    return self.stored(now_ms, last, settings, out);
                }
                let look = Operation::Last(self.subject);
                under_way.step = Step::Looking(out.ask(Purpose::Lane(self.subject.partition), look));
                LaneEvent::Nothing
            }
            _ => LaneEvent::Nothing,
        }
    }

    /// The fate of a group was unknown: the last one on the subject tells it.
    fn look_at(
        &mut self,
        now_ms: u64,
        found: Option<&(Sequence, Vec<u8>)>,
        settings: &Settings,
        out: &mut Outbox,
    ) -> LaneEvent {
        let Some(mut under_way) = self.under_way.take() else { return LaneEvent::Nothing };
        match found.map(|(sequence, group)| (*sequence, Group::decode(group))) {
            Some((sequence, Ok(Group { number, body: Body::Messages { .. }, .. })))
                if number == under_way.number && !is(Mutant::AppendsTwice) =>
            {
                self.under_way = Some(under_way);
                self.stored(now_ms, sequence, settings, out)
            }
            Some((sequence, Ok(Group { body: Body::Messages { .. }, .. }))) => {
                // It is not there, at least not yet. If it comes after all, this attempt is refused.
                self.last = Some(sequence);
                under_way.step = self.append(&under_way.group, out);
                self.under_way = Some(under_way);
                LaneEvent::Nothing
            }
            // There was none yet, or all have gone out of the log by age, which takes longer than any append.
            None => {
                self.last = None;
                under_way.step = self.append(&under_way.group, out);
                self.under_way = Some(under_way);
                LaneEvent::Nothing
            }
            // A fence, or something that only a fault of the store explains.
            _ => LaneEvent::Fenced,
        }
    }

    fn stored(&mut self, now_ms: u64, sequence: Sequence, settings: &Settings, out: &mut Outbox) -> LaneEvent {
        let Some(mut under_way) = self.under_way.take() else { return LaneEvent::Nothing };
        self.last = Some(sequence);
        under_way.retaining.iter_mut().for_each(|retaining| retaining.record.place.sequence = sequence);
        if !under_way.retaining.is_empty() {
            self.unsettled.insert(sequence, under_way.retaining.len());
        }
        self.begin(now_ms, settings, out);
        let UnderWay { origins, ordinal, retaining, .. } = under_way;
        LaneEvent::Stored { origins, ordinal, retaining }
    }
}
