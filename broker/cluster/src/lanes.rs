//! The ways of messages into the log: one for each partition, on which one group at a time is under way.

use std::collections::VecDeque;

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Incarnation, LogSubject, PARTITIONS, Partition};
use crate::operation::{Answer, Operation, OperationId, Sequence};
use crate::outbox::{Outbox, Purpose};
use crate::queue::pop_front_if;
use crate::record::{Body, Group};
use crate::settings::Settings;

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) client: ClientKey,
    /// Of the client's service, so that nothing is told to the next one.
    pub(crate) epoch: u64,
    pub(crate) ticket: u64,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) message: Vec<u8>,
    pub(crate) origin: Origin,
}

/// What an answer has changed.
#[derive(Debug)]
pub(crate) enum LaneEvent {
    Nothing,
    /// These are in the log, and all QoS 2 messages up to this ordinal.
    Stored {
        origins: Vec<Origin>,
        ordinal: u64,
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
    under_way: Option<UnderWay>,
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
            under_way: None,
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
        lane.join(None, entry);
        lane.begin(settings, out);
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
                lane.join(Some(ordinal), entry);
            }
        }
        lane.begin(settings, out);
    }

    pub(crate) fn answer(
        &mut self,
        partition: Partition,
        id: OperationId,
        answer: &Answer,
        settings: &Settings,
        out: &mut Outbox,
    ) -> LaneEvent {
        self.lane(partition).answer(id, answer, settings, out)
    }
}

impl Lane {
    fn join(&mut self, ordinal: Option<u64>, entry: Entry) {
        self.waiting_bytes += entry.message.len();
        self.waiting.push_back((ordinal, entry));
    }

    /// Makes a group of what waits, unless one is under way.
    fn begin(&mut self, settings: &Settings, out: &mut Outbox) {
        if self.under_way.is_some() || self.waiting.is_empty() {
            return;
        }
        let (mut messages, mut origins, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some((ordinal, entry)) = pop_front_if(&mut self.waiting, |(_, entry)| {
            messages.is_empty()
                || messages.len() < settings.group_messages_max
                    && bytes + entry.message.len() <= settings.group_max_bytes
        }) {
            bytes += entry.message.len();
            self.ordinal = ordinal.unwrap_or(self.ordinal);
            messages.push(entry.message);
            origins.push(entry.origin);
        }
        self.waiting_bytes -= bytes;
        self.number += 1;
        let group = Group { number: self.number, ordinal: self.ordinal, body: Body::Messages(messages) }.encode();
        self.append(group, origins, out);
    }

    fn append(&mut self, group: Vec<u8>, origins: Vec<Origin>, out: &mut Outbox) {
        let append = Operation::Append { subject: self.subject, expected: self.last, group: group.clone() };
        let step = Step::Appending(out.ask(Purpose::Lane(self.subject.partition), append));
        self.under_way = Some(UnderWay { step, number: self.number, ordinal: self.ordinal, group, origins });
    }

    fn answer(&mut self, id: OperationId, answer: &Answer, settings: &Settings, out: &mut Outbox) -> LaneEvent {
        let Some(under_way) = &mut self.under_way else { return LaneEvent::Nothing };
        match (under_way.step, answer) {
            (Step::Appending(op), Answer::Appended(sequence)) if op == id => self.stored(*sequence, settings, out),
            (Step::Looking(op), Answer::Last(found)) if op == id => self.look_at(found.as_ref(), settings, out),
            (Step::Appending(op) | Step::Looking(op), answer) if op == id => {
                if is(Mutant::TrustsUnknownGroups) && *answer == Answer::Unknown {
                    let last = self.last.unwrap_or(Sequence(0));
                    return self.stored(last, settings, out);
                }
                let look = Operation::Last(self.subject);
                under_way.step = Step::Looking(out.ask(Purpose::Lane(self.subject.partition), look));
                LaneEvent::Nothing
            }
            _ => LaneEvent::Nothing,
        }
    }

    /// The fate of a group was unknown: the last one on the subject tells it.
    fn look_at(&mut self, found: Option<&(Sequence, Vec<u8>)>, settings: &Settings, out: &mut Outbox) -> LaneEvent {
        let Some(under_way) = self.under_way.take() else { return LaneEvent::Nothing };
        match found.map(|(sequence, group)| (*sequence, Group::decode(group))) {
            Some((sequence, Ok(Group { number, body: Body::Messages(_), .. })))
                if number == under_way.number && !is(Mutant::AppendsTwice) =>
            {
                self.under_way = Some(under_way);
                self.stored(sequence, settings, out)
            }
            Some((sequence, Ok(Group { body: Body::Messages(_), .. }))) => {
                // It is not there, at least not yet. If it comes after all, this attempt is refused.
                self.last = Some(sequence);
                self.append(under_way.group, under_way.origins, out);
                LaneEvent::Nothing
            }
            // There was none yet, or all have gone out of the log by age, which takes longer than any append.
            None => {
                self.last = None;
                self.append(under_way.group, under_way.origins, out);
                LaneEvent::Nothing
            }
            // A fence, or something that only a fault of the store explains.
            _ => LaneEvent::Fenced,
        }
    }

    fn stored(&mut self, sequence: Sequence, settings: &Settings, out: &mut Outbox) -> LaneEvent {
        let Some(under_way) = self.under_way.take() else { return LaneEvent::Nothing };
        self.last = Some(sequence);
        self.begin(settings, out);
        LaneEvent::Stored { origins: under_way.origins, ordinal: under_way.ordinal }
    }
}
