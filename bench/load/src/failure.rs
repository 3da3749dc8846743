//! The error of the generator: a message that says what failed and where.

use std::fmt;

/// The reason why a run failed. A run that lost messages is not a failure of this kind: it is a
/// measurement whose accounting shows the loss.
#[derive(Debug)]
pub(crate) struct Failure(String);

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(error: rustix::io::Errno) -> Self {
        Self(std::io::Error::from(error).to_string())
    }
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Self {
        Self(error.to_string())
    }
}

/// Adds the context of the operation to an error.
pub(crate) trait ErrorContext<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> ErrorContext<T> for std::result::Result<T, E> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure(format!("{}: {error}", what())))
    }
}
