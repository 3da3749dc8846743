//! Rate limits for repeated log lines.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use log::Level;

/// The unit of rate limiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LimitKey {
    /// The file and line of a log statement.
    Statement(&'static str, u32),
    /// The kind of an event.
    Kind(&'static str),
}

/// Limits lines per log statement and per kind of event. Its size is bounded by their number in the code.
pub(super) struct Limiter {
    /// 0 disables the limit.
    burst: u32,
    interval: Duration,
    windows: HashMap<LimitKey, Window>,
}

struct Window {
    started: Instant,
    written: u32,
    suppressed: u64,
    level: Level,
    target: String,
}

pub(super) struct SuppressedLines {
    pub(super) site: LimitKey,
    pub(super) level: Level,
    pub(super) target: String,
    pub(super) count: u64,
}

impl Limiter {
    pub(super) fn new(burst: u32, interval: Duration) -> Self {
        Self { burst, interval, windows: HashMap::new() }
    }

    /// Changes the limits.
    pub(super) fn set_limits(&mut self, burst: u32, interval: Duration) {
        (self.burst, self.interval) = (burst, interval);
    }

    /// Whether a line of this site may be written now.
    pub(super) fn admit(&mut self, site: LimitKey, level: Level, target: &str, now: Instant) -> bool {
        if self.burst == 0 {
            return true;
        }
        let window = self.windows.entry(site).or_insert_with(|| Window {
            started: now,
            written: 0,
            suppressed: 0,
            level,
            target: target.to_owned(),
        });
        if now.duration_since(window.started) >= self.interval {
            window.started = now;
            window.written = 0;
        }
        let admitted = window.written < self.burst;
        if admitted {
            window.written += 1;
        } else {
            window.suppressed += 1;
        }
        admitted
    }

    /// The counts of sites whose interval has ended.
    pub(super) fn take_finished(&mut self, now: Instant) -> Vec<SuppressedLines> {
        let interval = self.interval;
        self.take(|window| now.duration_since(window.started) >= interval)
    }

    pub(super) fn take_all(&mut self) -> Vec<SuppressedLines> {
        self.take(|_| true)
    }

    fn take(&mut self, finished: impl Fn(&Window) -> bool) -> Vec<SuppressedLines> {
        self.windows
            .iter_mut()
            .filter(|(_, window)| window.suppressed > 0 && finished(window))
            .map(|(site, window)| SuppressedLines {
                site: *site,
                level: window.level,
                target: window.target.clone(),
                count: std::mem::take(&mut window.suppressed),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_beyond_its_burst_is_suppressed_and_counted_once() {
        let mut limiter = Limiter::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let (flood, other) = (LimitKey::Statement("a.rs", 1), LimitKey::Kind("refused connection"));
        let admit = |limiter: &mut Limiter, site, s| limiter.admit(site, Level::Warn, "t", at(s));
        assert!(admit(&mut limiter, flood, 0));
        assert!(admit(&mut limiter, flood, 1));
        assert!(!admit(&mut limiter, flood, 2));
        assert!(!admit(&mut limiter, flood, 9));
        assert!(admit(&mut limiter, other, 9), "another site has its own burst");
        assert!(limiter.take_finished(at(9)).is_empty());
        let counts: Vec<_> = limiter.take_finished(at(10)).into_iter().map(|lines| (lines.site, lines.count)).collect();
        assert_eq!(counts, [(flood, 2)]);
        assert!(limiter.take_all().is_empty());
        assert!(admit(&mut limiter, flood, 10), "the next interval has a new burst");
    }

    #[test]
    fn a_burst_of_zero_means_no_limit() {
        let mut limiter = Limiter::new(0, Duration::from_secs(10));
        let now = Instant::now();
        assert!((0..1000).all(|_| limiter.admit(LimitKey::Statement("a.rs", 1), Level::Warn, "t", now)));
    }
}
