use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::bystanders;
use super::context::Context;
use super::parameters::plain_payload;
use super::retained::retained_topic;
use super::retained_on_disk::{NICENESS, store_retained};
use super::store_client::StoreClient;
use crate::failure::{ErrorContext, Failure, Result};
use crate::measure::{Account, Measurement};
use crate::mqtt::{PayloadForm, Publishes, QoS};
use crate::system::{Memory, Meter};

/// The number of messages that are published at a time, at the rate; the directory is checked after each time.
const CHUNK: u64 = 500;
/// The names of the broker's snapshot files, and of incomplete ones.
const SNAPSHOT: &str = "snapshot-";
const UNDER_WAY: &str = ".new";

/// The effect of log snapshots on other clients: one client continuously replaces very many retained messages, so that
/// snapshots are due continuously.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Snapshots {
    pub messages: u64,
    pub payload_bytes: usize,
    /// The maximum number of unacknowledged publishes (QoS 1).
    pub window: usize,
    /// The rate of the client that replaces them.
    pub rate_per_s: u64,
    pub duration_ms: u64,
    /// How long the other clients are measured before.
    pub calm_ms: u64,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self {
            messages: 10_000,
            payload_bytes: 1024,
            window: 100,
            rate_per_s: 20_000,
            duration_ms: 5000,
            calm_ms: 2000,
        }
    }
}

impl Snapshots {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        if self.messages == 0 || self.window == 0 || self.rate_per_s == 0 {
            return Err(Failure::new("messages, window and rate must not be 0"));
        }
        let form = plain_payload(self.payload_bytes)?;
        let violations = store_retained(context, &form, self.messages, self.window)?.violations;
        let meter = Meter::begin(context.broker)?;
        let calm = Duration::from_millis(self.calm_ms);
        let mut measurement = bystanders::beside(context, calm, || self.replace_at_low_priority(context, &form))?;
        let load = meter.end(context.broker)?;
        measurement.account.published += self.messages;
        measurement.account.violations += violations;
        measurement.set("peak_rss_bytes", Memory::read(context.broker.pid)?.peak_rss_bytes as f64);
        load.describe(context.broker, &mut measurement)?;
        Ok(measurement)
    }

    // With low priority, so that the other clients wait for the broker and not for the client that publishes.
    fn replace_at_low_priority(&self, context: &Context<'_>, form: &PayloadForm) -> Result<Measurement> {
        thread::scope(|scope| {
            let replacing = scope.spawn(|| {
                rustix::process::nice(NICENESS).during(|| "lowering the priority".to_owned())?;
                self.replace(context, form)
            });
            replacing.join().map_err(|_| Failure::new("the publishing client panicked"))?
        })
    }

    fn replace(&self, context: &Context<'_>, form: &PayloadForm) -> Result<Measurement> {
        let mut store_client = StoreClient::open(context, "bench-replace", self.window)?;
        let mut seen = SnapshotLog::default();
        seen.scan(context)?;
        let before = seen.names.len();
        let (mut published, mut violations) = (0, 0);
        let duration = Duration::from_millis(self.duration_ms);
        let begun = Instant::now();
        while begun.elapsed() < duration {
            let numbers = (published..published + CHUNK).map(|number| number % self.messages);
            let topics: Vec<String> = numbers.map(retained_topic).collect();
            let mut publishes =
                Publishes::encode(context.version, QoS::AtLeastOnce, form, topics.iter().map(String::as_str))?;
            publishes.retain();
            violations += store_client.store(context, &mut publishes, published)?.violations;
            published += CHUNK;
            seen.scan(context)?;
            let due = Duration::from_secs_f64(published as f64 / self.rate_per_s as f64);
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        let elapsed_s = begun.elapsed().as_secs_f64();
        let snapshots = seen.names.len() - before;
        if snapshots == 0 {
            return Err(Failure::new(format!("no snapshot was taken in {elapsed_s:.1} s: use a longer run")));
        }
        let mut measurement = Measurement::of(Account { published, violations, ..Account::default() });
        measurement.set("snapshots", snapshots as f64);
        measurement.set("snapshot_share_percent", 100.0 * seen.under_way as f64 / seen.looks as f64);
        measurement.set("publishes_per_s", published as f64 / elapsed_s);
        Ok(measurement)
    }
}

/// The snapshots seen.
#[derive(Debug, Default)]
struct SnapshotLog {
    names: HashSet<OsString>,
    looks: u64,
    /// The number of checks that found one in progress.
    under_way: u64,
}

impl SnapshotLog {
    fn scan(&mut self, context: &Context<'_>) -> Result<()> {
        let folder = context.broker.data_folder()?;
        self.looks += 1;
        for entry in fs::read_dir(&folder).during(|| format!("reading {}", folder.display()))? {
            let name = entry?.file_name();
            let text = name.to_string_lossy();
            if text.starts_with(SNAPSHOT) {
                if text.ends_with(UNDER_WAY) {
                    self.under_way += 1;
                } else {
                    self.names.insert(name);
                }
            }
        }
        Ok(())
    }
}
