//! What the engine requests for its clients.

use std::num::NonZeroU16;

use crate::names::Partition;
use crate::operation::{Decision, Refusal, Start};
use crate::producers::RetainRequest;

use super::context::SessionContext;

/// A client that requests its session.
#[derive(Debug)]
pub(crate) struct ClaimRequest {
    pub(super) ticket: u64,
    pub(super) client_id: String,
    pub(super) start: Start,
    pub(super) deadline_ms: u64,
}

/// A message of a client to its partition.
#[derive(Debug)]
pub(crate) struct PublishRequest {
    pub(crate) partition: Partition,
    pub(crate) ticket: u64,
    pub(crate) refusal_seen: u64,
    pub(crate) packet_id: Option<NonZeroU16>,
    pub(crate) to_retain: Option<RetainRequest>,
    pub(crate) message: Vec<u8>,
}

impl ClaimRequest {
    pub(crate) fn new(ticket: u64, client_id: &str, start: Start, deadline_ms: u64) -> ClaimRequest {
        ClaimRequest { ticket, client_id: client_id.to_owned(), start, deadline_ms }
    }

    pub(super) fn refuse(&self, why: Refusal, cx: &mut SessionContext<'_>) {
        cx.out.decide(Decision::Refuse { ticket: self.ticket, why });
    }
}
