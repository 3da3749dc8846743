//! The numbers by which the store orders writes.

/// The revision of a key. Later revisions are higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// The sequence of a group in the log of its partition, or of a message in another stream. Sequences start at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);
