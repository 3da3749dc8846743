//! A simulated broker with random clients.

use tautwire_engine::Mode;
use tautwire_engine::{Settings, SlowConsumer};
use tautwire_memory::Kind;
use tautwire_message::Body;
use tautwire_protocol::{DisconnectReason, ProtocolVersion, QoS, RetainHandling};
use tautwire_router::RetainedLimits;

use crate::client::{Client, Phase};
use crate::ledger::{DeliveryLedger, Request};
use crate::machine::Machine;
use crate::packets::ConnectOptions;
use crate::support::{Choices, Random, SimulatedBroker};

const TOPICS: [&str; 8] = ["a", "a/b", "a/b/c", "x/b", "x/y", "a//c", "r/0", "r/1"];
const FILTERS: [&str; 10] = ["a", "a/#", "+/b", "a/b", "a/+/c", "+/+", "#", "x/+", "r/#", "r/0"];
const SHARED_TOPICS: [&str; 2] = ["$q/1", "$q/2"];
const SHARED_FILTERS: [&str; 3] = ["$share/g/$q/+", "$share/g/$q/1", "$share/h/$q/#"];
const QOS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

pub(crate) const RETAINED: RetainedLimits = RetainedLimits { messages: 10_000, bytes: 100 << 20 };

/// The parameters of a world.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) shards: usize,
    pub(crate) clients: usize,
    pub(crate) steps: usize,
    /// Clients read at once, without delays.
    pub(crate) prompt_clients: bool,
}

pub(crate) struct World<M: Mode> {
    pub(crate) broker: SimulatedBroker<M>,
    pub(crate) ledger: DeliveryLedger,
    pub(crate) clients: Vec<Client>,
    pub(crate) random: Random,
    /// The machine of the broker, if it has a disk.
    pub(crate) machine: Option<Machine>,
    plan: Plan,
    /// The broker may refuse messages or pause publishers because of its memory limit.
    is_short_of_memory: bool,
    /// The broker may pause publishers because of rate limits.
    is_rate_limited: bool,
}

/// How often clients that were paused or refused because of memory retry at the end. Most need few retries; but a client that sends
/// more than the broker can hold is disconnected, and may do the same when it reconnects.
const RETRIES_MAX: usize = 10_000;

/// Settings under which no message may be lost, with limits so low that they are reached.
pub(crate) fn settings(random: &mut Random) -> Settings {
    Settings {
        receive_maximum: random.pick(&[1, 2, 5, 20]),
        topic_alias_maximum: random.pick(&[0, 2, 10]),
        max_session_expiry_s: 3_600,
        in_flight_per_client: random.pick(&[1, 2, 7, 1024]),
        connection_output_bytes: random.pick(&[1_000, 30_000, 4 << 20]),
        shard_queue_batches: random.pick(&[1, 1, 2, 3, 4, 5, 6, 7, 8, 64]),
        incomplete_packet_timeout_s: 1_000,
        write_stall_timeout_s: 1_000,
        connect_timeout_s: 1_000,
        sys_interval_s: random.pick(&[0, 1]),
        slow_consumer: SlowConsumer::DropNew.into(),
        ..Settings::default()
    }
}

type Outcome = Result<(), String>;

impl<M: Mode> World<M> {
    pub(crate) fn new(seed: u64, plan: Plan, settings: Settings, journal: impl FnMut(usize) -> M) -> World<M> {
        let mut random = Random::new(seed);
        let is_short_of_memory = settings.memory_bytes < Settings::default().memory_bytes;
        let is_rate_limited = settings.publish_messages_per_s > 0 || settings.publish_bytes_per_s > 0;
        let broker = SimulatedBroker::new(plan.shards, settings, RETAINED, journal);
        let clients = (0..plan.clients)
            .map(|index| {
                let id = broker.client_id_on(random.below(plan.shards), &format!("client-{index}"));
                let version = if random.chance(50) { ProtocolVersion::V5 } else { ProtocolVersion::V3_1_1 };
                let mut client = Client::new(index, id, version);
                client.may_be_refused = is_short_of_memory;
                client.reuses_packet_ids = random.chance(50);
                client
            })
            .collect();
        let mut ledger = DeliveryLedger::new(plan.shards);
        ledger.refuses = is_short_of_memory;
        World { broker, ledger, clients, random, machine: None, plan, is_short_of_memory, is_rate_limited }
    }

    /// Whether a client can wait although all shards sleep.
    fn may_wait(&self) -> bool {
        self.is_short_of_memory || self.may_resume_late()
    }

    /// Whether reading can resume late: because of a rate limit, or because another shard frees the memory.
    fn may_resume_late(&self) -> bool {
        self.is_rate_limited || (self.broker.spilled().is_some() && self.broker.shards() > 1)
    }

    /// Runs all steps, then checks the result.
    pub(crate) fn run(&mut self) -> Outcome {
        for _ in 0..self.plan.steps {
            self.step()?;
            if self.random.chance(2) {
                // All shards sleep, and only a timer would wake them.
                self.exchange_all()?;
                if !self.may_wait() {
                    self.check_no_client_waits()?;
                }
            }
        }
        self.finish()
    }

    pub(crate) fn step(&mut self) -> Outcome {
        let client = self.random.below(self.clients.len());
        match self.random.below(20) {
            0..=5 => {
                let shard = self.random.below(self.broker.shards());
                self.broker.turn(shard, &mut self.random);
            }
            6..=8 => self.read(client)?,
            9..=10 => {
                let most = self.random.below(6);
                self.clients[client].answer(&mut self.broker, most, &mut self.random);
            }
            11..=15 => self.publish(client),
            16 => self.subscribe(client),
            17 => self.connect_or_disconnect(client),
            18 => {
                if self.random.chance(30) {
                    self.unsubscribe(client);
                } else if self.clients[client].phase == Phase::Connected {
                    self.clients[client].ping(&mut self.broker);
                }
            }
            _ => {
                let ms = self.random.pick(&[0, 1, 10, 100, 1_000, 5_000]);
                self.broker.advance(ms);
            }
        }
        if self.plan.prompt_clients {
            for client in 0..self.clients.len() {
                self.clients[client].read(&mut self.broker, &mut self.ledger, usize::MAX)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, client: usize) -> Outcome {
        let most = match self.random.below(4) {
            0 => self.random.below(20),
            _ => usize::MAX,
        };
        self.clients[client].read(&mut self.broker, &mut self.ledger, most)
    }

    fn publish(&mut self, client: usize) {
        let qos = self.random.pick(&QOS);
        if !self.clients[client].may_publish(qos) {
            return;
        }
        let mut topic = self.random.pick(&TOPICS).to_owned();
        if self.random.chance(15) {
            topic = self.random.pick(&SHARED_TOPICS).to_owned();
        }
        // Each publisher has its own topic, so that the order of retained messages is known.
        let retain = self.random.chance(15);
        if retain {
            topic = format!("r/{client}");
        }
        let filler = self.random.pick(&[0, 0, 0, 10, 200, 1_100, 5_000, 20_000]);
        let number = self.ledger.publication(client, &topic, qos, retain, filler);
        if retain && self.random.chance(20) {
            self.ledger.publications[number].payload.clear();
        } else if !retain && self.random.chance(10) {
            self.ledger.publications[number].expiry_interval_s = Some(self.random.below(20) as u32);
        }
        if self.clients[client].version != ProtocolVersion::V5 {
            self.ledger.publications[number].expiry_interval_s = None;
        }
        self.clients[client].publish(&mut self.broker, &mut self.ledger, number);
    }

    fn publish_in_part(&mut self, client: usize) {
        let (topic, retain) = (self.random.pick(&TOPICS), self.random.chance(15));
        let filler = self.random.pick(&[0, 10, 200, 5_000]);
        let number = self.ledger.publication(client, topic, QoS::AtMostOnce, retain, filler);
        self.clients[client].publish_in_part(&mut self.broker, &mut self.ledger, number, &mut self.random);
    }

    fn subscribe(&mut self, client: usize) {
        if self.clients[client].phase != Phase::Connected {
            return;
        }
        let identifier = self.random.chance(40).then(|| self.random.below(300) as u32 + 1);
        let mut requests: Vec<Request> = Vec::new();
        for _ in 0..=self.random.below(3) {
            let shared = self.random.chance(20);
            let filter = if shared { self.random.pick(&SHARED_FILTERS) } else { self.random.pick(&FILTERS) };
            let known = requests.iter().any(|request| request.filter == filter);
            if known || self.clients[client].is_asking_about(filter) {
                continue;
            }
            requests.push(Request {
                filter: filter.into(),
                // A member at QoS 0 may lose messages, which would hide other losses.
                qos: self.random.pick(if shared { &QOS[1..] } else { &QOS }),
                no_local: !shared && self.random.chance(15),
                retain_as_published: self.random.chance(30),
                retain_handling: self.random.pick(&[
                    RetainHandling::SendAtSubscribe,
                    RetainHandling::SendIfNew,
                    RetainHandling::DoNotSend,
                ]),
                identifier,
            });
        }
        if !requests.is_empty() {
            self.clients[client].subscribe(&mut self.broker, &mut self.ledger, requests);
        }
    }

    fn unsubscribe(&mut self, client: usize) {
        let filter = self.random.pick(&FILTERS);
        let filter = if self.random.chance(30) { self.random.pick(&SHARED_FILTERS) } else { filter };
        let client = &mut self.clients[client];
        if client.phase == Phase::Connected && !client.is_asking_about(filter) {
            client.unsubscribe(&mut self.broker, &mut self.ledger, vec![filter.into()]);
        }
    }

    fn connect_or_disconnect(&mut self, client: usize) {
        let choice = self.random.below(10);
        let phase = self.clients[client].phase;
        match (phase, choice) {
            (Phase::Offline, _) if self.clients[client].may_connect(&self.broker) => self.connect(client),
            (Phase::Connected, 0..=2) => {
                let reason = if self.random.chance(70) {
                    DisconnectReason::NormalDisconnection
                } else {
                    DisconnectReason::DisconnectWithWillMessage
                };
                self.clients[client].disconnect(&mut self.broker, &mut self.ledger, reason);
            }
            (Phase::Connected | Phase::Connecting, 3..=5) if self.clients[client].may_be_cut(self.broker.now_ms()) => {
                let finished = self.random.chance(50);
                if self.clients[client].phase == Phase::Connected && self.random.chance(50) {
                    self.publish_in_part(client);
                }
                self.clients[client].cut(&mut self.broker, &mut self.ledger, finished);
            }
            // A second connection takes the session over while the first is still open.
            (Phase::Connected, 6) => {
                self.clients[client].abandon(&self.broker, &mut self.ledger);
                self.connect(client);
            }
            _ => {}
        }
    }

    fn connect(&mut self, client: usize) {
        let v5 = self.clients[client].version == ProtocolVersion::V5;
        let clean_start = self.random.chance(20);
        let expiry_interval_s = match (v5, clean_start) {
            (true, _) => self.random.pick(&[0, 30, 300, 3_600]),
            (false, true) => 0,
            (false, false) => 3_600,
        };
        let will = self.random.chance(25).then(|| {
            let topic = self.random.pick(&TOPICS[..6]);
            let qos = self.random.pick(&QOS);
            let number = self.ledger.publication(client, topic, qos, false, 5);
            self.ledger.publications[number].is_will = true;
            number
        });
        let options = ConnectOptions {
            clean_start,
            expiry_interval_s,
            receive_maximum: self.random.pick(&[None, Some(1), Some(3), Some(50)]),
            maximum_packet_bytes: self.random.pick(&[None, None, None, Some(300), Some(2_000)]),
            topic_alias_maximum: self.random.pick(&[0, 1, 5, 100]),
            will,
            will_delay_s: if v5 { self.random.pick(&[0, 0, 5, 400]) } else { 0 },
            room_bytes: self.random.pick(&[200, 10_000, 1 << 30]),
        };
        self.connect_with(client, options);
    }

    fn connect_with(&mut self, client: usize, options: ConnectOptions) {
        let shard = self.random.below(self.broker.shards());
        self.clients[client].connect(&mut self.broker, &mut self.ledger, shard, options);
    }

    /// Runs until nothing is in flight. Clients with a session reconnect and receive their messages.
    pub(crate) fn quiesce(&mut self) -> Outcome {
        self.exchange_all()?;
        if !self.may_wait() {
            self.check_no_client_waits()?;
        }
        // Break the connections that clients have abandoned.
        let held: Vec<_> = self.clients.iter().filter_map(Client::socket).collect();
        self.broker.cut_all_but(&held);
        self.exchange_all()?;
        self.reconnect_all();
        self.exchange_all()?;
        if self.may_wait() {
            self.retry_paused()?;
        }
        Ok(())
    }

    fn reconnect_all(&mut self) {
        for client in 0..self.clients.len() {
            if self.clients[client].is_offline() {
                self.connect_with(client, returning());
            }
        }
    }

    /// Reconnects all clients with a session until memory is freed and no client waits.
    fn retry_paused(&mut self) -> Outcome {
        for _ in 0..RETRIES_MAX {
            let is_served =
                |client: &Client| client.is_idle() && !client.is_offline() && client.phase != Phase::Leaving;
            let is_waiting = self.may_resume_late() && self.broker.has_unread();
            if self.clients.iter().all(is_served) && !is_waiting {
                return Ok(());
            }
            self.broker.advance(200);
            self.reconnect_all();
            self.exchange_all()?;
        }
        match self.clients.iter().find(|client| client.is_offline()) {
            Some(client) => Err(format!("client {} is still refused after {RETRIES_MAX} retries", client.index)),
            None => Err(self.check_no_client_waits().err().unwrap_or("a DISCONNECT is never read".into())),
        }
    }

    fn check_no_client_waits(&self) -> Outcome {
        match self.clients.iter().find(|client| client.phase == Phase::Connected && !client.is_idle()) {
            Some(client) => Err(format!("client {} waits although all shards sleep", client.index)),
            None => Ok(()),
        }
    }

    /// Runs broker and clients until nothing happens.
    pub(crate) fn exchange_all(&mut self) -> Outcome {
        for _ in 0..100_000 {
            let before = self.broker.progress();
            self.settle();
            self.exchange_once()?;
            if self.broker.progress() == before {
                return Ok(());
            }
        }
        Err("broker and clients do not become idle".into())
    }

    /// Runs turns until all shards sleep; then clients read and acknowledge.
    pub(crate) fn exchange_once(&mut self) -> Outcome {
        self.broker.settle(&mut self.random);
        for client in 0..self.clients.len() {
            self.clients[client].read(&mut self.broker, &mut self.ledger, usize::MAX)?;
            self.clients[client].answer(&mut self.broker, usize::MAX, &mut self.random);
        }
        Ok(())
    }

    /// Runs turns until all shards sleep and their submitted frames are durable.
    fn settle(&mut self) {
        loop {
            self.broker.settle(&mut self.random);
            if !self.write_log() {
                return;
            }
        }
    }

    /// Makes pending frames durable. Returns false if there are none.
    pub(crate) fn write_log(&mut self) -> bool {
        let Some(machine) = &mut self.machine else { return false };
        let has_written = machine.write();
        machine.take_woken().into_iter().for_each(|shard| self.broker.wake(shard));
        has_written
    }

    pub(crate) fn finish(&mut self) -> Outcome {
        self.quiesce()?;
        self.check_no_client_waits()?;
        let totals = self.broker.totals();
        // QoS 0 messages are dropped at the memory limit.
        let dropped_memory_full = if self.is_short_of_memory { 0 } else { totals.dropped_memory_full };
        if totals.dropped_queue_full + dropped_memory_full + totals.protocol_errors > 0 {
            return Err(format!("messages were dropped, or packets were treated as protocol errors: {totals:?}"));
        }
        let missing = self.ledger.missing();
        if !missing.is_empty() {
            return Err(format!("{} messages did not arrive:\n{}", missing.len(), missing.join("\n")));
        }
        let twice = self.ledger.shared_twice();
        if !twice.is_empty() {
            return Err(twice.join("\n"));
        }
        self.check_retained()?;
        self.end_all()
    }

    /// Checks that each topic retains its last message.
    fn check_retained(&self) -> Outcome {
        for topic in self.ledger.retained_topics() {
            let held = self.broker.exchange().retained_message(topic);
            let held = held.as_ref().map(|body| match body {
                Body::Loaded(message) => message.payload().to_vec(),
                Body::Spilled(spilled) => self.broker.spilled().expect("a spill store is connected").payload(spilled),
            });
            if !self.ledger.may_be_retained(topic, held.as_deref()) {
                let payload = held.as_ref().map(|payload| String::from_utf8_lossy(payload).into_owned());
                return Err(format!("{topic} retains {payload:?}; {}", self.ledger.retained_history(topic)));
            }
        }
        Ok(())
    }

    /// Ends all connections and expires all sessions, then checks that nothing is left.
    fn end_all(&mut self) -> Outcome {
        self.broker.cut_all_but(&[]);
        self.settle();
        for _ in 0..5 {
            self.broker.advance(1_000_000);
            self.settle();
        }
        check_empty(&self.broker)
    }
}

/// The options of a client that resumes its session.
pub(crate) fn returning() -> ConnectOptions {
    ConnectOptions {
        clean_start: false,
        expiry_interval_s: 3_600,
        receive_maximum: None,
        maximum_packet_bytes: None,
        topic_alias_maximum: 0,
        will: None,
        will_delay_s: 0,
        room_bytes: 1 << 30,
    }
}

/// Checks all gauges: without connections and sessions they must be 0.
pub(crate) fn check_empty<M: Mode>(broker: &SimulatedBroker<M>) -> Outcome {
    let totals = broker.totals();
    let gauges = [
        ("connections", totals.connections),
        ("sessions", totals.sessions),
        ("sessions_connected", totals.sessions_connected),
        ("stored_messages", totals.stored_messages),
        ("stored_bytes", totals.stored_bytes),
        ("output_bytes", totals.output_bytes),
        ("subscriptions", totals.subscriptions),
        ("shared subscriptions", broker.exchange().shares() as u64),
        ("memory held", broker.memory().total_held() - broker.exchange().retained_message_bytes()),
    ];
    let held = Kind::ALL
        .iter()
        .filter(|kind| !matches!(kind, Kind::Message | Kind::Spilled))
        .find(|kind| broker.memory().held(**kind) != 0);
    if let Some(kind) = held {
        return Err(format!("{} is {} at the end", kind.gauge(), broker.memory().held(*kind)));
    }
    match gauges.iter().find(|(_, value)| *value != 0) {
        Some((name, value)) => Err(format!("{name} is {} at the end", *value as i64)),
        None => Ok(()),
    }
}
