use super::scan;
use crate::error::{DecodeCause, Flaw};

/// Checks a UTF-8 encoded string: well-formed `[MQTT-1.5.4-1]`, without U+0000 `[MQTT-1.5.4-2]`, U+FEFF kept `[MQTT-1.5.4-3]`. `at` is the
/// offset of `bytes`, for errors.
#[inline]
pub(crate) fn text(bytes: &[u8], at: usize) -> Result<&str, Flaw> {
    let text = well_formed(bytes, at)?;
    if scan::has_null(bytes) {
        return Err(null(bytes, at));
    }
    Ok(text)
}

/// Makes the checks of [`text`]. Faster for ASCII, as it does not return the string.
#[inline]
pub(crate) fn check(bytes: &[u8], at: usize) -> Result<(), Flaw> {
    if scan::is_plain_ascii(bytes) { Ok(()) } else { text(bytes, at).map(|_| ()) }
}

/// The text of a topic name, which may be empty; `None` if it is not well-formed UTF-8 or contains U+0000 or a wildcard.
#[inline(always)]
pub(crate) fn topic_text(bytes: &[u8]) -> Option<&str> {
    if scan::has_null_or_wildcard(bytes) {
        return None;
    }
    core::str::from_utf8(bytes).ok()
}

/// As [`text`], but the caller checks for U+0000.
#[inline]
pub(crate) fn well_formed(bytes: &[u8], at: usize) -> Result<&str, Flaw> {
    match core::str::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => Err(Flaw::new(DecodeCause::Utf8Invalid, at + error.valid_up_to())),
    }
}

#[cold]
fn null(bytes: &[u8], at: usize) -> Flaw {
    Flaw::new(DecodeCause::Utf8Null, at + bytes.iter().position(|&byte| byte == 0).unwrap_or(0))
}
