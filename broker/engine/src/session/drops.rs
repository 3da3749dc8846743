//! The last messages that a session did not get, so that an operator can be told why one has not arrived.

use std::collections::VecDeque;

use tautwire_memory::{Footprint, Kind, MemoryFootprint};

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

/// Messages of QoS 1 and 2 that a session has lost because its queue was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueLoss {
    /// How many.
    pub(crate) count: u64,
    /// When the first and the last were dropped, in milliseconds since the Unix epoch.
    pub(crate) first_ms: u64,
    pub(crate) last_ms: u64,
}

impl QueueLoss {
    fn add(loss: &mut Option<QueueLoss>, now_ms: u64) {
        let loss = loss.get_or_insert(QueueLoss { count: 0, first_ms: now_ms, last_ms: now_ms });
        loss.count += 1;
        loss.last_ms = now_ms;
    }
}

/// The events of one session, the oldest first, and what it has lost because its queue was full.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drops {
    events: VecDeque<DropEvent>,
    /// Since the broker started.
    lost: u64,
    /// Since the client was told last.
    unreported: Option<QueueLoss>,
    /// Since the client had caught up last.
    episode: Option<QueueLoss>,
}

/// Always counted as if it were full.
impl MemoryFootprint<1> for Drops {
    fn footprint(&self) -> Footprint<1> {
        [(Kind::Session, size_of::<Drops>() + EVENTS_MAX * (size_of::<DropEvent>() + TOPIC_MAX_BYTES))]
    }
}

impl Drops {
    pub(crate) fn events(&self) -> impl Iterator<Item = &DropEvent> {
        self.events.iter()
    }

    /// Messages that were dropped because the queue was full.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Notes one more of them; says whether an episode begins with it.
    pub(crate) fn record_loss(&mut self, now_ms: u64) -> bool {
        let begins = self.episode.is_none();
        self.lost += 1;
        QueueLoss::add(&mut self.unreported, now_ms);
        QueueLoss::add(&mut self.episode, now_ms);
        begins
    }

    /// What the client has not been told of.
    pub(crate) fn unreported(&self) -> Option<QueueLoss> {
        self.unreported
    }

    /// The client has been told.
    pub(crate) fn mark_reported(&mut self) {
        self.unreported = None;
    }

    /// The client has caught up. Gives what was lost before, if something was.
    #[inline]
    pub(crate) fn end_episode(&mut self) -> Option<QueueLoss> {
        self.episode.take()
    }

    pub(crate) fn note(&mut self, reason: DropReason, topic: &str, now_ms: u64) {
        let topic = beginning(topic, TOPIC_MAX_BYTES);
        if let Some(last) = self.events.back_mut().filter(|last| last.reason == reason && *last.topic == *topic) {
            last.count += 1;
            last.last_ms = now_ms;
            return;
        }
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(DropEvent { reason, topic: topic.into(), count: 1, last_ms: now_ms });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_drops_are_counted_and_the_oldest_is_evicted() {
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
    fn a_loss_is_reported_once_and_ends_with_its_episode() {
        let mut drops = Drops::default();
        assert!(drops.record_loss(10) && !drops.record_loss(20));
        let loss = QueueLoss { count: 2, first_ms: 10, last_ms: 20 };
        assert_eq!((drops.unreported(), drops.lost()), (Some(loss), 2));
        drops.mark_reported();
        assert!(!drops.record_loss(30), "the episode goes on");
        assert_eq!(drops.unreported(), Some(QueueLoss { count: 1, first_ms: 30, last_ms: 30 }));
        assert_eq!(drops.end_episode(), Some(QueueLoss { count: 3, first_ms: 10, last_ms: 30 }));
        assert_eq!(drops.end_episode(), None);
        assert!(drops.record_loss(40));
    }

    #[test]
    fn a_long_topic_is_cut_at_a_character() {
        let mut drops = Drops::default();
        drops.note(DropReason::Expired, &"ä".repeat(100), 1);
        drops.note(DropReason::Expired, &format!("a{}", "ä".repeat(100)), 1);
        let lengths: Vec<_> = drops.events().map(|event| event.topic.len()).collect();
        assert_eq!(lengths, [128, 127]);
    }
}
