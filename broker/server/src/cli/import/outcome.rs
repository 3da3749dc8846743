//! Outcomes of translating an option.

use std::borrow::Cow;

/// The result of translating a line.
pub(super) enum OptionOutcome {
    Translated,
    /// There is no exact counterpart.
    Noted(Cow<'static, str>),
    /// Nothing is written, because without the option clients could do more than before.
    Refused(Cow<'static, str>),
    /// Mosquitto has no such option, as far as we know.
    Unknown,
}

pub(super) fn noted(why: impl Into<Cow<'static, str>>) -> OptionOutcome {
    OptionOutcome::Noted(why.into())
}

pub(super) fn refused(why: impl Into<Cow<'static, str>>) -> OptionOutcome {
    OptionOutcome::Refused(why.into())
}
