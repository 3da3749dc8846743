//! QoS 1 and 2 messages lost because a session's queue was full, as reported in the log and in CONNACK.
//!
//! An episode begins with the first dropped message, and ends when the client has caught up or the session ends.

mod steps;

/// Log lines about new episodes, per second and shard. One message may be dropped for many sessions.
const LINES_MAX: u32 = 10;

const LINES_MS: u64 = 1_000;

/// The CONNACK user property with the number of dropped messages.
pub(crate) const DROPPED_MESSAGES: &str = "tautwire-dropped-messages";

/// The CONNACK user property with the time of the first drop.
pub(crate) const DROPPED_FROM: &str = "tautwire-dropped-from";

/// The CONNACK user property with the time of the last drop.
pub(crate) const DROPPED_UNTIL: &str = "tautwire-dropped-until";

/// Limits the log lines about message loss, which many sessions may cause at once.
#[derive(Debug, Default)]
pub(crate) struct LossLog {
    since_ms: u64,
    lines: u32,
    suppressed: u64,
}

impl LossLog {
    /// The number of lines suppressed since the last one if a line can be logged now, else `None`.
    fn line(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms >= self.since_ms + LINES_MS {
            (self.since_ms, self.lines) = (now_ms, 0);
        }
        if self.lines == LINES_MAX {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_limited_per_second_and_the_rest_is_counted() {
        let mut log = LossLog::default();
        for _ in 0..LINES_MAX {
            assert_eq!(log.line(5_000), Some(0));
        }
        assert_eq!((log.line(5_000), log.line(5_999)), (None, None));
        assert_eq!((log.line(6_000), log.line(6_000)), (Some(2), Some(0)));
    }
}
