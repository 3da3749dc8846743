//! Conversion of other brokers' access rules.

mod mosquitto;

pub use mosquitto::mosquitto_acl;

/// A rule file that was converted from another broker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedPolicy {
    /// The rule file, with a comment for everything in `notes`.
    pub text: String,
    /// Entries that have no equivalent, in line order.
    pub notes: Vec<ImportNote>,
}

/// An entry that has no equivalent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// The line of the source file, from 1.
    pub line: usize,
    /// The entry, and how it was handled.
    pub message: String,
}
