//! A broker in a cluster, on real sockets: requests reach the cluster thread, and its events reach the clients. The simulated cluster
//! grants everything at once.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tautwire_cluster::delivery::{LogGroup, Messages, Span};
use tautwire_cluster::names::{ClientKey, PARTITIONS, Partition, Seed};
use tautwire_cluster::record::{Body, Group, Place, Publisher};
use tautwire_cluster::{Decision, Sequence};
use tautwire_engine::{ClusterEvent, ClusterRequest, ClusterSettings, Settings};
use tautwire_reactor::{
    AcceptOptions, Broker, ClusterOptions, ClusterSender, ClusterThread, DataDirectory, ListenerConfig, OnDamage,
    StartError,
};
use tautwire_router::{RetainedLimits, ShardIndex};
use tautwire_session::AckLevel;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(90);
const SEED: Seed = Seed([3; 16]);
const RETAINED: RetainedLimits = RetainedLimits { messages: 10, bytes: 10_000 };

#[derive(Debug, Default)]
struct Granting {
    mail: Mutex<Option<ClusterSender>>,
    homes: Mutex<HashMap<ClientKey, ShardIndex>>,
    groups: AtomicU64,
    left: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Granting {
    fn begin(&self, mail: ClusterSender) {
        let next = [Place { sequence: Sequence(1), index: 0 }; PARTITIONS as usize];
        for shard in 0..mail.shards() {
            mail.send(ShardIndex(shard as u8), ClusterEvent::Began { next, state_max_bytes: usize::MAX });
            mail.send(ShardIndex(shard as u8), ClusterEvent::Decided(Decision::Resumed));
        }
        *lock(&self.mail) = Some(mail);
    }

    fn grant(&self, mail: &ClusterSender, shard: ShardIndex, request: ClusterRequest) {
        let decided = |decision| mail.send(shard, ClusterEvent::Decided(decision));
        match request {
            ClusterRequest::Claim { ticket, name, .. } => {
                let client = SEED.client(&name);
                lock(&self.homes).insert(client, shard);
                let (taken, state) = (Vec::new(), Vec::new());
                decided(Decision::Serve { ticket, client, epoch: 1, is_present: false, taken, state });
            }
            ClusterRequest::Save { client, number, .. } => decided(Decision::Saved { client, number }),
            ClusterRequest::RetainedSync { ticket } => decided(Decision::RetainedSync { ticket }),
            ClusterRequest::InterestSync { ticket } => decided(Decision::InterestSync { ticket }),
            ClusterRequest::Publish { client, ticket, message, .. } => {
                let sequence = Sequence(self.groups.fetch_add(1, Ordering::SeqCst) + 1);
                let block = Publisher { client, epoch: 1, packet_id: None }.sign(&message);
                let body = Body::Messages { messages: vec![block], to_retain: Vec::new() };
                let group = Group { number: sequence.0, ordinal: 0, unsettled: None, body }.encode();
                let messages = Messages::new(&group).expect("a group");
                let partition = Partition::all().next().expect("exists");
                let (until, groups) = (Sequence(sequence.0 + 1), vec![LogGroup { sequence, messages }]);
                let span = Arc::new(Span { partition, from: sequence, until, groups, lost: 0 });
                for shard in 0..mail.shards() {
                    let arrived = Decision::Arrived(span.clone());
                    mail.send(ShardIndex(shard as u8), ClusterEvent::Decided(arrived));
                }
                decided(Decision::Stored { client, ticket });
            }
            ClusterRequest::Left { .. } => {
                self.left.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
    }
}

impl ClusterThread for Granting {
    fn ask(&self, shard: ShardIndex, requests: &mut VecDeque<ClusterRequest>) {
        let Some(mail) = lock(&self.mail).clone() else { return };
        for request in requests.drain(..) {
            self.grant(&mail, shard, request);
        }
    }

    fn holds_lease(&self) -> bool {
        true
    }
}

/// A thread that does not know yet that the node is active rejects its clients, which retry.
fn connect(broker: &Broker, name: &str) -> TcpStream {
    for _ in 0..1000 {
        let mut stream = TcpStream::connect(broker.addresses()[0]).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let connect = [&[0x10, 12 + name.len() as u8, 0, 4], &b"MQTT"[..], &[4, 2, 0, 0, 0, name.len() as u8]].concat();
        stream.write_all(&[&connect, name.as_bytes()].concat()).expect("it is sent");
        let mut connack = [0; 4];
        stream.read_exact(&mut connack).expect("an answer");
        match connack {
            [0x20, 2, 0, 0] => return stream,
            // Server unavailable.
            [0x20, 2, 0, 3] => {}
            other => panic!("{other:?} is no CONNACK that is due"),
        }
    }
    panic!("the node does not start");
}

fn expect(stream: &mut TcpStream, bytes: &[u8]) {
    let mut got = vec![0; bytes.len()];
    stream.read_exact(&mut got).expect("an answer");
    assert_eq!(got, bytes);
}

#[test]
fn clients_are_claimed_and_messages_arrive_by_the_log() {
    let thread = Arc::new(Granting::default());
    let listener_configs = [ListenerConfig::plain(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), AckLevel::default())];
    let seat = ClusterOptions { seed: SEED, settings: ClusterSettings::default(), thread: thread.clone() };
    let entrance = AcceptOptions { cluster: Some(seat), ..AcceptOptions::open(&listener_configs) };
    let settings = Settings { sys_interval_s: 0, ..Settings::default() };
    let broker = Broker::start(settings, RETAINED, Arc::default(), entrance, 2, None).expect("it starts");
    thread.begin(broker.control().cluster_sender());
    let mut clients: Vec<_> = (0..4).map(|number| connect(&broker, &format!("client-{number}"))).collect();
    for client in &mut clients {
        client.write_all(&[0x82, 6, 0, 1, 0, 1, b't', 1]).expect("SUBSCRIBE is sent");
        expect(client, &[0x90, 3, 0, 1, 1]);
    }
    clients[0].write_all(&[0x32, 6, 0, 1, b't', 0, 7, b'x']).expect("PUBLISH is sent");
    for client in &mut clients[1..] {
        expect(client, &[0x32, 6, 0, 1, b't', 0, 1, b'x']);
    }
    drop(clients);
    broker.stop();
    assert_eq!(thread.left.load(Ordering::SeqCst), 4, "all sessions are released");
}

#[test]
fn a_broker_in_a_cluster_has_no_data_directory() {
    let listener_configs = [];
    let thread = Arc::new(Granting::default());
    let seat = ClusterOptions { seed: SEED, settings: ClusterSettings::default(), thread };
    let entrance = AcceptOptions { cluster: Some(seat), ..AcceptOptions::open(&listener_configs) };
    let path = std::env::temp_dir();
    let data = DataDirectory { path: &path, on_damage: OnDamage::Refuse, limit_bytes: None, lock: None };
    let started = Broker::start(Settings::default(), RETAINED, Arc::default(), entrance, 1, Some(data));
    assert!(matches!(started, Err(StartError::DataInCluster)));
}
