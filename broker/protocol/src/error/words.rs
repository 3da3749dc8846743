use core::fmt;

/// The code and text of an error; the same in all languages (`spec/errors/errors.toml`).
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) code: &'static str,
    pub(crate) text: &'static str,
    /// The statement of MQTT 5.0 that the check enforces.
    pub(crate) statement: Option<&'static str>,
}

/// Defines the code and text of errors that are not a [`DecodeCause`](crate::DecodeCause).
macro_rules! words {
    ($($name:ident: $code:literal, $statement:expr, $text:literal;)*) => {
        $(pub(crate) const $name: Words = Words { code: $code, text: $text, statement: $statement };)*
    };
}
pub(super) use words;

impl Words {
    /// Writes ` [CODE]`.
    pub(crate) fn write_code(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " [{}]", self.code)
    }

    /// Writes ` (STATEMENT)` if there is one.
    pub(crate) fn write_statement(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.statement {
            Some(statement) => write!(f, " ({statement})"),
            None => Ok(()),
        }
    }
}
