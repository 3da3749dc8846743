//! Decodes an answer of the store to a span.

use crate::names::Partition;
use crate::numbers::Sequence;
use crate::record::RecordError;

use super::{LogGroup, Messages, Span};

/// What a gap in an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gaps {
    /// The answer ends at the gap: the rest may have been lost in transit.
    End,
    /// The missing groups are no longer in the log.
    Lost,
}

/// Decodes the span that begins at `from`. Also returns why it ends before the answer does: at a group of a newer version.
pub(crate) fn span_of(
    partition: Partition,
    from: Sequence,
    first: Sequence,
    groups: &[(Sequence, Vec<u8>)],
    gaps: Gaps,
) -> (Span, Option<RecordError>) {
    let mut span = Span { partition, from, until: from, groups: Vec::with_capacity(groups.len()), lost: 0 };
    if gaps == Gaps::Lost {
        span.skip_to(first);
    }
    for (sequence, bytes) in groups {
        if *sequence < span.until {
            continue;
        }
        if span.until < *sequence {
            if gaps == Gaps::End {
                break;
            }
            span.skip_to(*sequence);
        }
        match Messages::new(bytes) {
            Ok(messages) => span.groups.push(LogGroup { sequence: *sequence, messages }),
            Err(error @ RecordError::Newer { .. }) => return (span, Some(error)),
            // All replicas agree on these bytes, so the group is lost for good.
            Err(RecordError::Malformed { .. }) => span.lost += 1,
        }
        span.until = Sequence(sequence.0.saturating_add(1));
    }
    (span, None)
}

impl Span {
    fn skip_to(&mut self, sequence: Sequence) {
        self.lost += sequence.0.saturating_sub(self.until.0);
        self.until = sequence.max(self.until);
    }
}
