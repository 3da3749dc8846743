//! Messages of QoS 1 and 2 that a session has lost because its queue was full: what the log says of them, and what the client is told when
//! it connects.
//!
//! An episode begins with the first message that is dropped, and ends when the client has caught up or the session ends.

mod steps;

/// Lines of the log about episodes that begin, in one second of one shard: one message may be dropped for many sessions.
const LINES_MAX: u32 = 10;

const LINES_MS: u64 = 1_000;

/// The user properties of a CONNACK to a client that has lost messages: how many, and when the first and the last was dropped.
pub(crate) const DROPPED_MESSAGES: &str = "tautwire-dropped-messages";

pub(crate) const DROPPED_FROM: &str = "tautwire-dropped-from";

pub(crate) const DROPPED_UNTIL: &str = "tautwire-dropped-until";

/// Keeps the log readable while many sessions lose messages.
#[derive(Debug, Default)]
pub(crate) struct LossLog {
    since_ms: u64,
    lines: u32,
    suppressed: u64,
}

impl LossLog {
    /// Whether there is a line for an episode that begins: how many others have had none since the last line, or `None`.
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
    fn so_many_lines_are_written_in_a_second_and_the_others_are_counted() {
        let mut log = LossLog::default();
        for _ in 0..LINES_MAX {
            assert_eq!(log.line(5_000), Some(0));
        }
        assert_eq!((log.line(5_000), log.line(5_999)), (None, None));
        assert_eq!((log.line(6_000), log.line(6_000)), (Some(2), Some(0)));
    }
}
