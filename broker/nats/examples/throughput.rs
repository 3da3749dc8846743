//! Measures the throughput of a node on three nats-servers, compared with a NATS client that publishes the same messages with the same
//! window.
//!
//! `make bench-nats` runs it. All runs are interleaved, several rounds each; it prints the median of each figure and its range.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::{Client, HeaderMap, Request};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tautwire_cluster::names::ClientKey;
use tautwire_cluster::{Decision, Start};
use tautwire_nats::{
    Access, Address, Broker, Command, ConnectionStatus, Credentials, EndReason, Handle, Limits, NodeRun, Settings,
    Storage, Syncing, Times, Tls, connect, random_incarnation,
};

#[allow(dead_code, reason = "tests use the rest of it")]
#[path = "../tests/servers/mod.rs"]
mod servers;

use servers::{Config, Servers};

const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(4);
const PAYLOAD_BYTES: usize = 256;
const TOPICS: u64 = 4096;
/// The clients that publish through a node. The messages of each are acknowledged in order.
const CLIENTS: usize = 64;

fn main() {
    let Some(program) = std::env::var_os("TAUTWIRE_NATS_SERVER").map(PathBuf::from) else {
        eprintln!("TAUTWIRE_NATS_SERVER does not name a nats-server; `make bench-nats` installs one");
        std::process::exit(1);
    };
    let servers = Servers::start(&program, 3, &Config::default());
    let node = Node::start(&servers);
    let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for round in 0..ROUNDS {
        for window in [1, 64, 1024] {
            let mut note = |what: &str, figure: f64| {
                figures.entry(format!("{what}, window {window}")).or_default().push(figure);
            };
            note("appends: async-nats alone", bare_appends(&servers, window));
            note("appends: async-nats alone, the last sequence expected", bare_expecting_appends(&servers, window));
            let before_ms = node_cpu_ms();
            let messages = node.messages(window);
            let cpu_us = (node_cpu_ms() - before_ms) * 1000.0 / (messages * ROUND.as_secs_f64());
            note("messages: node", messages);
            note("messages: node, µs of its thread for each", cpu_us);
            note("claims: async-nats alone, read and write", bare_claims(&servers, window, round));
            note("claims: node", node.claims(window, round));
        }
    }
    println!(
        "| per second, {PAYLOAD_BYTES} bytes, 3 servers, R3, sync always | middle | lowest | highest |\n|---|--:|--:|--:|"
    );
    for (what, mut values) in figures {
        values.sort_by(f64::total_cmp);
        println!("| {what} | {:.0} | {:.0} | {:.0} |", values[values.len() / 2], values[0], values[values.len() - 1]);
    }
    let counters = node.run.handle().counters().all();
    println!("\n{}", counters.iter().map(|(name, _, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", "));
}

fn settings(servers: &Servers) -> Settings {
    Settings {
        access: Access {
            servers: Address::list(&servers.addresses()).expect("addresses"),
            credentials: Credentials::None,
            tls: Tls::default(),
        },
        node_name: "bench".to_owned(),
        member: tautwire_cluster::Settings::default(),
        storage: Storage {
            syncing: Syncing::Monitored(servers.monitoring()),
            log_max_bytes: 256 * 1024 * 1024,
            ..Storage::default()
        },
        times: Times::default(),
        limits: Limits::default(),
    }
}

/// Runs requests with a window for the duration of a round. Returns the number of answers per second.
fn rate<F, Fut>(servers: &Servers, window: usize, mut next: F) -> f64
where
    F: FnMut(Client, usize, u64) -> Fut,
    Fut: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let settings = settings(servers);
        let Settings { access, node_name, times, limits, .. } = &settings;
        let client = connect(access, node_name, times, limits, &Arc::default(), &Arc::default()).await;
        let client = client.expect("a connection");
        let mut in_flight = FuturesUnordered::new();
        let begin = |slot: usize, number: u64, work: Fut| async move {
            work.await;
            (slot, number)
        };
        for slot in 0..window {
            let work = next(client.clone(), slot, 0);
            in_flight.push(begin(slot, 0, work));
        }
        let (began, mut done) = (Instant::now(), 0u64);
        while let Some((slot, number)) = in_flight.next().await {
            done += 1;
            if began.elapsed() < ROUND {
                let work = next(client.clone(), slot, number + 1);
                in_flight.push(begin(slot, number + 1, work));
            }
        }
        done as f64 / began.elapsed().as_secs_f64()
    })
}

fn patient(request: Request) -> Request {
    request.timeout(Some(Duration::from_secs(30)))
}

/// One message per append, to all partitions in turn.
fn bare_appends(servers: &Servers, window: usize) -> f64 {
    let mut at = 0;
    rate(servers, window, |client, _, _| {
        at += 1;
        async move {
            let subject = format!("tw.m.{:02}.bare", at % 16);
            let request = patient(Request::new().payload(vec![b'x'; PAYLOAD_BYTES].into()));
            client.send_request(subject, request).await.expect("an answer");
        }
    })
}

/// Like `bare_appends`, sequentially on as many subjects as the window has slots.
fn bare_expecting_appends(servers: &Servers, window: usize) -> f64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let run = LAST.fetch_add(1, Ordering::Relaxed);
    let sequences = Arc::new(Mutex::new(vec![0u64; window]));
    rate(servers, window, |client, slot, _| {
        let sequences = sequences.clone();
        async move {
            let mut headers = HeaderMap::new();
            let expected = sequences.lock().expect("no panic")[slot];
            headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
            let subject = format!("tw.m.{:02}.bare-{run}-{slot}", slot % 16);
            loop {
                let request = Request::new().headers(headers.clone()).payload(vec![b'x'; PAYLOAD_BYTES].into());
                let answer = client.send_request(subject.clone(), patient(request)).await.expect("an answer");
                // Servers sometimes refuse an append that they would accept a moment later.
                if let Some(sequence) = sequence(&answer.payload) {
                    sequences.lock().expect("no panic")[slot] = sequence;
                    return;
                }
            }
        }
    })
}

/// A read from the leader, and a write of a new key.
fn bare_claims(servers: &Servers, window: usize, round: usize) -> f64 {
    rate(servers, window, |client, slot, number| async move {
        let key = format!("$KV.tw_session.bare-{window}-{round}-{slot}-{number}");
        let read = Request::new().payload(format!(r#"{{"last_by_subj":"{key}"}}"#).into());
        client.send_request("$JS.API.STREAM.MSG.GET.KV_tw_session", patient(read)).await.expect("an answer");
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", "0");
        let write = Request::new().headers(headers).payload(vec![b'x'; 60].into());
        client.send_request(key, patient(write)).await.expect("an answer");
    })
}

/// Returns the sequence of an append, unless it was refused.
fn sequence(answer: &[u8]) -> Option<u64> {
    let answer = tautwire_json::parse(std::str::from_utf8(answer).ok()?).ok()?;
    match answer.get("seq") {
        Some(tautwire_json::Value::Number(number)) => number.parse().ok().filter(|sequence| *sequence > 0),
        _ => None,
    }
}

struct Node {
    run: NodeRun,
    answers: Receiver<BenchAnswer>,
    next: AtomicU64,
}

enum BenchAnswer {
    Serve(ClientKey),
    Stored(ClientKey),
    Resumed,
}

struct BenchBroker(Mutex<Sender<BenchAnswer>>);

impl Broker for BenchBroker {
    fn node_started(&self, _: &Handle) {}

    fn decide(&self, decision: Decision) {
        let answered = match decision {
            Decision::Serve { client, .. } => BenchAnswer::Serve(client),
            Decision::Stored { client, .. } => BenchAnswer::Stored(client),
            Decision::Resumed => BenchAnswer::Resumed,
            Decision::Suspended => return eprintln!("suspended: the servers are too slow for this"),
            other => panic!("not expected: {other:?}"),
        };
        let _ = self.0.lock().expect("no panic").send(answered);
    }

    fn receive_broadcast(&self, _: &str, _: &str, _: Arc<[u8]>) -> bool {
        true
    }

    fn pause_reading(&self, _: ClientKey) {}

    fn resume_reading(&self, _: ClientKey) {}

    fn queue_ready(&self) {}

    fn connection_status(&self, _: &ConnectionStatus) {}

    fn node_ended(&self, ended: &EndReason) {
        assert_eq!(*ended, EndReason::Stopped);
    }
}

impl Node {
    fn start(servers: &Servers) -> Node {
        let (teller, answers) = channel();
        let broker = Arc::new(BenchBroker(Mutex::new(teller)));
        let me = random_incarnation().expect("a number");
        let run = NodeRun::begin(settings(servers), me, None, broker).expect("a thread");
        let node = Node { run, answers, next: AtomicU64::new(1) };
        while !matches!(node.answer(), BenchAnswer::Resumed) {}
        node
    }

    fn answer(&self) -> BenchAnswer {
        self.answers.recv_timeout(Duration::from_secs(60)).expect("an answer")
    }

    fn ticket(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn claim(&self, client_id: String) {
        let command = Command::Claim { ticket: self.ticket(), client_id, start: Start::Resume };
        self.run.handle().give(command).expect("not full");
    }

    /// Publishes messages of many clients to many topics.
    fn messages(&self, window: usize) -> f64 {
        let count = window.min(CLIENTS);
        (0..count).for_each(|number| self.claim(format!("publisher-{number}-{}", self.ticket())));
        let mut clients = Vec::new();
        while clients.len() < count {
            if let BenchAnswer::Serve(client) = self.answer() {
                clients.push(client);
            }
        }
        let mut next = 0;
        self.run(window, |before| {
            let ticket = self.ticket();
            next += 1;
            let client = match before {
                Some(BenchAnswer::Stored(client)) => *client,
                _ => clients[next % count],
            };
            let topic = format!("topic/{}", ticket % TOPICS);
            let message = vec![b'x'; PAYLOAD_BYTES];
            let command =
                Command::Publish { client, ticket, refusal_seen: 0, topic, packet_id: None, retain: None, message };
            self.run.handle().give(command).expect("not full");
        })
    }

    fn claims(&self, window: usize, round: usize) -> f64 {
        self.run(window, |_| self.claim(format!("client-{window}-{round}-{}", self.ticket())))
    }

    /// Begins a new operation for each answer. Returns the number of answers per second.
    fn run(&self, window: usize, mut begin: impl FnMut(Option<&BenchAnswer>)) -> f64 {
        (0..window).for_each(|_| begin(None));
        let (began, mut done, mut in_flight) = (Instant::now(), 0u64, window);
        while in_flight > 0 {
            let answer = self.answer();
            if matches!(answer, BenchAnswer::Resumed) {
                continue;
            }
            (done, in_flight) = (done + 1, in_flight - 1);
            if began.elapsed() < ROUND {
                begin(Some(&answer));
                in_flight += 1;
            }
        }
        done as f64 / began.elapsed().as_secs_f64()
    }
}

/// Returns the CPU time of the node's thread in milliseconds, if the system reports it.
fn node_cpu_ms() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    // `pid (name) state …`, with user and system time as the 12th and 13th field after the name, in hundredths of a second.
    let of_node = stats.filter_map(|stat| stat.split_once("(cluster) ").map(|(_, rest)| rest.to_owned())).next();
    let fields: Vec<f64> =
        of_node.iter().flat_map(|rest| rest.split(' ')).map(|field| field.parse().unwrap_or(0.0)).collect();
    10.0 * fields.iter().skip(11).take(2).sum::<f64>()
}
