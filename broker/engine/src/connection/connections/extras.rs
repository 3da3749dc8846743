//! State that only some connections need, most of them not for long.

use std::collections::VecDeque;
use std::sync::Arc;

use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_session::LogPosition;

use super::aliases::TopicAliases;
use super::load_queue::LoadQueue;
use super::replay::Replay;
use crate::connection::ack::DelayedAck;
use crate::connection::quotas::PublishBucket;

/// State that only some connections need.
#[derive(Debug, Default)]
pub(super) struct Extras {
    pub(super) aliases: TopicAliases,
    /// Acknowledgements that wait for the journal, in order.
    pub(super) delayed_acks: VecDeque<DelayedAck>,
    /// How many of them acknowledge a PUBLISH for which no identifier is held.
    pub(super) delayed_publish_acks: usize,
    /// Their memory.
    pub(super) acks_charge: Option<Charge>,
    /// The frame that must be durable before any output is written.
    pub(super) gate: Option<LogPosition>,
    /// Retained messages still to be sent for a new subscription.
    pub(super) replays: VecDeque<Replay>,
    /// Whether the search for the first of them is deferred.
    pub(super) is_scan_deferred: bool,
    /// Loaded messages of the session's window and queue.
    pub(super) load_queue: LoadQueue,
    /// Unconsumed input of the client.
    pub(super) input: Option<Charge>,
    /// The client's publish rate, if it is limited.
    pub(super) pace: Option<Box<PublishRateState>>,
}

/// The state of a publish rate limit.
#[derive(Debug)]
pub(super) struct PublishRateState {
    pub(super) bucket: PublishBucket,
    /// When the client resumes, or last did.
    pub(super) resumes_at_ms: u64,
}

impl Extras {
    pub(super) fn update_acks_charge(&mut self, ledger: &Arc<MemoryLedger>) {
        let bytes = self.delayed_acks.capacity() * size_of::<DelayedAck>();
        self.acks_charge.get_or_insert_with(|| Charge::new(ledger, Kind::Output)).set(bytes);
    }

    /// Whether nothing is in use.
    pub(super) fn is_unused(&self) -> bool {
        self.aliases.bytes() == 0
            && self.delayed_acks.is_empty()
            && self.gate.is_none()
            && self.replays.is_empty()
            && !self.is_scan_deferred
            && self.load_queue.is_empty()
            && self.input.is_none()
            && self.pace.is_none()
    }
}
