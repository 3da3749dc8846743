//! A session that this node serves, from its claim until it is released.
//!
//! What the record is to say changes at once; writing it follows, one write at a time, and each says all that has changed meanwhile. What
//! waits for the record is an [`Effect`].

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU16;

use crate::lanes::{Entry, Origin};
use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Incarnation, Key, Partition};
use crate::operation::{Answer, Decision, Operation, OperationId, Revision};
use crate::outbox::Purpose;
use crate::record::{Intent, Publisher, SessionRecord, Taken};

use super::{Request, Surroundings};

#[derive(Debug)]
pub(super) struct Service {
    key: ClientKey,
    /// As the store has it for sure.
    record: SessionRecord,
    revision: Revision,
    taken: BTreeMap<NonZeroU16, Option<Intent>>,
    state: Vec<u8>,
    is_changed: bool,
    writing: Option<Writing>,
    /// What waits for the next write.
    effects: Vec<Effect>,
    /// Messages of the client in order, and whether they are safe.
    line: VecDeque<(u64, bool)>,
    /// Messages of the client that are not in the log yet.
    under_way: usize,
    /// What the engine is told when the lease holds again.
    held: Vec<Decision>,
    /// The engine has been told of the session, unless this is the ticket of who asked.
    unserved: Option<u64>,
    has_left: bool,
    /// Nodes that want the session, and the epoch that they have seen.
    wanted_by: Vec<(Incarnation, u64)>,
    /// A client that has come back to this node before the session was released.
    pub(super) next: Option<Request>,
}

#[derive(Debug)]
struct Writing {
    operation: OperationId,
    is_checking: bool,
    record: SessionRecord,
    effects: Vec<Effect>,
}

#[derive(Debug)]
enum Effect {
    Append { partition: Partition, ordinal: u64, entry: Entry },
    Complete(NonZeroU16),
    Saved(u64),
}

/// How it is with a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Goes,
    /// The record has no owner any more.
    Released,
    /// The record is somebody else's.
    Lost,
}

impl Service {
    pub(super) fn begin(
        key: ClientKey,
        ticket: u64,
        record: SessionRecord,
        revision: Revision,
        is_present: bool,
        cx: &mut Surroundings<'_>,
    ) -> Service {
        let taken: BTreeMap<_, _> = record.taken.iter().map(|taken| (taken.packet_id, taken.intent)).collect();
        let serve = Decision::Serve {
            ticket,
            client: key,
            epoch: record.epoch,
            is_present,
            taken: taken.keys().copied().collect(),
            state: record.state.clone(),
        };
        let state = record.state.clone();
        let mut service = Service {
            key,
            record,
            revision,
            taken,
            state,
            is_changed: false,
            writing: None,
            effects: Vec::new(),
            line: VecDeque::new(),
            under_way: 0,
            held: Vec::new(),
            unserved: Some(ticket),
            has_left: false,
            wanted_by: Vec::new(),
            next: None,
        };
        service.tell(serve, cx);
        service
    }

    pub(super) fn epoch(&self) -> u64 {
        self.record.epoch
    }

    /// Whether packets of the client belong to this service.
    pub(super) fn is_open(&self) -> bool {
        !self.has_left
    }

    fn tell(&mut self, decision: Decision, cx: &mut Surroundings<'_>) {
        if cx.is_serving {
            self.unserved = self.unserved.filter(|_| !matches!(decision, Decision::Serve { .. }));
            cx.out.decide(decision);
        } else {
            self.held.push(decision);
        }
    }

    /// The lease holds again.
    pub(super) fn resume(&mut self, cx: &mut Surroundings<'_>) {
        for decision in std::mem::take(&mut self.held) {
            self.tell(decision, cx);
        }
    }

    pub(super) fn publish(&mut self, partition: Partition, ticket: u64, message: &[u8], cx: &mut Surroundings<'_>) {
        self.line.push_back((ticket, false));
        self.under_way += 1;
        let entry = self.entry(ticket, None, message);
        cx.lanes.push(partition, entry, cx.settings, cx.out);
        if is(Mutant::AcknowledgesBeforeStored) {
            self.stored(ticket, false, cx);
        }
    }

    pub(super) fn publish_once(
        &mut self,
        packet_id: NonZeroU16,
        partition: Partition,
        ticket: u64,
        message: &[u8],
        cx: &mut Surroundings<'_>,
    ) {
        match self.taken.get(&packet_id) {
            // Sent again [MQTT-4.3.3-10].
            Some(None) => {
                self.line.push_back((ticket, true));
                return self.tell_stored(cx);
            }
            // The answer to the first one is the answer to this one.
            Some(Some(_)) => return,
            None => {}
        }
        self.line.push_back((ticket, false));
        self.under_way += 1;
        let (entry, ordinal) = (self.entry(ticket, Some(packet_id), message), cx.lanes.intend(partition));
        if is(Mutant::ForgetsIntents) {
            return cx.lanes.resolve(partition, ordinal, Some(entry), cx.settings, cx.out);
        }
        self.taken.insert(packet_id, Some(Intent { partition, ordinal }));
        self.effects.push(Effect::Append { partition, ordinal, entry });
        self.is_changed = true;
    }

    fn entry(&self, ticket: u64, packet_id: Option<NonZeroU16>, message: &[u8]) -> Entry {
        let (client, epoch) = (self.key, self.record.epoch);
        let message = Publisher { client, epoch, packet_id }.sign(message);
        Entry { message, origin: Origin { client, epoch, ticket } }
    }

    pub(super) fn release(&mut self, packet_id: NonZeroU16, cx: &mut Surroundings<'_>) {
        self.is_changed |= self.taken.remove(&packet_id).is_some() || self.writing.is_some();
        if self.is_changed && !is(Mutant::CompletesTooEarly) {
            self.effects.push(Effect::Complete(packet_id));
        } else {
            self.tell(Decision::Completed { client: self.key, packet_id }, cx);
        }
    }

    pub(super) fn save(&mut self, number: u64, state: Vec<u8>, cx: &mut Surroundings<'_>) {
        (self.state, self.is_changed) = (state, true);
        if is(Mutant::SavesTooEarly) {
            return self.tell(Decision::Saved { client: self.key, number }, cx);
        }
        self.effects.push(Effect::Saved(number));
    }

    /// The client's connection is gone.
    pub(super) fn leave(&mut self, state: Vec<u8>) {
        self.state = state;
        self.has_left = true;
        self.line.clear();
        self.held.clear();
    }

    /// The client that has asked with this ticket is gone.
    pub(super) fn abandon(&mut self, ticket: u64) {
        self.next.take_if(|next| next.ticket == ticket);
        if self.unserved == Some(ticket) {
            let state = std::mem::take(&mut self.state);
            self.leave(state);
        }
    }

    /// Another node has the client.
    pub(super) fn give_up(&mut self, to: Incarnation, epoch: u64, cx: &mut Surroundings<'_>) {
        if epoch < self.record.epoch || is(Mutant::ReleasesTooEarly) || is(Mutant::ServesAfterRelease) {
            super::say_released(self.key, to, epoch, cx);
        }
        if epoch < self.record.epoch || is(Mutant::ServesAfterRelease) {
            return;
        }
        if !self.wanted_by.contains(&(to, epoch)) {
            self.wanted_by.push((to, epoch));
        }
        if self.has_left {
            return;
        }
        match self.unserved.take() {
            Some(ticket) => {
                cx.out.decide(Decision::Refuse { ticket, why: crate::Refusal::TakenOver });
                let state = self.state.clone();
                self.leave(state);
            }
            None => cx.out.decide(Decision::Surrender(self.key)),
        }
    }

    /// A message of the client is in the log.
    pub(super) fn stored(&mut self, ticket: u64, is_counted: bool, cx: &mut Surroundings<'_>) {
        if is_counted {
            self.under_way = self.under_way.saturating_sub(1);
        }
        if is(Mutant::AcknowledgesOutOfOrder) && !self.has_left {
            return self.tell(Decision::Stored { client: self.key, ticket }, cx);
        }
        if let Some((_, is_safe)) = self.line.iter_mut().find(|(waiting, _)| *waiting == ticket) {
            *is_safe = true;
        }
        self.tell_stored(cx);
    }

    /// All QoS 2 messages of these identifiers are in the log now.
    pub(super) fn settle(&mut self, partition: Partition, ordinal: u64) {
        for intent in self.taken.values_mut() {
            intent.take_if(|intent| intent.partition == partition && intent.ordinal <= ordinal);
        }
    }

    fn tell_stored(&mut self, cx: &mut Surroundings<'_>) {
        while let Some((ticket, _)) = crate::queue::pop_front_if(&mut self.line, |(_, is_safe)| *is_safe) {
            self.tell(Decision::Stored { client: self.key, ticket }, cx);
        }
    }

    /// Writes the record if it has changed and no write is under way; for the last time when the client has left and all its messages
    /// are in the log.
    pub(super) fn go_on(&mut self, cx: &mut Surroundings<'_>) {
        if self.writing.is_some() {
            return;
        }
        let is_clear = self.effects.is_empty() && (self.under_way == 0 || is(Mutant::ReleasesWithMessagesUnderWay));
        let is_last = self.has_left && is_clear;
        if !self.is_changed && !is_last {
            return;
        }
        let taken = self.taken.iter().map(|(packet_id, intent)| Taken { packet_id: *packet_id, intent: *intent });
        let record = SessionRecord {
            write: self.record.write + 1,
            owner: self.record.owner.filter(|_| !is_last),
            taken: taken.collect(),
            state: self.state.clone(),
            ..self.record.clone()
        };
        self.is_changed = false;
        let effects = std::mem::take(&mut self.effects);
        self.put(record, effects, cx);
    }

    fn put(&mut self, record: SessionRecord, effects: Vec<Effect>, cx: &mut Surroundings<'_>) {
        let put = Operation::Put { key: Key::Session(self.key), expected: Some(self.revision), value: record.encode() };
        let operation = cx.out.ask(Purpose::Session(self.key), put);
        self.writing = Some(Writing { operation, is_checking: false, record, effects });
    }

    pub(super) fn answer(&mut self, id: OperationId, answer: &Answer, cx: &mut Surroundings<'_>) -> Standing {
        let Some(mut writing) = self.writing.take_if(|writing| writing.operation == id) else { return Standing::Goes };
        match answer {
            Answer::Put(revision) => self.written(*revision, writing, cx),
            Answer::Got(found) if writing.is_checking => match found {
                Some((revision, value)) if SessionRecord::decode(value).as_ref() == Ok(&writing.record) => {
                    self.written(*revision, writing, cx)
                }
                Some((revision, _)) if *revision == self.revision => {
                    self.put(writing.record, writing.effects, cx);
                    Standing::Goes
                }
                _ => {
                    self.drop_effects(writing.effects, cx);
                    Standing::Lost
                }
            },
            _ => {
                writing.operation = cx.out.ask(Purpose::Session(self.key), Operation::Get(Key::Session(self.key)));
                writing.is_checking = true;
                self.writing = Some(writing);
                Standing::Goes
            }
        }
    }

    fn written(&mut self, revision: Revision, writing: Writing, cx: &mut Surroundings<'_>) -> Standing {
        (self.record, self.revision) = (writing.record, revision);
        for effect in writing.effects {
            match effect {
                Effect::Append { partition, ordinal, entry } => {
                    cx.lanes.resolve(partition, ordinal, Some(entry), cx.settings, cx.out);
                }
                Effect::Complete(packet_id) if !self.has_left => {
                    self.tell(Decision::Completed { client: self.key, packet_id }, cx);
                }
                Effect::Saved(number) if !self.has_left => {
                    self.tell(Decision::Saved { client: self.key, number }, cx);
                }
                Effect::Complete(_) | Effect::Saved(_) => {}
            }
        }
        if self.record.owner.is_some() {
            return Standing::Goes;
        }
        for (node, epoch) in std::mem::take(&mut self.wanted_by) {
            super::say_released(self.key, node, epoch, cx);
        }
        Standing::Released
    }

    /// The session is lost: what has not been appended never will be.
    fn drop_effects(&mut self, effects: Vec<Effect>, cx: &mut Surroundings<'_>) {
        for effect in effects.into_iter().chain(std::mem::take(&mut self.effects)) {
            if let Effect::Append { partition, ordinal, .. } = effect {
                cx.lanes.resolve(partition, ordinal, None, cx.settings, cx.out);
            }
        }
    }
}
