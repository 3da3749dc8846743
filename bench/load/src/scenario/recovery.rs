use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::client_group::StallTimer;
use super::context::Context;
use super::parameters::plain_payload;
use super::session::STALL_TIMEOUT;
use super::session_mill::{SessionMill, Steps, Topic, own_topic};
use super::store_client::StoreClient;
use crate::failure::{ErrorContext, Failure, Result};
use crate::measure::{Account, ExpectedOrder, Measurement};
use crate::mqtt::{self, Incoming, PayloadForm, Publishes, QoS, ack};
use crate::net::{Connection, Poller, ReadBuffer, connect_from};
use crate::system::{Memory, Meter};

const PARALLEL: u64 = 50;
const CLIENT_IDS: &str = "bench-kept";
/// The number of publishes that are encoded at a time.
const CHUNK: u64 = 10_000;
/// The number of sessions whose clients reconnect to count their messages.
const COUNTED_SESSIONS: u64 = 100;
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Very many sessions with queued messages; the broker is killed and started again on the same directory. Measures the time
/// until it listens, and until the first client has received its messages; memory; the size of the directory relative to its live data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Recovery {
    pub sessions: u64,
    /// A multiple of `sessions`: each has the same number of them.
    pub messages: u64,
    pub payload_bytes: usize,
    /// The maximum number of unacknowledged publishes (QoS 1).
    pub window: usize,
}

impl Default for Recovery {
    fn default() -> Self {
        Self { sessions: 1000, messages: 10_000, payload_bytes: 256, window: 100 }
    }
}

impl Recovery {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        if self.sessions == 0 || self.messages == 0 || !self.messages.is_multiple_of(self.sessions) || self.window == 0
        {
            return Err(Failure::new("messages must be a multiple of sessions, and the window must not be 0"));
        }
        let form = plain_payload(self.payload_bytes)?;
        let meter = Meter::begin(context.broker)?;
        let violations = self.fill(context, &form)?;
        let load = meter.end(context.broker)?;
        let before = Memory::read(context.broker.pid)?;
        let directory_bytes = allocated_bytes(&context.broker.data_folder()?)?;
        context.broker.kill()?;

        let begun = Instant::now();
        let broker = context.broker.start_again()?;
        let ready_s = begun.elapsed().as_secs_f64();
        let context = Context { broker: &broker, ..*context };
        let mut account = Account { published: self.messages, violations, ..Account::default() };
        account.add(&self.reconnect(&context, &form, 0)?);
        let first_served_s = begun.elapsed().as_secs_f64();
        let after = Memory::read(broker.pid)?;
        let restarted_directory_bytes = allocated_bytes(&broker.data_folder()?)?;
        for number in 1..COUNTED_SESSIONS.min(self.sessions) {
            account.add(&self.reconnect(&context, &form, number)?);
        }
        // Messages of the offline sessions are neither expected nor lost.
        let live = self.live_bytes() as f64;
        let mut measurement = Measurement::of(account);
        measurement.set("ready_s", ready_s);
        measurement.set("first_served_s", first_served_s);
        measurement.set("recovered_rss_bytes", after.rss_bytes as f64);
        measurement.set("recovered_peak_rss_bytes", after.peak_rss_bytes as f64);
        measurement.set("filled_rss_bytes", before.rss_bytes as f64);
        measurement.set("live_bytes", live);
        measurement.set("directory_bytes", directory_bytes as f64);
        measurement.set("directory_times_live", directory_bytes as f64 / live);
        measurement.set("restarted_directory_times_live", restarted_directory_bytes as f64 / live);
        measurement.set("fill_s", load.elapsed_s);
        load.describe(&broker, &mut measurement)?;
        broker.pin_all_threads()?;
        Ok(measurement)
    }

    /// Topic, payload, client identifier and filter: the indispensable data.
    fn live_bytes(&self) -> u64 {
        let of_session = |number: u64| (own_topic(number).len() + client_id(number).len()) as u64;
        let of_topics: u64 = (0..self.sessions).map(|number| own_topic(number).len() as u64).sum();
        let of_sessions: u64 = (0..self.sessions).map(of_session).sum();
        self.messages * self.payload_bytes as u64 + self.messages / self.sessions * of_topics + of_sessions
    }

    /// Message `m` is for session `m` modulo their number. Returns how many responses were wrong.
    fn fill(&self, context: &Context<'_>, form: &PayloadForm) -> Result<u64> {
        let steps = Steps {
            subscribe: Some(Topic::OwnPersistent),
            publish: false,
            disconnect: true,
            keep_alive_s: mqtt::KEEP_ALIVE_S,
            client_ids: CLIENT_IDS,
        };
        SessionMill::new(context, steps)?.run(PARALLEL, self.sessions)?;
        let mut store_client = StoreClient::open(context, "bench-fill", self.window)?;
        let mut violations = 0;
        let mut first = 0;
        while first < self.messages {
            let until = (first + CHUNK).min(self.messages);
            let topics: Vec<String> = (first..until).map(|message| own_topic(message % self.sessions)).collect();
            let topics = topics.iter().map(String::as_str);
            let mut publishes = Publishes::encode(context.version, QoS::AtLeastOnce, form, topics)?;
            violations += store_client.store(context, &mut publishes, first)?.violations;
            first = until;
        }
        Ok(violations)
    }

    /// Reconnects a client to receive its queued messages.
    fn reconnect(&self, context: &Context<'_>, form: &PayloadForm, number: u64) -> Result<Account> {
        let mut received = ExpectedOrder::default();
        for message in (number..self.messages).step_by(self.sessions as usize) {
            received.expect(message);
        }
        let due = self.messages / self.sessions;
        let (mut delivered, mut violations) = (0, 0);
        let mut connection = Connection::new(connect_from(None, context.broker.address)?)?;
        let (mut poller, mut buffer) = (Poller::new()?, ReadBuffer::new());
        poller.add(connection.stream(), 0)?;
        connection.send(&mqtt::connect_persistent(context.version, &client_id(number), mqtt::KEEP_ALIVE_S)?)?;
        let mut stall_timer = StallTimer::new(STALL_TIMEOUT);
        while delivered < due {
            poller.wait(Some(Duration::from_millis(100)))?;
            let before = delivered;
            if poller.ready_count() > 0 {
                let mut answer = Vec::new();
                connection.read_frames(&mut buffer, |frame| {
                    match frame.read(context.version.is_v5())? {
                        Incoming::ConnAck { refusal: 0, .. } => {}
                        Incoming::Publish { qos: 1, packet_id, payload } => {
                            let stamp = form.read(payload, context.run);
                            delivered += u64::from(stamp.is_some_and(|stamp| received.arrive(stamp.seq)));
                            answer.extend_from_slice(&ack(0x40, packet_id));
                        }
                        _ => violations += 1,
                    }
                    Ok(())
                })?;
                connection.send(&answer)?;
            }
            if stall_timer.is_over(delivered - before) {
                break;
            }
        }
        Ok(Account { violations, ..received.account() })
    }
}

fn client_id(number: u64) -> String {
    format!("{CLIENT_IDS}-{number}")
}

/// The disk usage of the files of a folder.
pub(super) fn allocated_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).during(|| format!("reading {}", folder.display()))? {
        match entry?.metadata() {
            Ok(metadata) => bytes += metadata.blocks() * BLOCK_BYTES,
            // The broker may have removed or renamed it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_bytes_include_sessions_and_messages() {
        let recovery = Recovery { sessions: 2, messages: 6, payload_bytes: 100, window: 1 };
        let (topic, id) = ("bench/0/own".len() as u64, "bench-kept-0".len() as u64);
        assert_eq!(recovery.live_bytes(), 6 * (100 + topic) + 2 * (topic + id));
    }

    #[test]
    fn a_folder_uses_the_blocks_of_its_files() {
        let folder = std::env::temp_dir().join(format!("tautwire-bench-allocated-{}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        let empty = allocated_bytes(&folder);
        fs::write(folder.join("file"), vec![1; 100_000]).expect("written");
        fs::File::open(folder.join("file")).and_then(|file| file.sync_all()).expect("synced");
        let filled = allocated_bytes(&folder);
        fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(empty.expect("readable"), 0);
        assert!((100_000..200_000).contains(&filled.expect("readable")));
    }
}
