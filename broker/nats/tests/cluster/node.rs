//! A node under test, with a broker that records all events.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use tautwire_cluster::names::{ClientKey, Incarnation};
use tautwire_cluster::{Decision, Refusal, Start};
use tautwire_nats::{
    Access, Address, Broker, Command, ConnectionStatus, Credentials, EndReason, Handle, Limits, NodeRun, Settings,
    Storage, Syncing, Times, Tls, connect, random_incarnation,
};

use crate::servers::{PATIENCE, Servers};

/// An event that the broker has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BrokerEvent {
    Decision(Decision),
    BusEvent { pattern: String, subject: String, message: Vec<u8> },
    Hold(ClientKey),
    GoOn(ClientKey),
    Room,
    ConnectionStatus(ConnectionStatus),
    EndReason(EndReason),
}

#[derive(Default)]
pub(crate) struct EventRecorder {
    told: Mutex<Vec<BrokerEvent>>,
    changed: Condvar,
}

impl EventRecorder {
    fn note(&self, told: BrokerEvent) {
        self.told.lock().expect("no panic").push(told);
        self.changed.notify_all();
    }

    /// Waits until `find` returns a result for the events, and returns it.
    pub(crate) fn wait_for<T>(&self, what: &str, mut find: impl FnMut(&[BrokerEvent]) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut told = self.told.lock().expect("no panic");
        loop {
            if let Some(found) = find(&told) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what}: not within {PATIENCE:?}; told was {told:#?}");
            told = self.changed.wait_timeout(told, left).expect("no panic").0;
        }
    }

    /// Discards the events.
    pub(crate) fn forget(&self) {
        self.told.lock().expect("no panic").clear();
    }

    pub(crate) fn all(&self) -> Vec<BrokerEvent> {
        self.told.lock().expect("no panic").clone()
    }
}

impl Broker for EventRecorder {
    fn node_started(&self, _: &Handle) {}

    fn decide(&self, decision: Decision) {
        self.note(BrokerEvent::Decision(decision));
    }

    fn receive_broadcast(&self, pattern: &str, subject: &str, message: Arc<[u8]>) -> bool {
        let message = message.to_vec();
        self.note(BrokerEvent::BusEvent { pattern: pattern.to_owned(), subject: subject.to_owned(), message });
        true
    }

    fn pause_reading(&self, client: ClientKey) {
        self.note(BrokerEvent::Hold(client));
    }

    fn resume_reading(&self, client: ClientKey) {
        self.note(BrokerEvent::GoOn(client));
    }

    fn queue_ready(&self) {
        self.note(BrokerEvent::Room);
    }

    fn connection_status(&self, condition: &ConnectionStatus) {
        self.note(BrokerEvent::ConnectionStatus(condition.clone()));
    }

    fn node_ended(&self, ended: &EndReason) {
        self.note(BrokerEvent::EndReason(ended.clone()));
    }
}

/// Runs asynchronous work that waits for servers.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

/// Opens a connection besides those of nodes.
pub(crate) async fn client(settings: &Settings) -> async_nats::Client {
    let Settings { access, node_name, times, limits, .. } = settings;
    let (counters, connected) = Default::default();
    connect(access, node_name, times, limits, &counters, &connected).await.expect("a connection")
}

pub(crate) struct Node {
    pub(crate) me: Incarnation,
    pub(crate) told: Arc<EventRecorder>,
    run: NodeRun,
}

/// The data with which a client is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) client: ClientKey,
    pub(crate) is_present: bool,
    pub(crate) state: Vec<u8>,
}

pub(crate) fn settings(servers: &Servers) -> Settings {
    settings_of(&servers.addresses(), servers.monitoring())
}

pub(crate) fn settings_of(addresses: &str, monitoring: Vec<String>) -> Settings {
    Settings {
        access: Access {
            servers: Address::list(addresses).expect("addresses"),
            credentials: Credentials::None,
            tls: Tls::default(),
        },
        node_name: "node".to_owned(),
        member: tautwire_cluster::Settings::default(),
        storage: Storage {
            syncing: Syncing::Monitored(monitoring),
            log_max_bytes: 64 * 1024 * 1024,
            ..Storage::default()
        },
        times: Times::default(),
        limits: Limits::default(),
    }
}

impl Node {
    /// Starts a node and waits until it serves.
    pub(crate) fn start(settings: Settings, former: Option<Incarnation>) -> Node {
        Node::start_by(settings, former, |node| node.reaches(&Decision::Resumed))
    }

    /// Starts a node and waits until `comes_far` returns true. As the broker does, it starts another run if other nodes have declared the
    /// previous one dead: on a busy machine, that may happen before a run has served.
    pub(crate) fn start_by(settings: Settings, former: Option<Incarnation>, comes_far: impl Fn(&Node) -> bool) -> Node {
        let deadline = Instant::now() + PATIENCE;
        let mut node = Node::begin(settings.clone(), former);
        while !comes_far(&node) {
            assert!(Instant::now() < deadline, "each run of the node is declared dead before it serves");
            let former = node.me;
            // The previous run must end before the next one begins.
            drop(node);
            node = Node::begin(settings.clone(), Some(former));
        }
        node
    }

    /// Waits for a decision. Returns false if the run ends before, because other nodes have declared it dead.
    pub(crate) fn reaches(&self, wanted: &Decision) -> bool {
        let wanted = BrokerEvent::Decision(wanted.clone());
        self.told.wait_for("a decision", |told| {
            let is_over = told.contains(&BrokerEvent::EndReason(EndReason::Fenced));
            (is_over || told.contains(&wanted)).then_some(!is_over)
        })
    }

    /// Starts a node that may not serve yet.
    pub(crate) fn begin(settings: Settings, former: Option<Incarnation>) -> Node {
        let me = random_incarnation().expect("a number");
        let told = Arc::new(EventRecorder::default());
        let run = NodeRun::begin(settings, me, former, told.clone()).expect("a thread");
        Node { me, told, run }
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.run.handle()
    }

    pub(crate) fn give(&self, command: Command) {
        self.handle().give(command).expect("not full");
    }

    pub(crate) fn claim(&self, ticket: u64, client_id: &str) {
        self.give(Command::Claim { ticket, client_id: client_id.to_owned(), start: Start::Resume });
    }

    /// Returns the outcome of a claim.
    pub(crate) fn outcome(&self, ticket: u64) -> Result<Served, Refusal> {
        self.told.wait_for("a claim is answered", |told| {
            told.iter().find_map(|told| match told {
                BrokerEvent::Decision(Decision::Serve { ticket: of, client, is_present, state, .. })
                    if *of == ticket =>
                {
                    Some(Ok(Served { client: *client, is_present: *is_present, state: state.clone() }))
                }
                BrokerEvent::Decision(Decision::Refuse { ticket: of, why }) if *of == ticket => Some(Err(*why)),
                _ => None,
            })
        })
    }

    /// Claims until the client is served.
    pub(crate) fn serve(&self, ticket: u64, client_id: &str) -> Served {
        let deadline = Instant::now() + PATIENCE;
        for ticket in ticket.. {
            self.claim(ticket, client_id);
            match self.outcome(ticket) {
                Ok(served) => return served,
                Err(why) => assert!(Instant::now() < deadline, "{client_id} is refused: {why:?}"),
            }
        }
        unreachable!("tickets do not end")
    }

    /// Listens to filters, and waits until the other nodes know.
    pub(crate) fn listen(&self, ticket: u64, filters: &[&str]) {
        for filter in filters {
            self.give(Command::AddInterest { filter: (*filter).to_owned() });
        }
        self.give(Command::InterestSync { ticket });
        self.wait_decision(&Decision::InterestSync { ticket });
    }

    pub(crate) fn publish(&self, client: ClientKey, ticket: u64, topic: &str, message: &[u8]) {
        let (topic, message) = (topic.to_owned(), message.to_owned());
        self.give(Command::Publish { client, ticket, refusal_seen: 0, topic, packet_id: None, retain: None, message });
    }

    pub(crate) fn wait_stored(&self, client: ClientKey, ticket: u64) {
        self.wait_decision(&Decision::Stored { client, ticket });
    }

    pub(crate) fn wait_decision(&self, wanted: &Decision) {
        let wanted = BrokerEvent::Decision(wanted.clone());
        self.told.wait_for("a decision", |told| told.contains(&wanted).then_some(()));
    }

    pub(crate) fn has_stored(&self, client: ClientKey, ticket: u64) -> bool {
        self.told.all().contains(&BrokerEvent::Decision(Decision::Stored { client, ticket }))
    }
}
