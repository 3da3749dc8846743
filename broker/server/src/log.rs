//! The log: lines on standard error, as text or JSON, with a bound on repetition.
//!
//! Every crate logs through the `log` facade. Any one statement may write a burst of lines in an interval; what goes
//! beyond is counted and the count is logged, so that a flood of bad clients cannot become a flood of lines.
//! Nothing here sees payloads or passwords: no statement of ours names them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::config::{LogConfig, LogFormat};
use crate::json;
use crate::time::UtcTime;

/// Sends the log of the whole process to standard error, from now on. Only the first call counts.
pub(crate) fn init(config: &LogConfig) {
    let sink = StderrLog {
        format: config.format,
        limiter: Mutex::new(Limiter::new(config.repeat_burst, Duration::from_secs(config.repeat_interval_s.into()))),
    };
    if log::set_boxed_logger(Box::new(sink)).is_ok() {
        log::set_max_level(config.level.to_level_filter().min(LevelFilter::Debug));
    }
}

struct StderrLog {
    format: LogFormat,
    limiter: Mutex<Limiter>,
}

impl Log for StderrLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let now = UtcTime::now();
        let mut lines = String::new();
        let written = {
            let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
            let instant = Instant::now();
            for held_back in limiter.take_finished(instant) {
                self.push_held_back(&mut lines, &now, &held_back);
            }
            match (record.level(), record.file_static(), record.line()) {
                (Level::Error | Level::Warn | Level::Info, Some(file), Some(line)) => {
                    limiter.admit((file, line), record.level(), record.target(), instant)
                }
                _ => true,
            }
        };
        if written {
            push_line(&mut lines, self.format, &now, record.level(), record.target(), &record.args().to_string());
        }
        write_to_stderr(&lines);
    }

    /// Writes the counts of the lines held back so far.
    fn flush(&self) {
        let now = UtcTime::now();
        let mut lines = String::new();
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        for held_back in limiter.take_all() {
            self.push_held_back(&mut lines, &now, &held_back);
        }
        write_to_stderr(&lines);
    }
}

impl StderrLog {
    fn push_held_back(&self, lines: &mut String, now: &UtcTime, held_back: &HeldBack) {
        let (file, line) = held_back.site;
        let message = format!("{} more lines like those from {file}:{line} were held back", held_back.count);
        push_line(lines, self.format, now, held_back.level, &held_back.target, &message);
    }
}

/// One write a line, so that lines of several threads do not mix. A closed standard error is no reason to stop.
fn write_to_stderr(lines: &str) {
    if !lines.is_empty() {
        let _ = std::io::stderr().lock().write_all(lines.as_bytes());
    }
}

fn push_line(out: &mut String, format: LogFormat, now: &UtcTime, level: Level, target: &str, message: &str) {
    match format {
        LogFormat::Text => {
            now.push_rfc3339(out, 3);
            let _ = write!(out, " {level:<5} ");
            push_printable(out, message);
        }
        LogFormat::Json => {
            out.push_str("{\"time\":\"");
            now.push_rfc3339(out, 3);
            let _ = write!(out, "\",\"level\":\"{}\",\"target\":", level.as_str().to_ascii_lowercase());
            json::push_string(out, target);
            out.push_str(",\"message\":");
            json::push_string(out, message);
            out.push('}');
        }
    }
    out.push('\n');
}

/// Client identifiers and topics come from strangers: no line break or terminal command of theirs reaches the log.
fn push_printable(out: &mut String, text: &str) {
    for character in text.chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
}

/// The file and line of a log statement.
type Site = (&'static str, u32);

/// Counts lines per log statement, so its size is bounded by the number of statements in the code.
struct Limiter {
    /// 0 means no bound.
    burst: u32,
    interval: Duration,
    windows: HashMap<Site, Window>,
}

struct Window {
    started: Instant,
    written: u32,
    held_back: u64,
    level: Level,
    target: String,
}

struct HeldBack {
    site: Site,
    level: Level,
    target: String,
    count: u64,
}

impl Limiter {
    fn new(burst: u32, interval: Duration) -> Self {
        Self { burst, interval, windows: HashMap::new() }
    }

    /// Whether a line of this statement may be written now.
    fn admit(&mut self, site: Site, level: Level, target: &str, now: Instant) -> bool {
        if self.burst == 0 {
            return true;
        }
        let window = self.windows.entry(site).or_insert_with(|| Window {
            started: now,
            written: 0,
            held_back: 0,
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
            window.held_back += 1;
        }
        admitted
    }

    /// The counts of the statements whose interval is over.
    fn take_finished(&mut self, now: Instant) -> Vec<HeldBack> {
        let interval = self.interval;
        self.take(|window| now.duration_since(window.started) >= interval)
    }

    fn take_all(&mut self) -> Vec<HeldBack> {
        self.take(|_| true)
    }

    fn take(&mut self, finished: impl Fn(&Window) -> bool) -> Vec<HeldBack> {
        self.windows
            .iter_mut()
            .filter(|(_, window)| window.held_back > 0 && finished(window))
            .map(|(site, window)| HeldBack {
                site: *site,
                level: window.level,
                target: window.target.clone(),
                count: std::mem::take(&mut window.held_back),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: fn() -> UtcTime = || UtcTime::from_unix(1_700_000_000, 250_000_000);

    #[test]
    fn text_lines_carry_time_level_and_message() {
        let mut out = String::new();
        push_line(&mut out, LogFormat::Text, &NOW(), Level::Warn, "tautwire", "client \"a\" left");
        assert_eq!(out, "2023-11-14T22:13:20.250Z WARN  client \"a\" left\n");
    }

    #[test]
    fn a_line_break_or_escape_in_a_message_cannot_forge_a_line() {
        let mut out = String::new();
        push_line(&mut out, LogFormat::Text, &NOW(), Level::Info, "t", "id x\n2023 ERROR \u{1b}[31m\u{9b}");
        assert_eq!(out.matches('\n').count(), 1);
        assert!(out.contains("id x\\n2023 ERROR \\u{1b}[31m\\u{9b}"), "{out}");
    }

    #[test]
    fn json_lines_are_json() {
        let mut out = String::new();
        push_line(&mut out, LogFormat::Json, &NOW(), Level::Error, "tautwire::serve", "a \"b\"\n");
        assert!(json::is_json(out.as_bytes()), "{out}");
        assert_eq!(
            out,
            "{\"time\":\"2023-11-14T22:13:20.250Z\",\"level\":\"error\",\"target\":\"tautwire::serve\",\"message\":\"a \\\"b\\\"\\n\"}\n"
        );
    }

    #[test]
    fn one_statement_writes_a_burst_then_is_counted_and_the_count_comes_out_once() {
        let mut limiter = Limiter::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let (flood, other) = (("a.rs", 1), ("a.rs", 2));
        let admit = |limiter: &mut Limiter, site, s| limiter.admit(site, Level::Warn, "t", at(s));
        assert!(admit(&mut limiter, flood, 0));
        assert!(admit(&mut limiter, flood, 1));
        assert!(!admit(&mut limiter, flood, 2));
        assert!(!admit(&mut limiter, flood, 9));
        assert!(admit(&mut limiter, other, 9), "another statement has a burst of its own");
        assert!(limiter.take_finished(at(9)).is_empty());
        let counts: Vec<_> = limiter.take_finished(at(10)).into_iter().map(|held| (held.site, held.count)).collect();
        assert_eq!(counts, [(flood, 2)]);
        assert!(limiter.take_all().is_empty());
        assert!(admit(&mut limiter, flood, 10), "the next interval starts anew");
    }

    #[test]
    fn a_burst_of_zero_means_no_bound() {
        let mut limiter = Limiter::new(0, Duration::from_secs(10));
        let now = Instant::now();
        assert!((0..1000).all(|_| limiter.admit(("a.rs", 1), Level::Warn, "t", now)));
    }
}
