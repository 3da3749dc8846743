use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::context::Context;
use super::super::parameters::plain_payload;
use super::client_nodes;
use super::probe_client::ProbeClient;
use crate::broker::{Member, RunningProcess};
use crate::failure::{Failure, Result};
use crate::measure::{Account, Histogram, Measurement};
use crate::mqtt::{self, Incoming, PacketIds, PayloadStamp, ProtocolVersion, Publishes, QoS};

const PAYLOAD_BYTES: usize = 64;
/// How long a client waits for a response before it tries another broker.
const PATIENCE: Duration = Duration::from_secs(15);
/// The delay before a refused or disconnected client tries the next broker.
const AGAIN: Duration = Duration::from_millis(100);
/// The time before each kill in which all clients are connected to their broker and served.
const CALM: Duration = Duration::from_secs(2);
const BEGIN_MAX: Duration = Duration::from_secs(60);

/// Clients that publish at QoS 1, one message at a time, while a broker or a leader of JetStream is killed: the longest time
/// that each of them is without an acknowledgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Kills {
    pub clients_of_each_node: usize,
    /// The time from an acknowledgement to the next message.
    pub pause_ms: u64,
    pub brokers_killed: usize,
    pub leaders_killed: usize,
    /// How long gaps are recorded after a kill; not shorter than what the threshold allows.
    pub watch_ms: u64,
}

impl Default for Kills {
    fn default() -> Self {
        Self { clients_of_each_node: 10, pause_ms: 20, brokers_killed: 2, leaders_killed: 2, watch_ms: 12_000 }
    }
}

impl Kills {
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let client_group = SharedRun {
            version: context.version,
            run: context.run,
            client_nodes: client_nodes(context)?,
            pause: Duration::from_millis(self.pause_ms),
            calls: AtomicUsize::new(0),
            served: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        };
        let clients = self.clients_of_each_node * client_group.client_nodes.len();
        let client_group = &client_group;
        let (kills, lives) = thread::scope(|scope| {
            let living: Vec<_> =
                (0..clients).map(|number| scope.spawn(move || ServiceLog::lead(client_group, number))).collect();
            let kills = self.kill_all(context, client_group, clients as u64);
            client_group.is_over.store(true, Ordering::Release);
            let lives: Vec<_> = living.into_iter().map(|life| life.join()).collect();
            (kills, lives)
        });
        let kills = kills?;
        let lives: Vec<ServiceLog> = lives
            .into_iter()
            .map(|life| life.unwrap_or_else(|_| Err(Failure::new("a client panicked"))))
            .collect::<Result<_>>()?;

        let published: u64 = lives.iter().map(|life| life.served.len() as u64).sum();
        let violations = lives.iter().map(|life| life.violations).sum();
        let mut measurement = Measurement::of(Account { published, violations, ..Account::default() });
        let (mut own, mut elsewhere, mut of_leaders) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for kill in &kills {
            for life in &lives {
                let (silence, node) = life.silence_after(kill.at, Duration::from_millis(self.watch_ms));
                let of = match kill.node {
                    None => &mut of_leaders,
                    Some(dead) if node == dead => &mut own,
                    Some(_) => &mut elsewhere,
                };
                of.record(silence.as_nanos() as u64);
            }
        }
        for (name, times) in
            [("broker_killed_own_", own), ("broker_killed_elsewhere_", elsewhere), ("leader_killed_", of_leaders)]
        {
            if times.count() > 0 {
                measurement.set_latencies(name, times);
            }
        }
        measurement.set("clients", clients as f64);
        Ok(measurement)
    }

    fn kill_all(&self, context: &Context<'_>, client_group: &SharedRun, clients: u64) -> Result<Vec<KillEvent>> {
        let cluster = context.broker.cluster()?;
        let watch = Duration::from_millis(self.watch_ms);
        let begun = Instant::now();
        while client_group.served.load(Ordering::Acquire) < clients {
            if begun.elapsed() > BEGIN_MAX {
                return Err(Failure::new("not all clients are served at the start"));
            }
            thread::sleep(AGAIN);
        }
        let (mut kills, mut started): (_, Vec<RunningProcess>) = (Vec::new(), Vec::new());
        let mut members: Vec<Member> = cluster.client_nodes().to_vec();
        for number in 0..self.brokers_killed {
            let node = number % members.len();
            client_group.call_home();
            kills.push(KillEvent { at: kill(&members[node])?, node: Some(node) });
            thread::sleep(watch);
            started.push(members[node].start()?);
            await_all(&members)?;
        }
        let mut servers: Vec<Member> = cluster.between().to_vec();
        for number in 0..self.leaders_killed {
            if servers.is_empty() {
                break;
            }
            let leader = cluster.leader_of(&format!("TW_LOG_{number:02}"))?.name.clone();
            let Some(server) = servers.iter_mut().find(|server| server.name == leader) else { continue };
            client_group.call_home();
            kills.push(KillEvent { at: kill(server)?, node: None });
            thread::sleep(watch);
            started.push(server.start()?);
            server.await_health()?;
        }
        Ok(kills)
    }
}

/// The time of a kill, and the killed broker; `None` for a leader behind the brokers.
struct KillEvent {
    at: Instant,
    node: Option<usize>,
}

fn kill(member: &Member) -> Result<Instant> {
    member.kill()?;
    Ok(Instant::now())
}

/// Waits until each accepts clients.
fn await_all(members: &[Member]) -> Result<()> {
    members.iter().try_for_each(Member::await_clients)
}

/// The state that all clients share.
struct SharedRun {
    version: ProtocolVersion,
    run: u32,
    client_nodes: Vec<SocketAddr>,
    pause: Duration,
    /// How often all clients were moved back to their first broker.
    calls: AtomicUsize,
    /// The number of clients with a first acknowledgement.
    served: AtomicU64,
    is_over: AtomicBool,
}

impl SharedRun {
    fn call_home(&self) {
        self.calls.fetch_add(1, Ordering::AcqRel);
        thread::sleep(CALM);
    }
}

/// Where and when a client was served.
struct ServiceLog {
    served: Vec<(Instant, usize)>,
    violations: u64,
}

impl ServiceLog {
    fn lead(client_group: &SharedRun, number: usize) -> Result<ServiceLog> {
        let home = number % client_group.client_nodes.len();
        let (mut life, mut node, mut calls) = (ServiceLog { served: Vec::new(), violations: 0 }, home, 0);
        while !client_group.is_over.load(Ordering::Acquire) {
            // An error is expected here: it shows as a gap.
            let _ = life.publish_until_cut_off(client_group, number, node, &mut calls);
            if calls != client_group.calls.load(Ordering::Acquire) {
                (calls, node) = (client_group.calls.load(Ordering::Acquire), home);
            } else {
                node = (node + 1) % client_group.client_nodes.len();
                thread::sleep(AGAIN);
            }
        }
        Ok(life)
    }

    fn publish_until_cut_off(
        &mut self,
        client_group: &SharedRun,
        number: usize,
        node: usize,
        calls: &mut usize,
    ) -> Result<()> {
        let mut probe_client =
            ProbeClient::reach(client_group.client_nodes[node], client_group.version.is_v5(), PATIENCE)?;
        let connect =
            mqtt::connect_persistent(client_group.version, &format!("bench-steady-{number}"), mqtt::KEEP_ALIVE_S)?;
        if probe_client.connect(&connect)?.refusal != 0 {
            return Err(Failure::new("the broker accepts no client"));
        }
        let topic = format!("bench/steady/{number}");
        let mut publish = Publishes::encode(
            client_group.version,
            QoS::AtLeastOnce,
            &plain_payload(PAYLOAD_BYTES)?,
            [topic.as_str()],
        )?;
        let mut packet_ids = PacketIds::new();
        while !client_group.is_over.load(Ordering::Acquire) && *calls == client_group.calls.load(Ordering::Acquire) {
            let stamp = PayloadStamp { seq: self.served.len() as u64, publisher: number as u32, run: client_group.run };
            publish.stamp(0, stamp, packet_ids.allocate());
            probe_client.send(publish.bytes(0..1))?;
            let as_it_should_be = probe_client.next(|_, incoming| match incoming {
                Incoming::PubAck { packet_id, refused: false } => Ok(packet_ids.remove(packet_id)),
                other => Err(Failure::new(format!("unexpected response to PUBLISH: {other:?}"))),
            })?;
            self.violations += u64::from(!as_it_should_be);
            if self.served.is_empty() {
                client_group.served.fetch_add(1, Ordering::AcqRel);
            }
            self.served.push((Instant::now(), node));
            thread::sleep(client_group.pause);
        }
        Ok(())
    }

    /// The longest gap between acknowledgements that ends after `at`, and the broker of the client then.
    fn silence_after(&self, at: Instant, watch: Duration) -> (Duration, usize) {
        let until = at + watch;
        let before = self.served.iter().rev().find(|(time, _)| *time <= at);
        let (mut last, node) = before.copied().unwrap_or((at, usize::MAX));
        let mut longest = Duration::ZERO;
        let after = self.served.iter().map(|(time, _)| *time).filter(|time| *time > at && *time <= until);
        for time in after.chain([until]) {
            longest = longest.max(time - last);
            last = time;
        }
        (longest, node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_begins_before_the_kill_and_can_last_until_the_end() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let life = |times: &[u64]| ServiceLog { served: times.iter().map(|&ms| (at(ms), 1)).collect(), violations: 0 };
        let watch = Duration::from_millis(1000);
        let longest = |times: &[u64]| life(times).silence_after(at(100), watch);
        assert_eq!(longest(&[10, 90, 400, 500, 1000, 1090]), (Duration::from_millis(500), 1));
        assert_eq!(longest(&[10, 90, 900, 1050]).0, Duration::from_millis(810));
        assert_eq!(longest(&[10, 90]).0, Duration::from_millis(1010));
        assert_eq!(longest(&[2000]), (watch, usize::MAX));
    }
}
