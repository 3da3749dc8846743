use std::time::Duration;

/// How long to wait before another attempt to connect: at first `min`, twice as long after each failure, at most `max`. Each pause is
/// drawn at random between half of that and all of it, so that many clients do not come back at the same moment. A connection that
/// lasted 5 s begins anew with `min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// After the first failure. Default: 0.5 s.
    pub min: Duration,
    /// The most. Default: 30 s.
    pub max: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Reconnect { min: Duration::from_millis(500), max: Duration::from_secs(30) }
    }
}
