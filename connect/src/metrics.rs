//! Counters and states of the sinks.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

/// Counters of a sink: name, help text and value, in one table.
macro_rules! counters {
    ($($name:ident: $help:literal,)*) => {
        /// The counters and the state of a sink.
        #[derive(Debug, Default)]
        pub(crate) struct SinkMetrics {
            pub(crate) name: String,
            $(pub(crate) $name: AtomicU64,)*
            pub(crate) is_connected: AtomicBool,
            is_writable: AtomicBool,
            last_error: Mutex<Option<String>>,
        }

        const COUNTERS: &[(&str, &str)] = &[$((stringify!($name), $help),)*];

        impl SinkMetrics {
            fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*].into_iter()
            }
        }
    };
}

counters! {
    messages_received: "Messages received from the broker, with repetitions",
    messages_stored: "Messages that the target has stored",
    bytes_stored: "Payload bytes that the target has stored",
    batches_stored: "Batches that the target has stored",
    duplicates_skipped: "Messages received again that the target already had",
    dead_letters: "Messages sent to the dead-letter topic",
    dead_letters_refused: "Dead letters that the broker refused; the messages are lost",
    write_errors: "Attempts to write a batch that failed and were repeated",
    sessions_lost: "Connections for which the broker had no session",
}

impl SinkMetrics {
    pub(crate) fn new(name: &str) -> SinkMetrics {
        SinkMetrics { name: name.into(), ..SinkMetrics::default() }
    }

    /// The target accepts writes.
    pub(crate) fn set_writable(&self) {
        self.is_writable.store(true, Ordering::Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The target does not accept writes.
    pub(crate) fn set_failed(&self, error: &str) {
        self.is_writable.store(false, Ordering::Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.into());
    }

    /// Whether both the broker and the target are available.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed) && self.is_writable.load(Ordering::Relaxed)
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

/// All metrics in the Prometheus text format.
pub(crate) fn prometheus<'a>(sinks: impl Iterator<Item = &'a SinkMetrics> + Clone) -> String {
    let mut text = String::new();
    for (at, (name, help)) in COUNTERS.iter().enumerate() {
        let _ = writeln!(text, "# HELP tautwire_connect_{name} {help}\n# TYPE tautwire_connect_{name} counter");
        for sink in sinks.clone() {
            let value = sink.counters().nth(at).map_or(0, |(_, value)| value);
            let _ = writeln!(text, "tautwire_connect_{name}{{sink=\"{}\"}} {value}", sink.name);
        }
    }
    text.push_str("# HELP tautwire_connect_ready Whether the broker and the target are available\n");
    text.push_str("# TYPE tautwire_connect_ready gauge\n");
    for sink in sinks {
        let _ = writeln!(text, "tautwire_connect_ready{{sink=\"{}\"}} {}", sink.name, u8::from(sink.is_ready()));
    }
    text
}

/// The status of all sinks as JSON.
pub(crate) fn status<'a>(sinks: impl Iterator<Item = &'a SinkMetrics>) -> serde_json::Value {
    let sinks: Vec<_> = sinks
        .map(|sink| {
            let last_error = sink.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let counters: serde_json::Map<_, _> =
                sink.counters().map(|(name, value)| (name.into(), value.into())).collect();
            json!({"name": sink.name, "ready": sink.is_ready(), "last_error": last_error, "counters": counters})
        })
        .collect();
    json!({"sinks": sinks})
}
