//! What a recovery from a log with lost parts has skipped.

use std::collections::{BTreeMap, HashMap};

use tautwire_session::SessionNumber;

/// The limit of listed sessions, and of listed messages.
pub const LISTED_MAX: usize = 100;

/// The number of records read, and of records skipped by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedRecords {
    /// Records that were read.
    pub records: u64,
    /// Records of a session that does not exist because its beginning is lost.
    pub unknown_session: u64,
    /// Records that name a missing message.
    pub message_missing: u64,
    /// Frames with an undecodable or unknown record. The rest of such a frame is skipped.
    pub undecodable: u64,
    /// Messages sent with another Packet Identifier than earlier records imply. The identifier in the record is used.
    pub mismatched_packet_id: u64,
    /// Sessions that were removed because a newer one of the same client exists and their end is lost.
    pub replaced: u64,
    /// The affected sessions, with their Client Identifiers if known; at most [`LISTED_MAX`].
    pub sessions: BTreeMap<u64, Option<String>>,
    /// More sessions are affected than are listed.
    pub more_sessions: bool,
    /// A description of the first inconsistency.
    pub first: Option<String>,
}

impl SkippedRecords {
    /// Whether no record was skipped.
    pub fn is_none(&self) -> bool {
        self.first.is_none()
    }
}

#[derive(Debug, Default)]
pub(crate) struct SalvageState {
    pub(crate) skipped: SkippedRecords,
    /// The newest session of each client.
    pub(crate) clients: HashMap<Box<str>, SessionNumber>,
}
