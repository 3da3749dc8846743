//! The scenarios, samples and payloads of all libraries.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;

pub const TOPIC: &str = "bench/topic";
pub const PAYLOAD_BYTES: usize = 64;
/// The maximum number of undelivered messages.
pub const CREDIT: u64 = 1000;
/// The maximum number of unacknowledged QoS 1 messages.
pub const IN_FLIGHT: u16 = 100;

#[derive(Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    pub v5: bool,
    pub qos: u8,
    pub kind: Kind,
    pub messages: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A publisher and a subscriber at maximum speed.
    Flood,
    /// One client, one message at a time.
    RoundTrip,
}

pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "flood-qos0-v3", v5: false, qos: 0, kind: Kind::Flood, messages: 200_000 },
    Scenario { name: "flood-qos0-v5", v5: true, qos: 0, kind: Kind::Flood, messages: 200_000 },
    Scenario { name: "flood-qos1-v3", v5: false, qos: 1, kind: Kind::Flood, messages: 100_000 },
    Scenario { name: "flood-qos1-v5", v5: true, qos: 1, kind: Kind::Flood, messages: 100_000 },
    Scenario { name: "round-trip-qos0-v3", v5: false, qos: 0, kind: Kind::RoundTrip, messages: 5_000 },
    Scenario { name: "round-trip-qos1-v5", v5: true, qos: 1, kind: Kind::RoundTrip, messages: 5_000 },
];

/// The measured values.
pub struct Sample {
    pub cpu_s: f64,
    pub elapsed_s: f64,
    pub messages: u64,
    /// The median of the round trips; 0 without round trips.
    pub p50_us: f64,
}

impl Sample {
    pub fn parse(text: &str) -> Option<Sample> {
        let mut numbers = text.split(' ').map(str::parse::<f64>);
        let mut next = || numbers.next()?.ok();
        Some(Sample { cpu_s: next()?, elapsed_s: next()?, messages: next()? as u64, p50_us: next()? })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.cpu_s, self.elapsed_s, self.messages, self.p50_us)
    }
}

/// Measures the CPU time of the process and the elapsed time.
pub struct Watch {
    cpu: ProcessTime,
    begun: Instant,
}

impl Watch {
    pub fn start() -> Watch {
        Watch { cpu: ProcessTime::now(), begun: Instant::now() }
    }

    pub fn stop(self, messages: u64, mut round_trips: Vec<Duration>) -> Sample {
        round_trips.sort_unstable();
        let median = round_trips.get(round_trips.len() / 2).copied().unwrap_or_default();
        Sample {
            cpu_s: self.cpu.elapsed().as_secs_f64(),
            elapsed_s: self.begun.elapsed().as_secs_f64(),
            messages,
            p50_us: median.as_secs_f64() * 1e6,
        }
    }
}

/// The number of delivered messages, which limits the messages in flight to what the broker queues.
#[derive(Default)]
pub struct Credit {
    delivered: AtomicU64,
    more: tokio::sync::Notify,
}

impl Credit {
    pub fn delivered(&self) {
        // Updated in steps, so that the update costs nothing in either library.
        if (self.delivered.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(CREDIT / 8) {
            self.more.notify_one();
        }
    }

    pub async fn wait(&self, sent: u64) {
        while sent.saturating_sub(self.delivered.load(Ordering::Relaxed)) >= CREDIT {
            self.more.notified().await;
        }
    }
}

/// Each message carries its number, to detect missing and reordered ones.
pub fn payload(number: u64) -> [u8; PAYLOAD_BYTES] {
    let mut payload = [b'x'; PAYLOAD_BYTES];
    payload[..8].copy_from_slice(&number.to_be_bytes());
    payload
}

pub fn check(payload: &[u8], number: u64) {
    assert_eq!(payload.len(), PAYLOAD_BYTES);
    assert_eq!(payload[..8], number.to_be_bytes(), "a message is missing or out of order");
}
