//! Whom damage may concern, as far as damaged bytes can still be decoded.

use std::ops::Range;

use crate::format::{FRAME_ALIGN, FRAME_HEADER_BYTES};
use crate::reader::{SegmentFile, Suspects};
use crate::record::Records;

/// So many sessions, and so many topics, are listed.
const LISTED_MAX: usize = 100;

pub(super) fn in_hole(segment: &SegmentFile, bytes: &[u8], hole: Range<usize>) -> Suspects {
    let mut suspects = Suspects::default();
    for offset in hole.clone().step_by(FRAME_ALIGN) {
        if !segment.looks_begun(bytes, offset) {
            continue;
        }
        let body = bytes.get(offset + FRAME_HEADER_BYTES..hole.end).unwrap_or_default();
        for record in Records::new(body) {
            let Ok(record) = record else { break };
            if let Some(session) = record.session() {
                list(&mut suspects.sessions, session, &mut suspects.more);
            }
            if let Some(topic) = record.topic() {
                list(&mut suspects.topics, topic.to_owned(), &mut suspects.more);
            }
        }
    }
    suspects
}

fn list<T: PartialEq>(listed: &mut Vec<T>, item: T, more: &mut bool) {
    if listed.contains(&item) {
        return;
    }
    if listed.len() < LISTED_MAX { listed.push(item) } else { *more = true }
}
