//! The text of an error code.

use std::fmt;

use super::texts::TEXTS;

/// The text of a code, the same in all languages.
pub(crate) fn text_of(code: &str) -> Option<&'static str> {
    TEXTS.iter().find(|(known, _)| *known == code).map(|(_, text)| *text)
}

/// Writes `TEXT (DETAIL) [CODE]`.
pub(crate) fn message(f: &mut fmt::Formatter<'_>, text: &str, detail: &str, code: &str) -> fmt::Result {
    f.write_str(text)?;
    if !detail.is_empty() {
        write!(f, " ({detail})")?;
    }
    write!(f, " [{code}]")
}
