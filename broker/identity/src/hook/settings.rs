//! The settings of a hook.

use std::ops::RangeInclusive;

use crate::Secret;
use crate::limits::{HOOK_CACHE_ENTRIES_MAX, HOOK_CACHE_S_MAX, HOOK_CONCURRENCY_MAX, HOOK_FIELDS_MAX, HOOK_TIMEOUT_MS};

/// The settings of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSettings {
    /// `https://…`, or `http://` on this machine.
    pub url: Box<str>,
    /// HTTP headers of each request, such as `Authorization`.
    pub fields: Vec<(Box<str>, Secret)>,
    /// The timeout of a request.
    pub timeout_ms: u64,
    /// The maximum number of requests in flight. Further clients are refused: the broker is busy.
    pub concurrency: usize,
    /// The maximum number of cached responses.
    pub cache_entries: usize,
    /// How long `allow` is cached; 0 disables it.
    pub positive_s: u64,
    /// How long `deny` and `ignore` are cached; 0 disables it.
    pub negative_s: u64,
    /// The number of consecutive failures that opens the circuit breaker.
    pub failures: u32,
    /// How long it stays open. Then one request tests whether the hook responds again.
    pub open_s: u64,
    /// The response for clients in the meantime.
    pub when_unreachable: UnreachablePolicy,
}

/// The response for clients while a hook is unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnreachablePolicy {
    /// They are refused: the server is unavailable.
    #[default]
    Refuse,
    /// The next backend is asked. If none knows the client, it is refused as above.
    TryNext,
}

/// An invalid setting of a hook, and what to do.
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
            when_unreachable: UnreachablePolicy::Refuse,
        }
    }

    pub(super) fn check(&self) -> Result<(), HookError> {
        let in_range = |name: &str, value: u64, range: RangeInclusive<u64>| match range.contains(&value) {
            true => Ok(()),
            false => Err(HookError(format!("{name} is {value}; it must be from {} to {}", range.start(), range.end()))),
        };
        in_range("the timeout in ms", self.timeout_ms, HOOK_TIMEOUT_MS)?;
        in_range("the number of requests in flight", self.concurrency as u64, 1..=HOOK_CONCURRENCY_MAX as u64)?;
        in_range("the number of cached responses", self.cache_entries as u64, 0..=HOOK_CACHE_ENTRIES_MAX as u64)?;
        in_range("the cache time of allow in s", self.positive_s, 0..=HOOK_CACHE_S_MAX)?;
        in_range("the cache time of deny in s", self.negative_s, 0..=HOOK_CACHE_S_MAX)?;
        in_range("the number of failures", u64::from(self.failures), 1..=1_000)?;
        in_range("the open time of the circuit breaker in s", self.open_s, 1..=3_600)?;
        in_range("the number of headers", self.fields.len() as u64, 0..=HOOK_FIELDS_MAX as u64)
    }
}
