//! Measures how long messages and acknowledgements take through the broker.
//!
//! A message costs one addition: everything that a turn forwards of its own input took equally long, from the turn's beginning until it has
//! written. Messages that other shards read, and those that waited for the log, carry an earlier timestamp.

use tautwire_message::{DurationCounts, Durations};
use tautwire_protocol::QoS;

use crate::connection::ack::{Ack, TimestampUs};

/// The number of different read times that one turn can record. Later ones count as the last one.
const READ_TIMES_MAX: usize = 1_024;

const KINDS: usize = 5;
const PUBACK: usize = 3;
const PUBREC: usize = 4;

/// The latency counts of one shard, which is their only writer.
#[derive(Debug, Default)]
pub struct LatencyCounts([DurationCounts; KINDS]);

/// Latencies since a PUBLISH packet was read.
#[derive(Debug, Default, Clone)]
pub struct Latencies {
    /// Until it was written to a client, by the QoS of the delivery. Messages that waited for their receiver are not included.
    pub delivery: [Durations; 3],
    /// Until PUBACK and PUBREC were written, including the wait for the log.
    pub acknowledgement: [Durations; 2],
}

impl Latencies {
    /// Merges the counts of all shards.
    pub fn of<'a>(shards: impl IntoIterator<Item = &'a LatencyCounts>) -> Latencies {
        let mut all = Latencies::default();
        for LatencyCounts(counts) in shards {
            let sums = all.delivery.iter_mut().chain(&mut all.acknowledgement);
            sums.zip(counts).for_each(|(sum, counts)| *sum = sum.and(&counts.read()));
        }
        all
    }
}

/// Forwarded messages and acknowledgements with one read time.
type ForwardedCounts = [u64; KINDS];

/// Records what a turn forwards.
#[derive(Debug, Default)]
pub(crate) struct LatencyRecorder {
    turn_began_us: u64,
    /// The read time of the current input.
    read_at_us: u64,
    forwarded: ForwardedCounts,
    /// Counts with other read times.
    earlier: Vec<(u64, ForwardedCounts)>,
}

impl LatencyRecorder {
    /// Begins a turn, which handles its own input.
    #[inline]
    pub(crate) fn begin_turn(&mut self, now_us: u64) {
        (self.turn_began_us, self.read_at_us) = (now_us, now_us);
    }

    /// The read time of the current input.
    #[inline]
    pub(crate) fn read_at_us(&self) -> u64 {
        self.read_at_us
    }

    /// The read time of the current input, as a short timestamp for delayed acknowledgements.
    #[inline]
    pub(crate) fn stamp(&self) -> TimestampUs {
        self.read_at_us as TimestampUs
    }

    /// Begins a batch of another shard, with its read time.
    pub(crate) fn begin_batch(&mut self, read_at_us: u64) {
        self.close_run();
        self.read_at_us = read_at_us;
    }

    /// Ends the batch: the turn's own input follows.
    pub(crate) fn end_batch(&mut self) {
        self.close_run();
        self.read_at_us = self.turn_began_us;
    }

    /// Counts messages that were delivered without waiting for their receivers.
    #[inline]
    pub(crate) fn record_delivered(&mut self, qos: QoS, messages: u64) {
        self.forwarded[qos as usize] += messages;
    }

    /// The number of such messages. Only the difference between two calls in one turn is meaningful.
    pub(crate) fn delivered(&self, qos: QoS) -> u64 {
        self.forwarded[qos as usize]
    }

    /// Counts a message of QoS 1 or 2, unless it is a retained one (`!is_live`).
    #[inline]
    pub(crate) fn record_started(&mut self, qos: QoS, is_live: bool) {
        self.forwarded[qos as usize] += u64::from(is_live);
    }

    /// Counts an acknowledgement, or a message that was delayed only like one.
    #[inline]
    pub(crate) fn record_acknowledged(&mut self, ack: &Ack) {
        if let Some(kind) = kind(ack) {
            self.forwarded[kind] += 1;
        }
    }

    /// The same for one that was delayed since its stamp.
    pub(crate) fn record_waited(&mut self, ack: &Ack, stamp: TimestampUs) {
        let Some(kind) = kind(ack) else { return };
        let waited_us = (self.turn_began_us as TimestampUs).wrapping_sub(stamp);
        let read_at_us = self.turn_began_us.saturating_sub(u64::from(waited_us));
        let is_full = self.earlier.len() >= READ_TIMES_MAX;
        match self.earlier.last_mut() {
            Some((at_us, forwarded)) if *at_us == read_at_us || is_full => forwarded[kind] += 1,
            _ => {
                let mut forwarded = ForwardedCounts::default();
                forwarded[kind] = 1;
                self.earlier.push((read_at_us, forwarded));
            }
        }
    }

    fn close_run(&mut self) {
        let forwarded = std::mem::take(&mut self.forwarded);
        if forwarded == ForwardedCounts::default() {
            return;
        }
        let is_full = self.earlier.len() >= READ_TIMES_MAX;
        match self.earlier.last_mut() {
            Some((at_us, sum)) if *at_us == self.read_at_us || is_full => {
                sum.iter_mut().zip(forwarded).for_each(|(sum, more)| *sum += more);
            }
            _ => self.earlier.push((self.read_at_us, forwarded)),
        }
    }

    /// Whether the turn has forwarded anything.
    #[inline]
    pub(crate) fn has_measurements(&self) -> bool {
        self.forwarded.iter().fold(0, |any, times| any | times) != 0 || !self.earlier.is_empty()
    }

    /// Finishes the turn after it has written its output.
    #[inline]
    pub(crate) fn finish(&mut self, now_us: u64, counts: &LatencyCounts) {
        if !self.earlier.is_empty() {
            self.earlier.drain(..).for_each(|(read_at_us, forwarded)| counts.count(now_us, read_at_us, forwarded));
        }
        counts.count(now_us, self.read_at_us, std::mem::take(&mut self.forwarded));
    }
}

impl LatencyCounts {
    #[inline]
    fn count(&self, now_us: u64, read_at_us: u64, forwarded: ForwardedCounts) {
        let took_us = now_us.saturating_sub(read_at_us);
        let (of_qos_0, others) = (forwarded[0], &forwarded[1..]);
        if of_qos_0 > 0 {
            self.0[0].count(took_us, of_qos_0);
        }
        if others.iter().fold(0, |any, times| any | times) > 0 {
            let counts = self.0[1..].iter().zip(others);
            counts.filter(|(_, times)| **times > 0).for_each(|(counts, times)| counts.count(took_us, *times));
        }
    }
}

/// The kind under which an acknowledgement is counted.
#[inline]
fn kind(ack: &Ack) -> Option<usize> {
    match ack {
        Ack::Published(..) => Some(PUBACK),
        Ack::Received(..) => Some(PUBREC),
        Ack::Deliver(_, true) => Some(QoS::ExactlyOnce as usize),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tautwire_protocol::{PacketId, PubAckReason, PubCompReason};

    use super::*;

    fn id() -> PacketId {
        PacketId::new(1).expect("not 0")
    }

    fn longest_us(durations: &Durations) -> (u64, Option<u64>) {
        (durations.count(), durations.percentile_us(100))
    }

    #[test]
    fn forwarded_messages_are_timed_from_read_until_write() {
        let (mut recorder, counts) = (LatencyRecorder::default(), LatencyCounts::default());
        recorder.begin_turn(1_000);
        recorder.begin_batch(993);
        recorder.record_delivered(QoS::AtLeastOnce, 1);
        recorder.end_batch();
        recorder.record_delivered(QoS::AtMostOnce, 1);
        recorder.record_delivered(QoS::AtMostOnce, 1);
        recorder.record_acknowledged(&Ack::Published(id(), PubAckReason::Success, None));
        recorder.record_acknowledged(&Ack::Complete(id(), PubCompReason::Success));
        assert!(recorder.has_measurements());
        recorder.finish(1_003, &counts);
        assert!(!recorder.has_measurements());
        let Latencies { delivery, acknowledgement } = Latencies::of([&counts, &LatencyCounts::default()]);
        assert_eq!(delivery.each_ref().map(longest_us), [(2, Some(3)), (1, Some(11)), (0, None)]);
        assert_eq!(acknowledgement.each_ref().map(longest_us), [(1, Some(3)), (0, None)]);
        assert_eq!(delivery[1].sum_us(), 10);
    }

    #[test]
    fn queued_messages_keep_their_timestamp_across_a_wraparound() {
        let (mut recorder, counts) = (LatencyRecorder::default(), LatencyCounts::default());
        let wraps_us = 1 << 32;
        recorder.begin_turn(wraps_us - 5);
        let stamp = recorder.stamp();
        recorder.begin_turn(wraps_us + 2);
        recorder.record_waited(&Ack::Deliver(id(), true), stamp);
        recorder.record_waited(&Ack::Deliver(id(), false), stamp);
        recorder.finish(wraps_us + 2, &counts);
        assert_eq!(longest_us(&Latencies::of([&counts]).delivery[2]), (1, Some(7)));
    }

    #[test]
    fn a_turn_distinguishes_a_limited_number_of_timestamps() {
        let (mut recorder, counts) = (LatencyRecorder::default(), LatencyCounts::default());
        recorder.begin_turn(1_000_000);
        for stamp in 0..2 * READ_TIMES_MAX {
            recorder.record_waited(&Ack::Deliver(id(), true), stamp as TimestampUs);
        }
        assert_eq!(recorder.earlier.len(), READ_TIMES_MAX);
        recorder.finish(1_000_000, &counts);
        assert_eq!(Latencies::of([&counts]).delivery[2].count(), 2 * READ_TIMES_MAX as u64);
    }
}
