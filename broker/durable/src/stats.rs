//! Statistics of a state.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tautwire_session::{Outbound, Replay};

use crate::frame_writer::FrameWriter;

/// The number of largest queues that are listed.
pub const QUEUES_LISTED: usize = 10;
/// The number of bytes in which records are counted at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The queue of one client: messages that wait to be sent or acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LargeQueue {
    /// Bytes of its messages, each counted in full.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// The Client Identifier.
    pub client_id: String,
}

/// Statistics of a state. A message that several sessions hold counts for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sessions that outlive their connection.
    pub sessions: u64,
    /// Wills, including those of clients whose session ends with their connection.
    pub wills: u64,
    /// Subscriptions of all sessions.
    pub subscriptions: u64,
    /// Messages that wait to be sent.
    pub queued_messages: u64,
    /// Bytes of them.
    pub queued_bytes: u64,
    /// Messages that were sent and not acknowledged.
    pub in_flight_messages: u64,
    /// Bytes of them.
    pub in_flight_bytes: u64,
    /// QoS 2 messages that were received from clients and not released.
    pub unreleased: u64,
    /// Retained messages.
    pub retained_messages: u64,
    /// Bytes of them.
    pub retained_bytes: u64,
    /// The largest queues, the largest first; at most [`QUEUES_LISTED`].
    pub largest_queues: Vec<LargeQueue>,
    /// Bytes of the records that a snapshot of the state needs.
    pub live_bytes: u64,
}

impl Stats {
    /// Computes the statistics of a state.
    pub fn of(state: &Replay) -> Stats {
        let mut stats = Stats::default();
        let mut largest = BinaryHeap::new();
        for replayed in state.sessions() {
            let session = &replayed.session;
            // A session that ends with its connection persists only its will, and an ended session only messages for others.
            stats.sessions += u64::from(session.expiry_interval_s() > 0);
            stats.wills += u64::from(session.will().is_some());
            stats.subscriptions += session.subscriptions().len() as u64;
            stats.unreleased += session.held().map_or(0, |held| held.len() as u64);
            let Some(outbound) = session.outbound() else { continue };
            stats.add_outbound(outbound);
            let (bytes, messages) = (outbound.counted_bytes() as u64, outbound.messages() as u64);
            if messages > 0 {
                largest.push(Reverse(LargeQueue { bytes, messages, client_id: session.client_id().to_owned() }));
            }
            if largest.len() > QUEUES_LISTED {
                largest.pop();
            }
        }
        stats.largest_queues = largest.into_sorted_vec().into_iter().map(|Reverse(queue)| queue).collect();
        for message in state.retained() {
            stats.retained_messages += 1;
            stats.retained_bytes += message.allocated_bytes() as u64;
        }
        stats.live_bytes = live_bytes(state);
        stats
    }

    fn add_outbound(&mut self, outbound: &Outbound) {
        self.queued_messages += outbound.queued() as u64;
        self.queued_bytes += outbound.queued_bytes() as u64;
        self.in_flight_messages += outbound.in_flight() as u64;
        self.in_flight_bytes += outbound.sent_bytes() as u64;
    }
}

fn live_bytes(state: &Replay) -> u64 {
    let mut frame = FrameWriter::default();
    let mut bytes = 0;
    // All messages of an inspection are in memory.
    let _ = state.describe(
        |_| None,
        |record| {
            frame.add(record);
            if frame.bytes() > PIECE_BYTES {
                bytes += frame.take(Vec::new()).len() as u64;
            }
        },
    );
    bytes + frame.bytes() as u64
}
