//! The log: lines on standard error as text or JSON, with rate limits for repeated lines.
//!
//! Every crate logs through the `log` facade. Each log statement may write a burst of lines per interval; further lines are counted and the
//! count is logged, so that a flood of bad clients does not flood the log. Refusals, denials and failed logins are events of the audit log
//! ([`audit`]) that become log lines here ([`events`]); they are limited by kind. Logging only appends to a bounded queue; one thread
//! writes, so that a blocked standard error blocks nothing else. Payloads and passwords never get here: no log statement includes them.

pub(crate) mod audit;
mod events;
mod limiter;
mod line;
mod queue;
mod rate;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use log::{Level, LevelFilter, Log, Metadata, Record};
use tautwire_reactor::{Control, counted};

use crate::config::{LogConfig, LogFormat};
use crate::stderr;
use crate::telemetry::logs;
use crate::time::UtcTime;
use limiter::{LimitKey, Limiter, SuppressedLines};
use line::{FieldValue, Fields, push_line};
use queue::Queue;

/// Longest wait for standard error when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Lines waiting to be written to standard error.
static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// Whether lines are JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);
static LIMITER: Mutex<Option<Limiter>> = Mutex::new(None);
/// Lines suppressed by the rate limits.
static SUPPRESSED: AtomicU64 = AtomicU64::new(0);

/// The number of lines suppressed by the rate limits so far.
pub(crate) fn suppressed_lines() -> u64 {
    SUPPRESSED.load(Ordering::Relaxed)
}

/// Applies the log settings.
pub(crate) fn apply(config: &LogConfig) {
    IS_JSON.store(config.format == LogFormat::Json, Ordering::Relaxed);
    let interval = Duration::from_secs(config.rate_limit_interval_s.into());
    let mut limiter = limiter();
    match &mut *limiter {
        Some(limiter) => limiter.set_limits(config.rate_limit_burst, interval),
        None => *limiter = Some(Limiter::new(config.rate_limit_burst, interval)),
    }
    log::set_max_level(config.level.to_level_filter().min(LevelFilter::Debug));
}

fn format() -> LogFormat {
    if IS_JSON.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Text }
}

fn limiter() -> MutexGuard<'static, Option<Limiter>> {
    LIMITER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the logger and the panic hook of the process. Only the first call has an effect.
pub(crate) fn init(config: &LogConfig) {
    apply(config);
    let queue = match Queue::start(Box::new(std::io::stderr()), |count| lost_lines(format(), count)) {
        Ok(queue) => queue,
        Err(error) => {
            stderr::write_line(format_args!("tautwire: logging is disabled: cannot start the log thread: {error}"));
            return;
        }
    };
    let sink = StderrLog { queue: queue.clone() };
    if QUEUE.set(queue).is_ok() && log::set_boxed_logger(Box::new(sink)).is_ok() {
        // The default hook writes to standard error itself, and would block if nobody reads it.
        std::panic::set_hook(Box::new(|panic| {
            log::error!("{panic}");
            log::logger().flush();
        }));
    }
}

/// Reports lost lines, including earlier ones, to the broker's counters.
pub(crate) fn count_losses(control: &Control) {
    if let Some(queue) = QUEUE.get() {
        let control = control.clone();
        queue.count_losses(Box::new(move |lines| control.count_lost_log_lines(lines)));
    }
    audit::count_losses(control);
}

fn lost_lines(format: LogFormat, count: u64) -> String {
    let mut line = String::new();
    let message = format!("{count} log lines were lost here: standard error was not read in time");
    push_line(&mut line, format, &UtcTime::now(), (Level::Warn, module_path!()), &message, &Fields::default());
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
            if let Some(event) = events::of(record).filter(|event| event.level <= log::max_level()) {
                let line = || event.line(record);
                self.write((event.level, events::TARGET), Some(LimitKey::Kind(event.kind)), line);
            }
            audit::take(record);
            return;
        }
        if !self.enabled(record.metadata()) {
            return;
        }
        let site = match (record.level(), record.file_static(), record.line()) {
            (Level::Error | Level::Warn | Level::Info, Some(file), Some(line)) => Some(LimitKey::Statement(file, line)),
            _ => None,
        };
        let line = || (record.args().to_string(), Fields::of(record.key_values()));
        self.write((record.level(), record.target()), site, line);
    }

    /// Writes the pending counts of suppressed lines, and waits briefly until all lines are written.
    fn flush(&self) {
        let now = UtcTime::now();
        let mut lines = String::new();
        let suppressed = limiter().as_mut().map_or_else(Vec::new, Limiter::take_all);
        for suppressed in suppressed {
            self.push_suppressed(&mut lines, &now, &suppressed);
        }
        self.queue.push(lines);
        self.queue.wait_until_written(FLUSH_TIMEOUT);
        audit::flush();
    }
}

impl StderrLog {
    /// Writes a line, unless its site exceeds the limit, and the pending counts of suppressed lines.
    fn write(&self, (level, target): (Level, &str), site: Option<LimitKey>, line: impl FnOnce() -> (String, Fields)) {
        let now = UtcTime::now();
        let mut lines = String::new();
        let is_admitted = {
            let mut limiter = limiter();
            let Some(limiter) = &mut *limiter else { return };
            let instant = Instant::now();
            for suppressed in limiter.take_finished(instant) {
                self.push_suppressed(&mut lines, &now, &suppressed);
            }
            site.is_none_or(|site| limiter.admit(site, level, target, instant))
        };
        if is_admitted {
            let (message, fields) = line();
            push_line(&mut lines, format(), &now, (level, target), &message, &fields);
            logs::offer(level, target, &message, fields.texts());
        } else {
            SUPPRESSED.fetch_add(1, Ordering::Relaxed);
        }
        self.queue.push(lines);
    }

    fn push_suppressed(&self, lines: &mut String, now: &UtcTime, suppressed: &SuppressedLines) {
        let SuppressedLines { site, level, target, count } = suppressed;
        let more_lines = counted(*count, "more line");
        let message = match site {
            LimitKey::Statement(file, line) => format!("suppressed {more_lines} like those from {file}:{line}"),
            LimitKey::Kind(kind) => format!("suppressed {more_lines} `{kind}`"),
        };
        let fields = Fields::default().with("suppressed", FieldValue::Number(*count));
        push_line(lines, format(), now, (*level, target), &message, &fields);
        logs::offer(*level, target, &message, fields.texts());
    }
}
