//! An answer of the store becomes a span.

use crate::names::Partition;
use crate::operation::Sequence;
use crate::record::RecordError;

use super::{LogGroup, Messages, Span};

/// What a gap in an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gaps {
    /// The answer ends there: it may have been lost on the way.
    End,
    /// What is missing is not in the log any more.
    Lost,
}

/// The span that begins at `from`, and why it ends before the answer does: a group of a newer version.
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
            // The replicas agree on it, so nobody will ever read it.
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
