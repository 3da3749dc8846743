use std::time::Duration;

/// The delays before an attempt to reconnect: at first `min`, doubled after each failure, up to `max`. Each delay is random between
/// half and all of that value, so that many clients do not reconnect at the same moment. After a connection of at least 5 s it starts
/// again with `min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// The delay after the first failure. Default: 0.5 s.
    pub min: Duration,
    /// The maximum delay. Default: 30 s.
    pub max: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Reconnect { min: Duration::from_millis(500), max: Duration::from_secs(30) }
    }
}
