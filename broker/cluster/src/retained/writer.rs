//! Writes retained messages to their stream: one write per topic at a time.

use std::collections::BTreeMap;

use crate::mutant::{Mutant, is};
use crate::names::{Incarnation, Partition, Seed};
use crate::numbers::Sequence;
use crate::operation::{Answer, Operation, OperationId};
use crate::outbox::{Outbox, Purpose};
use crate::producers::MessageOrigin;
use crate::record::{Place, RecordError, Retain, RetainedRecord};
use crate::settings::Settings;
use crate::subject::subject_of;

/// What waits until a message is retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// The client that has published it, in a group of this partition and sequence.
    Publisher(MessageOrigin, Partition, Sequence),
    /// The removal of the node that has not retained it, and the attempt.
    Removal(Incarnation, u64),
}

#[derive(Debug, Default)]
pub(crate) struct Writer {
    topics: BTreeMap<String, Topic>,
    bytes: usize,
    /// The number of times that the precondition was wrong.
    pub(crate) conflicts: u64,
    /// Messages that were never written because a later one was first.
    pub(crate) superseded: u64,
}

#[derive(Debug)]
struct Topic {
    /// The sequence of the topic's entry, as far as this node knows.
    known: Option<Sequence>,
    record: RetainedRecord,
    step: Step,
    waiters: Vec<Waiter>,
    /// The last message that has arrived meanwhile. Skipping those before it is not observable.
    next: Option<RetainedRecord>,
    next_waiters: Vec<Waiter>,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Writing(OperationId),
    Verifying(OperationId),
    /// Waiting for the lease. A write of a node that was removed meanwhile could restore what others have cleared.
    Idle,
}

impl Writer {
    pub(crate) fn has_room(&self, settings: &Settings) -> bool {
        self.bytes < settings.retaining_max_bytes
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.topics.is_empty()
    }

    /// Returns the bytes of messages to be retained.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Retains a message that is in the log. `known` is the sequence of the topic's entry in this node's mirror; a wrong one costs a round
    /// trip.
    pub(crate) fn push(
        &mut self,
        record: RetainedRecord,
        known: Option<Sequence>,
        waiter: Waiter,
        seed: Seed,
        settings: &Settings,
        out: &mut Outbox,
    ) {
        let subject = subject_of(&record.topic, seed);
        self.bytes += record.message.len();
        if let Some(topic) = self.topics.get_mut(&subject) {
            topic.next_waiters.push(waiter);
            let is_later = topic.next.as_ref().is_none_or(|next| next.place < record.place);
            let dropped = if is_later { topic.next.replace(record) } else { Some(record) };
            if let Some(dropped) = dropped {
                self.bytes -= dropped.message.len();
                self.superseded += 1;
            }
            return;
        }
        let step = write(&subject, &record, known, settings, out);
        let topic = Topic { known, record, step, waiters: vec![waiter], next: None, next_waiters: Vec::new() };
        self.topics.insert(subject, topic);
    }

    /// Handles an answer of the store. Returns the waiters that are done.
    pub(crate) fn answer(
        &mut self,
        subject: String,
        id: OperationId,
        answer: &Answer,
        is_serving: bool,
        settings: &Settings,
        out: &mut Outbox,
    ) -> Vec<Waiter> {
        let Some(topic) = self.topics.get_mut(&subject) else { return Vec::new() };
        match (topic.step, answer) {
            (Step::Writing(op), Answer::Appended(sequence)) if op == id => {
                topic.known = Some(*sequence);
                let place = topic.record.place;
                self.done(subject, Some(place), settings, out)
            }
            (Step::Verifying(op), Answer::Last(found)) if op == id => {
                match found.as_ref().map(|(sequence, value)| (*sequence, RetainedRecord::decode(value))) {
                    Some((sequence, Ok(there)))
                        if topic.record.place <= there.place && !is(Mutant::RetainsWithoutOrderCheck) =>
                    {
                        topic.known = Some(sequence);
                        self.superseded += u64::from(topic.record.place < there.place);
                        return self.done(subject, Some(there.place), settings, out);
                    }
                    // A newer broker has written it: leave it.
                    Some((_, Err(RecordError::Newer { .. }))) => return self.done(subject, None, settings, out),
                    found => topic.known = found.map(|(sequence, _)| sequence),
                }
                topic.step =
                    if is_serving { write(&subject, &topic.record, topic.known, settings, out) } else { Step::Idle };
                Vec::new()
            }
            (Step::Writing(op) | Step::Verifying(op), _) if op == id => {
                self.conflicts += u64::from(*answer == Answer::Conflict);
                topic.step = if is_serving { verify(&subject, out) } else { Step::Idle };
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Resumes after the lease was renewed.
    pub(crate) fn resume(&mut self, out: &mut Outbox) {
        for (subject, topic) in &mut self.topics {
            if matches!(topic.step, Step::Idle) {
                topic.step = verify(subject, out);
            }
        }
    }

    /// The stream has the message, or one with the later log position `there`; `None` if that is unreadable.
    fn done(&mut self, subject: String, there: Option<Place>, settings: &Settings, out: &mut Outbox) -> Vec<Waiter> {
        let Some(mut topic) = self.topics.remove(&subject) else { return Vec::new() };
        self.bytes -= topic.record.message.len();
        let mut waiters = topic.waiters;
        match topic.next.take() {
            Some(next) if there.is_some_and(|there| there < next.place) => {
                topic.step = write(&subject, &next, topic.known, settings, out);
                topic.record = next;
                topic.waiters = topic.next_waiters;
                topic.next_waiters = Vec::new();
                self.topics.insert(subject, topic);
            }
            Some(next) => {
                self.bytes -= next.message.len();
                self.superseded += 1;
                waiters.extend(topic.next_waiters);
            }
            None => {}
        }
        waiters
    }
}

fn write(
    subject: &str,
    record: &RetainedRecord,
    known: Option<Sequence>,
    settings: &Settings,
    out: &mut Outbox,
) -> Step {
    let for_s = match record.retain {
        Retain::Always => None,
        Retain::Seconds(seconds) => Some(seconds.max(settings.retained_floor_s)),
        // A cleared topic keeps its position for a while, so that nothing older is written after it.
        Retain::Clear => Some(if is(Mutant::DropsClearedPosition) { 1 } else { settings.retained_floor_s }),
    };
    let (subject, value) = (subject.to_owned(), record.encode());
    let retain = Operation::Retain { subject: subject.clone(), expected: known, value, for_s };
    Step::Writing(out.ask(Purpose::Retained(subject), retain))
}

fn verify(subject: &str, out: &mut Outbox) -> Step {
    Step::Verifying(out.ask(Purpose::Retained(subject.to_owned()), Operation::LastRetained(subject.to_owned())))
}
