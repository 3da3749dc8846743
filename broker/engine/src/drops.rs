//! The last messages that a session did not get, so that an operator can be told why one has not arrived.

use std::collections::VecDeque;

use tautwire_memory::{Footprint, Holds, Kind};

use crate::text::beginning;

/// Events that are kept of one session.
const EVENTS_MAX: usize = 8;
/// So much of a topic is kept.
const TOPIC_MAX_BYTES: usize = 128;

/// Why a session did not get a message that was meant for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// QoS 0: the client had not taken its output.
    OutputFull,
    /// There was no memory for more: output of QoS 0, or retained messages that a client was owed when it left.
    MemoryFull,
    /// QoS 1 or 2: as many messages waited as may.
    QueueFull,
    /// It waited until it expired.
    Expired,
    /// It was larger than the client takes.
    TooLarge,
    /// Its topic lies outside of the client's mount point.
    OutsideMount,
    /// It waited, and the access rules do not allow it any more.
    NotAuthorized,
    /// It could not be had in the format that the subscription asks for.
    Untranscodable,
}

impl DropReason {
    /// What operators call it. Never changes.
    pub fn code(self) -> &'static str {
        match self {
            DropReason::OutputFull => "output_full",
            DropReason::MemoryFull => "memory_full",
            DropReason::QueueFull => "queue_full",
            DropReason::Expired => "expired",
            DropReason::TooLarge => "too_large",
            DropReason::OutsideMount => "outside_mount",
            DropReason::NotAuthorized => "not_authorized",
            DropReason::Untranscodable => "untranscodable",
        }
    }
}

/// Messages on one topic that were dropped one after the other for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropEvent {
    /// Why.
    pub reason: DropReason,
    /// Where they were published: at most the first 128 bytes.
    pub topic: Box<str>,
    /// How many.
    pub count: u64,
    /// When the last one was dropped, in milliseconds since the Unix epoch.
    pub last_ms: u64,
}

/// The events of one session, the oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drops(VecDeque<DropEvent>);

/// Always counted as if it were full.
impl Holds<1> for Drops {
    fn footprint(&self) -> Footprint<1> {
        [(Kind::Session, EVENTS_MAX * (size_of::<DropEvent>() + TOPIC_MAX_BYTES))]
    }
}

impl Drops {
    pub(crate) fn events(&self) -> impl Iterator<Item = &DropEvent> {
        self.0.iter()
    }

    pub(crate) fn note(&mut self, reason: DropReason, topic: &str, now_ms: u64) {
        let topic = beginning(topic, TOPIC_MAX_BYTES);
        if let Some(last) = self.0.back_mut().filter(|last| last.reason == reason && *last.topic == *topic) {
            last.count += 1;
            last.last_ms = now_ms;
            return;
        }
        if self.0.len() == EVENTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(DropEvent { reason, topic: topic.into(), count: 1, last_ms: now_ms });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_counted_and_the_oldest_is_forgotten() {
        let mut drops = Drops::default();
        for now_ms in 1..=3 {
            drops.note(DropReason::QueueFull, "a", now_ms);
        }
        drops.note(DropReason::Expired, "a", 4);
        let kept: Vec<_> = drops.events().map(|event| (event.reason, event.count, event.last_ms)).collect();
        assert_eq!(kept, [(DropReason::QueueFull, 3, 3), (DropReason::Expired, 1, 4)]);
        for number in 0..EVENTS_MAX {
            drops.note(DropReason::TooLarge, &number.to_string(), 5);
        }
        assert_eq!(drops.events().count(), EVENTS_MAX);
        assert!(drops.events().all(|event| event.reason == DropReason::TooLarge));
    }

    #[test]
    fn of_a_long_topic_whole_characters_are_kept() {
        let mut drops = Drops::default();
        drops.note(DropReason::Expired, &"ä".repeat(100), 1);
        drops.note(DropReason::Expired, &format!("a{}", "ä".repeat(100)), 1);
        let lengths: Vec<_> = drops.events().map(|event| event.topic.len()).collect();
        assert_eq!(lengths, [128, 127]);
    }
}
