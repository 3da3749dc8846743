//! The last messages that were dropped for a session, so that operators can see why one has not arrived.

use std::collections::VecDeque;

use tautwire_memory::{Footprint, Kind, MemoryFootprint};

use crate::text::truncated;

/// Stored events of one session.
const EVENTS_MAX: usize = 8;
/// The stored length of a topic.
const TOPIC_MAX_BYTES: usize = 128;

/// Why a message was dropped for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// QoS 0: the client had not read its output.
    OutputFull,
    /// There was no memory: for QoS 0 output, or for retained messages that were pending when the client disconnected.
    MemoryFull,
    /// QoS 1 or 2: the queue was full.
    QueueFull,
    /// It expired in the queue.
    Expired,
    /// It was larger than the client accepts.
    TooLarge,
    /// Its topic is outside of the client's mount point.
    OutsideMount,
    /// The access rules no longer allow it.
    NotAuthorized,
    /// It could not be transcoded to the format that the subscription requests.
    Untranscodable,
}

impl DropReason {
    /// The stable name for operators.
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

/// Consecutive drops on one topic for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropEvent {
    /// The reason.
    pub reason: DropReason,
    /// The first 128 bytes of the topic.
    pub topic: Box<str>,
    /// The number of messages.
    pub count: u64,
    /// When the last one was dropped, in milliseconds since the Unix epoch.
    pub last_ms: u64,
}

/// QoS 1 and 2 messages that a session has lost because its queue was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueLoss {
    /// The number of messages.
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

/// The drops of one session: events, the oldest first, and losses because its queue was full.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drops {
    events: VecDeque<DropEvent>,
    /// Losses since the broker started.
    lost: u64,
    /// Losses since the last report to the client.
    unreported: Option<QueueLoss>,
    /// Losses since the client last caught up.
    episode: Option<QueueLoss>,
}

/// Always charged at its maximum size.
impl MemoryFootprint<1> for Drops {
    fn footprint(&self) -> Footprint<1> {
        [(Kind::Session, size_of::<Drops>() + EVENTS_MAX * (size_of::<DropEvent>() + TOPIC_MAX_BYTES))]
    }
}

impl Drops {
    pub(crate) fn events(&self) -> impl Iterator<Item = &DropEvent> {
        self.events.iter()
    }

    /// The number of messages that were dropped because the queue was full.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Records a loss because the queue was full. Returns whether an episode begins with it.
    pub(crate) fn record_loss(&mut self, now_ms: u64) -> bool {
        let begins = self.episode.is_none();
        self.lost += 1;
        QueueLoss::add(&mut self.unreported, now_ms);
        QueueLoss::add(&mut self.episode, now_ms);
        begins
    }

    /// The loss that has not been reported to the client.
    pub(crate) fn unreported(&self) -> Option<QueueLoss> {
        self.unreported
    }

    /// Marks the loss as reported to the client.
    pub(crate) fn mark_reported(&mut self) {
        self.unreported = None;
    }

    /// Ends the episode after the client has caught up. Returns its loss, if there was an episode.
    #[inline]
    pub(crate) fn end_episode(&mut self) -> Option<QueueLoss> {
        self.episode.take()
    }

    /// Records a drop.
    pub(crate) fn record(&mut self, reason: DropReason, topic: &str, now_ms: u64) {
        let topic = truncated(topic, TOPIC_MAX_BYTES);
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
            drops.record(DropReason::QueueFull, "a", now_ms);
        }
        drops.record(DropReason::Expired, "a", 4);
        let events: Vec<_> = drops.events().map(|event| (event.reason, event.count, event.last_ms)).collect();
        assert_eq!(events, [(DropReason::QueueFull, 3, 3), (DropReason::Expired, 1, 4)]);
        for number in 0..EVENTS_MAX {
            drops.record(DropReason::TooLarge, &number.to_string(), 5);
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
        assert!(!drops.record_loss(30), "the episode continues");
        assert_eq!(drops.unreported(), Some(QueueLoss { count: 1, first_ms: 30, last_ms: 30 }));
        assert_eq!(drops.end_episode(), Some(QueueLoss { count: 3, first_ms: 10, last_ms: 30 }));
        assert_eq!(drops.end_episode(), None);
        assert!(drops.record_loss(40));
    }

    #[test]
    fn a_long_topic_is_truncated_at_a_character() {
        let mut drops = Drops::default();
        drops.record(DropReason::Expired, &"ä".repeat(100), 1);
        drops.record(DropReason::Expired, &format!("a{}", "ä".repeat(100)), 1);
        let lengths: Vec<_> = drops.events().map(|event| event.topic.len()).collect();
        assert_eq!(lengths, [128, 127]);
    }
}
