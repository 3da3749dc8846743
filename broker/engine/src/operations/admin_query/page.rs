//! How much one answer has at most.

/// Most rows of one answer.
pub const PAGE_MAX: usize = 1_000;

/// AdminQueries under way in a shard at once.
pub(super) const ADMIN_QUERIES_MAX: usize = 16;
