//! Finds the sessions and topics in damaged bytes, as far as they can be decoded.

use std::ops::Range;

use crate::format::{FRAME_ALIGN, FRAME_HEADER_BYTES};
use crate::reader::{PossiblyAffected, SegmentFile};
use crate::record::Records;

/// The limit of listed sessions, and of listed topics.
const LISTED_MAX: usize = 100;

pub(super) fn in_gap(segment: &SegmentFile, bytes: &[u8], hole: Range<usize>) -> PossiblyAffected {
    let mut possibly_affected = PossiblyAffected::default();
    for offset in hole.clone().step_by(FRAME_ALIGN) {
        if !segment.is_frame_start(bytes, offset) {
            continue;
        }
        let body = bytes.get(offset + FRAME_HEADER_BYTES..hole.end).unwrap_or_default();
        for record in Records::new(body) {
            let Ok(record) = record else { break };
            if let Some(session) = record.session() {
                list(&mut possibly_affected.sessions, session, &mut possibly_affected.more);
            }
            if let Some(topic) = record.topic() {
                list(&mut possibly_affected.topics, topic.to_owned(), &mut possibly_affected.more);
            }
        }
    }
    possibly_affected
}

fn list<T: PartialEq>(listed: &mut Vec<T>, item: T, more: &mut bool) {
    if listed.contains(&item) {
        return;
    }
    if listed.len() < LISTED_MAX { listed.push(item) } else { *more = true }
}
