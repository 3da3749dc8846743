//! Limits of admin queries.

/// The maximum number of rows in one answer.
pub const PAGE_MAX: usize = 1_000;

/// The maximum number of running queries in a shard.
pub(super) const ADMIN_QUERIES_MAX: usize = 16;
