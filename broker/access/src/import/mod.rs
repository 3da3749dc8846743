//! Rule files from other brokers' files.

mod mosquitto;

pub use mosquitto::mosquitto_acl;

/// A rule file that was made from another broker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedPolicy {
    /// The rule file, with a comment for everything in `notes`.
    pub text: String,
    /// What has no counterpart, in the order of the lines.
    pub notes: Vec<ImportNote>,
}

/// Something that has no counterpart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// The line of the file that was read, from 1.
    pub line: usize,
    /// What it is, and what has been done.
    pub message: String,
}
