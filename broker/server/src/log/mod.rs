//! The log: lines on standard error, as text or JSON, with a bound on repetition.
//!
//! Every crate logs through the `log` facade. Any one statement may write a burst of lines in an interval; what goes
//! beyond is counted and the count is logged, so that a flood of bad clients cannot become a flood of lines.
//! Whoever logs only puts a line into a bounded queue; one thread writes, so that a standard error that nobody reads stops
//! nobody. Nothing here sees payloads or passwords: no statement of ours names them.

pub(crate) mod audit;
mod limiter;
mod pace;
mod queue;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use log::{Level, LevelFilter, Log, Metadata, Record};
use tautwire_reactor::Control;

use crate::config::{LogConfig, LogFormat};
use crate::json;
use crate::stderr;
use crate::telemetry::logs;
use crate::time::UtcTime;
use limiter::{HeldBack, Limiter};
use queue::Queue;

/// How long ending the process waits for a standard error that takes its last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The lines of the process on their way to standard error.
static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// Whether lines are JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);
static LIMITER: Mutex<Option<Limiter>> = Mutex::new(None);

/// From now on lines are written like this.
pub(crate) fn adopt(config: &LogConfig) {
    IS_JSON.store(config.format == LogFormat::Json, Ordering::Relaxed);
    let interval = Duration::from_secs(config.repeat_interval_s.into());
    let mut limiter = limiter();
    match &mut *limiter {
        Some(limiter) => limiter.set_limits(config.repeat_burst, interval),
        None => *limiter = Some(Limiter::new(config.repeat_burst, interval)),
    }
    log::set_max_level(config.level.to_level_filter().min(LevelFilter::Debug));
}

fn format() -> LogFormat {
    if IS_JSON.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Text }
}

fn limiter() -> MutexGuard<'static, Option<Limiter>> {
    LIMITER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the log of the whole process to standard error, from now on, and what is said of a panic. Only the first call counts.
pub(crate) fn init(config: &LogConfig) {
    adopt(config);
    let queue = match Queue::start(Box::new(std::io::stderr()), |count| lost_lines(format(), count)) {
        Ok(queue) => queue,
        Err(error) => {
            stderr::write_line(format_args!("tautwire: nothing is logged: its thread cannot be started: {error}"));
            return;
        }
    };
    let sink = StderrLog { queue: queue.clone() };
    if QUEUE.set(queue).is_ok() && log::set_boxed_logger(Box::new(sink)).is_ok() {
        // The usual one writes to standard error itself, and would wait for whoever reads it.
        std::panic::set_hook(Box::new(|panic| {
            log::error!("{panic}");
            log::logger().flush();
        }));
    }
}

/// Counts the lines that are lost, and those that have been lost already, with the broker's counters.
pub(crate) fn count_losses(control: &Control) {
    if let Some(queue) = QUEUE.get() {
        let control = control.clone();
        queue.count_losses(Box::new(move |lines| control.count_lost_log_lines(lines)));
    }
    audit::count_losses(control);
}

fn lost_lines(format: LogFormat, count: u64) -> String {
    let mut line = String::new();
    let message = format!("{count} lines of the log were lost here: standard error was not read in time");
    push_line(&mut line, format, &UtcTime::now(), Level::Warn, module_path!(), &message);
    line
}

struct StderrLog {
    queue: Arc<Queue>,
}

impl Log for StderrLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if record.target() == audit::TARGET {
            audit::take(record);
            return;
        }
        if !self.enabled(record.metadata()) {
            return;
        }
        let now = UtcTime::now();
        let mut lines = String::new();
        let written = {
            let mut limiter = limiter();
            let Some(limiter) = &mut *limiter else { return };
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
            let message = record.args().to_string();
            push_line(&mut lines, format(), &now, record.level(), record.target(), &message);
            logs::offer(record.level(), record.target(), &message);
        }
        self.queue.push(lines);
    }

    /// Writes the counts of the lines held back so far, and waits a moment for all lines to be taken.
    fn flush(&self) {
        let now = UtcTime::now();
        let mut lines = String::new();
        let held_back = limiter().as_mut().map_or_else(Vec::new, Limiter::take_all);
        for held_back in held_back {
            self.push_held_back(&mut lines, &now, &held_back);
        }
        self.queue.push(lines);
        self.queue.wait_until_written(LAST_LINES);
        audit::flush();
    }
}

impl StderrLog {
    fn push_held_back(&self, lines: &mut String, now: &UtcTime, held_back: &HeldBack) {
        let (file, line) = held_back.site;
        let message = format!("{} more lines like those from {file}:{line} were held back", held_back.count);
        push_line(lines, format(), now, held_back.level, &held_back.target, &message);
        logs::offer(held_back.level, &held_back.target, &message);
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
}
