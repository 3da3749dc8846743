//! The topic filters of SUBSCRIBE and UNSUBSCRIBE.

use crate::TopicFilter;
use crate::error::{DecodeCause, Flaw};
use crate::topic::{TopicError, TopicErrorKind, filter};
use crate::wire::reader::Reader;

/// Checks a topic filter of SUBSCRIBE or UNSUBSCRIBE. It is parsed when the list is iterated.
pub(super) fn check_filter<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Flaw> {
    let bytes = r.check_text()?;
    match filter::check(bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(filter_flaw(error, r.at() - bytes.len())),
    }
}

#[cold]
fn filter_flaw(error: TopicError, start: usize) -> Flaw {
    let cause = match error.kind {
        TopicErrorKind::FilterEmpty => DecodeCause::TopicFilterEmpty,
        TopicErrorKind::MultiLevelNotLast => DecodeCause::TopicFilterMultiLevel,
        TopicErrorKind::ShareNameInvalid => DecodeCause::ShareNameInvalid,
        TopicErrorKind::ShareFilterMissing => DecodeCause::ShareFilterMissing,
        TopicErrorKind::WildcardNotAlone => DecodeCause::TopicFilterWildcard,
        // The string has been checked, its length has two bytes, and a filter is not a name.
        TopicErrorKind::Null | TopicErrorKind::TooLong | TopicErrorKind::NameEmpty | TopicErrorKind::WildcardInName => {
            DecodeCause::Utf8Null
        }
    };
    Flaw::new(cause, start + error.offset)
}

/// The filter at the start of bytes that passed [`check_filter`], and its length in bytes.
pub(super) fn reread_filter(bytes: &[u8]) -> Option<(TopicFilter<'_>, usize)> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    let text = rest.get(..usize::from(u16::from_be_bytes(*len)))?;
    Some((TopicFilter::trusted(core::str::from_utf8(text).ok()?), 2 + text.len()))
}
