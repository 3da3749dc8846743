use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::context::Context;
use super::super::session_mill::{SessionMill, Steps, Topic, source_address};
use super::client_nodes;
use super::probe_client::ConnackResult;
use crate::failure::{Failure, Result};
use crate::measure::{Account, Measurement};
use crate::mqtt::{self, Incoming};
use crate::net::{Connection, Poller, ReadBuffer, begin_connecting_from};
use crate::system::Meter;

const CLIENT_IDS: &str = "bench-orphan";
/// `lease_ms` of the cluster: how long a node serves after its last heartbeat.
const LEASE: Duration = Duration::from_secs(6);
/// The delay before a refused or disconnected client retries.
const AGAIN: Duration = Duration::from_millis(200);
const ALL_BACK: Duration = Duration::from_secs(120);

/// Very many sessions of one broker, which is killed; all clients connect to the others repeatedly, until they are accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DeadNode {
    pub sessions: u64,
    /// The number of clients that wait for a response concurrently.
    pub parallel: u64,
}

impl Default for DeadNode {
    fn default() -> Self {
        Self { sessions: 10_000, parallel: 1000 }
    }
}

impl DeadNode {
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let cluster = context.broker.cluster()?;
        let [dead, observer, ..] = cluster.brokers.as_slice() else {
            return Err(Failure::new("the cluster needs at least two brokers"));
        };
        if self.sessions == 0 || self.parallel == 0 {
            return Err(Failure::new("sessions and parallel must not be 0"));
        }
        let steps = Steps {
            subscribe: Some(Topic::OwnPersistent),
            publish: false,
            disconnect: false,
            keep_alive_s: mqtt::KEEP_ALIVE_S,
            client_ids: CLIENT_IDS,
        };
        let mut mill = SessionMill::new(context, steps)?;
        let connecting = mill.run(self.parallel.min(200), self.sessions)?;
        let meter = Meter::begin(context.broker)?;
        let status = observer.cluster_status()?;
        let beat = status.nodes.iter().find(|node| node.name == dead.name && node.state == "alive");
        let age = beat.map(|node| Duration::from_millis(node.age_ms));
        let age = age.ok_or_else(|| Failure::new(format!("{} does not know {}", observer.name, dead.name)))?;
        dead.kill()?;
        let killed = Instant::now();
        drop(mill);
        let ReconnectTimes { first, last, refused, sessions_lost } = self.reconnect(context, killed)?;
        let lease = LEASE.saturating_sub(age).as_secs_f64();

        let mut measurement = Measurement::of(Account { violations: sessions_lost, ..Account::default() });
        measurement.set("sessions", self.sessions as f64);
        measurement.set("connects_per_s", self.sessions as f64 / connecting.as_secs_f64());
        measurement.set("first_back_after_kill_s", first.as_secs_f64());
        measurement.set("all_back_after_kill_s", last.as_secs_f64());
        measurement.set("all_back_after_lease_s", last.as_secs_f64() - lease);
        measurement.set("attempts_refused", refused as f64);
        let load = meter.end(context.broker)?;
        measurement.set("broker_cpu_us_per_session", load.broker_cpu_s * 1e6 / self.sessions as f64);
        measurement.set("servers_cpu_us_per_session", load.servers_cpu_s * 1e6 / self.sessions as f64);
        Ok(measurement)
    }

    fn reconnect(&self, context: &Context<'_>, killed: Instant) -> Result<ReconnectTimes> {
        let client_nodes = client_nodes(context)?.split_off(1);
        let (mut poller, mut buffer) = (Poller::new()?, ReadBuffer::new());
        let mut orphans: Vec<ClientState> = (0..self.sessions).map(|_| ClientState::Offline { since: None }).collect();
        let (mut under_way, mut next, mut back, mut refused, mut sessions_lost, mut first) = (0, 0, 0, 0, 0, None);
        while back < self.sessions {
            let now = Instant::now();
            if now.duration_since(killed) > ALL_BACK {
                return Err(Failure::new(format!("{back} of {} sessions were resumed", self.sessions)));
            }
            for _ in 0..self.sessions {
                if under_way == self.parallel {
                    break;
                }
                let number = next;
                next = (next + 1) % self.sessions;
                let orphan = &mut orphans[number as usize];
                if orphan.is_due(now) {
                    *orphan = ClientState::Connecting(ask(
                        context,
                        client_nodes[number as usize % client_nodes.len()],
                        number,
                    )?);
                    let ClientState::Connecting(connection) = orphan else { continue };
                    poller.add(connection.stream(), number as usize)?;
                    poller.set_writable_interest(connection.stream(), number as usize, connection.has_unsent())?;
                    under_way += 1;
                }
            }
            poller.wait(Some(AGAIN / 4))?;
            for index in 0..poller.ready_count() {
                let token = poller.ready(index).token;
                let ClientState::Connecting(connection) = &mut orphans[token] else { continue };
                let had_unsent = connection.has_unsent();
                let read = connection.flush().and_then(|()| answer_of(connection, &mut buffer, context));
                if had_unsent && !connection.has_unsent() {
                    poller.set_writable_interest(connection.stream(), token, false)?;
                }
                match read {
                    Ok(None) => continue,
                    Ok(Some(ConnackResult { refusal: 0, session_present })) => {
                        first.get_or_insert_with(|| killed.elapsed());
                        back += 1;
                        sessions_lost += u64::from(!session_present);
                        orphans[token].stay();
                    }
                    Ok(Some(_)) | Err(_) => {
                        refused += 1;
                        orphans[token] = ClientState::Offline { since: Some(Instant::now()) };
                    }
                }
                under_way -= 1;
            }
        }
        let last = killed.elapsed();
        Ok(ReconnectTimes { first: first.unwrap_or(last), last, refused, sessions_lost })
    }
}

/// The reconnection of all clients, from the kill on.
struct ReconnectTimes {
    first: Duration,
    last: Duration,
    /// Failed attempts.
    refused: u64,
    /// Sessions that did not exist.
    sessions_lost: u64,
}

/// A client whose broker was killed.
enum ClientState {
    Offline {
        since: Option<Instant>,
    },
    Connecting(Connection),
    /// The connection is accepted.
    Reconnected(#[expect(dead_code, reason = "it is held open")] Connection),
}

impl ClientState {
    fn stay(&mut self) {
        if let Self::Connecting(connection) = std::mem::replace(self, Self::Offline { since: None }) {
            *self = Self::Reconnected(connection);
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        matches!(self, Self::Offline { since } if since.is_none_or(|since| now.duration_since(since) >= AGAIN))
    }
}

fn ask(context: &Context<'_>, address: std::net::SocketAddr, number: u64) -> Result<Connection> {
    let mut connection = Connection::new(begin_connecting_from(Some(source_address(number)), address)?)?;
    let id = format!("{CLIENT_IDS}-{number}");
    connection.send(&mqtt::connect_persistent(context.version, &id, mqtt::KEEP_ALIVE_S)?)?;
    Ok(connection)
}

/// Returns `None` if nothing has arrived.
fn answer_of(
    connection: &mut Connection,
    buffer: &mut ReadBuffer,
    context: &Context<'_>,
) -> Result<Option<ConnackResult>> {
    let mut answer = None;
    let read = connection.read_frames(buffer, |frame| {
        if let Incoming::ConnAck { refusal, session_present } = frame.read(context.version.is_v5())? {
            answer = Some(ConnackResult { refusal, session_present });
        }
        Ok(())
    });
    match answer {
        // A refusal may arrive together with the end of the connection.
        Some(answer) => Ok(Some(answer)),
        None => read.map(|()| None),
    }
}
