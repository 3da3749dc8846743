//! This node's copy of all retained messages: its position, and the scans that wait for it.
//!
//! The engine's store holds the messages; this module holds the position in the stream. A scan of retained messages must see everything
//! that was acknowledged before it, on any node. So it requests the end of the stream, together with all scans that arrive meanwhile, and
//! continues when the copy has reached that end. The end is not what some server reports, because a replaced leader reports an earlier one;
//! it is where a quorum has written a mark. Reaching the position is not enough, because the stream has one message per topic: the message
//! that a topic had before that end may have been replaced by a later one. A copy is complete whenever it has read everything that exists.

use std::collections::VecDeque;

use crate::mutant::{Mutant, is};
use crate::numbers::Sequence;
use crate::operation::{
    Answer, Decision, Operation, OperationId, RETAINED_BATCH_MAX, RETAINED_BATCH_MAX_BYTES, RetainedChange,
    RetainedEntry,
};
use crate::outbox::{Outbox, Purpose};
use crate::queue::pop_front_if;
use crate::record::{Retain, RetainedRecord};
use crate::settings::Settings;

/// The state of a node's copy of the retained messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MirrorStatus {
    /// Its position.
    pub position: u64,
    /// The last known end of the stream.
    pub end: u64,
    /// Whether it has ever reached the end. Before that, no client is served.
    pub is_caught_up: bool,
    /// The number of waiting scans.
    pub waiting: usize,
    /// The number of messages that this broker could not read.
    pub unreadable: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Mirror {
    position: Sequence,
    /// The last position at which the copy was complete.
    complete_at: Option<Sequence>,
    end: Option<Sequence>,
    is_caught_up: bool,
    reading: Option<OperationId>,
    /// Scans that wait for the pending answer about the end.
    pending_end: Option<(OperationId, Vec<u64>)>,
    /// Scans that have arrived after that request.
    next_tickets: Vec<u64>,
    /// Scans that wait for a position, in order.
    waiting: VecDeque<(Sequence, u64)>,
    unreadable: u64,
}

impl Mirror {
    /// Whether the copy was complete at some time in this incarnation.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.is_caught_up || is(Mutant::ServesBeforeCaughtUp)
    }

    /// A scan begins. It may continue when the copy has everything that is retained now.
    pub(crate) fn sync_retained(&mut self, ticket: u64, out: &mut Outbox) {
        if is(Mutant::ScansWithoutSync) {
            return out.decide(Decision::RetainedSync { ticket });
        }
        self.next_tickets.push(ticket);
        self.ask_for_end(out);
    }

    pub(crate) fn advance(&mut self, settings: &Settings, out: &mut Outbox) {
        if !self.is_caught_up && self.end.is_none() {
            self.ask_for_end(out);
        }
        self.read(settings, out);
    }

    fn ask_for_end(&mut self, out: &mut Outbox) {
        if self.pending_end.is_none() {
            let id = out.ask(Purpose::Mirror, Operation::EndOfRetained);
            self.pending_end = Some((id, std::mem::take(&mut self.next_tickets)));
        }
    }

    fn read(&mut self, settings: &Settings, out: &mut Outbox) {
        if self.reading.is_none() {
            let mirror = Operation::Mirror { after: self.position, max: settings.mirror_page };
            self.reading = Some(out.ask(Purpose::Mirror, mirror));
        }
    }

    pub(crate) fn answer(
        &mut self,
        now_ms: u64,
        id: OperationId,
        answer: &Answer,
        settings: &Settings,
        out: &mut Outbox,
    ) {
        if self.reading == Some(id) {
            self.reading = None;
            if let Answer::Mirrored { kept, through, is_end } = answer {
                self.apply(now_ms, kept, out);
                self.position = self.position.max(*through);
                if *is_end || is(Mutant::TrustsPartialCopy) {
                    self.complete_at = Some(self.position);
                }
                self.release(out);
                // The mark, or entries before it, may have been written after this read.
                if !kept.is_empty() || self.end > Some(self.position) {
                    self.read(settings, out);
                }
            }
        } else if let Some((_, tickets)) = self.pending_end.take_if(|(asked, _)| *asked == id) {
            match answer {
                Answer::EndOfRetained(end) => {
                    self.end = self.end.max(Some(*end));
                    self.waiting.extend(tickets.into_iter().map(|ticket| (*end, ticket)));
                    self.release(out);
                    // Read the mark and the entries before it.
                    self.read(settings, out);
                }
                _ => self.next_tickets.splice(0..0, tickets).for_each(drop),
            }
            if !self.next_tickets.is_empty() {
                self.ask_for_end(out);
            }
        }
    }

    fn apply(&mut self, now_ms: u64, kept: &[RetainedEntry], out: &mut Outbox) {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for kept in kept {
            let Some(change) = self.change(now_ms, kept) else { continue };
            let more_bytes = change.record.topic.len() + change.record.message.len();
            if batch.len() == RETAINED_BATCH_MAX || !batch.is_empty() && bytes + more_bytes > RETAINED_BATCH_MAX_BYTES {
                out.decide(Decision::Retain(std::mem::take(&mut batch)));
                bytes = 0;
            }
            bytes += more_bytes;
            batch.push(change);
        }
        if !batch.is_empty() {
            out.decide(Decision::Retain(batch));
        }
    }

    fn change(&mut self, now_ms: u64, kept: &RetainedEntry) -> Option<RetainedChange> {
        if kept.sequence <= self.position {
            return None;
        }
        self.position = kept.sequence;
        let Ok(record) = RetainedRecord::decode(&kept.value) else {
            self.unreadable += 1;
            return None;
        };
        if record.is_mark() {
            return None;
        }
        let expires_at_ms = match record.retain {
            Retain::Seconds(seconds) => Some((now_ms + u64::from(seconds) * 1000).saturating_sub(kept.age_ms)),
            Retain::Always | Retain::Clear => None,
        };
        Some(RetainedChange { record, sequence: kept.sequence, expires_at_ms })
    }

    /// Releases scans whose position was reached. Later requests have later ends.
    fn release(&mut self, out: &mut Outbox) {
        let Some(complete_at) = self.complete_at else { return };
        self.is_caught_up |= self.end.is_some_and(|end| end <= complete_at);
        while let Some((_, ticket)) = pop_front_if(&mut self.waiting, |(end, _)| *end <= complete_at) {
            out.decide(Decision::RetainedSync { ticket });
        }
    }

    pub(crate) fn status(&self) -> MirrorStatus {
        MirrorStatus {
            position: self.position.0,
            end: self.end.map_or(0, |end| end.0),
            is_caught_up: self.is_caught_up,
            waiting: self.waiting.len()
                + self.next_tickets.len()
                + self.pending_end.as_ref().map_or(0, |(_, next_tickets)| next_tickets.len()),
            unreadable: self.unreadable,
        }
    }
}
