//! How a hook is asked.

use std::ops::RangeInclusive;

use crate::Secret;
use crate::limits::{HOOK_CACHE_ENTRIES_MAX, HOOK_CACHE_S_MAX, HOOK_CONCURRENCY_MAX, HOOK_FIELDS_MAX, HOOK_TIMEOUT_MS};

/// How a hook is asked, and what holds where it cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSettings {
    /// `https://…`, or `http://` on this machine.
    pub url: Box<str>,
    /// Fields of each request, such as `Authorization`.
    pub fields: Vec<(Box<str>, Secret)>,
    /// How long an answer may take.
    pub timeout_ms: u64,
    /// Requests that may be on their way at a time. Clients beyond them are refused: the broker is busy.
    pub concurrency: usize,
    /// How many answers are kept.
    pub cache_entries: usize,
    /// How long `allow` is kept; 0 keeps none.
    pub positive_s: u64,
    /// How long `deny` and `ignore` are kept; 0 keeps none.
    pub negative_s: u64,
    /// After so many failures, one after the other, the hook is not asked for a while.
    pub failures: u32,
    /// For how long. Then one client's request tries whether it answers again.
    pub open_s: u64,
    /// What is said of clients meanwhile.
    pub when_unreachable: Unreachable,
}

/// What is said of clients that a hook cannot be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unreachable {
    /// They are refused: the server is unavailable.
    #[default]
    Refuse,
    /// The next link is asked, and where none knows the client, it is refused so.
    TryNext,
}

/// What is wrong with a hook's settings, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookError(pub(super) String);

impl std::fmt::Display for HookError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [hook_settings]", self.0)
    }
}

impl std::error::Error for HookError {}

impl HookSettings {
    /// A hook at this URL, with defaults for the rest.
    #[must_use]
    pub fn new(url: &str) -> HookSettings {
        HookSettings {
            url: url.into(),
            fields: Vec::new(),
            timeout_ms: 2_000,
            concurrency: 16,
            cache_entries: 10_000,
            positive_s: 60,
            negative_s: 5,
            failures: 5,
            open_s: 10,
            when_unreachable: Unreachable::Refuse,
        }
    }

    pub(super) fn check(&self) -> Result<(), HookError> {
        let in_range = |name: &str, value: u64, range: RangeInclusive<u64>| match range.contains(&value) {
            true => Ok(()),
            false => Err(HookError(format!("{name} is {value}; it may be from {} to {}", range.start(), range.end()))),
        };
        in_range("the timeout in ms", self.timeout_ms, HOOK_TIMEOUT_MS)?;
        in_range("the number of requests at a time", self.concurrency as u64, 1..=HOOK_CONCURRENCY_MAX as u64)?;
        in_range("the number of answers that are kept", self.cache_entries as u64, 0..=HOOK_CACHE_ENTRIES_MAX as u64)?;
        in_range("the time in s that allow is kept", self.positive_s, 0..=HOOK_CACHE_S_MAX)?;
        in_range("the time in s that deny is kept", self.negative_s, 0..=HOOK_CACHE_S_MAX)?;
        in_range("the number of failures", u64::from(self.failures), 1..=1_000)?;
        in_range("the time in s that the hook is not asked", self.open_s, 1..=3_600)?;
        in_range("the number of fields", self.fields.len() as u64, 0..=HOOK_FIELDS_MAX as u64)
    }
}
