//! The main loop of a node: receives events, lets the cluster member decide, and executes the decisions.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Message, Subscriber};
use futures_util::stream::SelectAll;
use futures_util::{FutureExt, StreamExt};
use log::{info, warn};
use tautwire_cluster::names::{ClientKey, Partition, Seed};
use tautwire_cluster::{Decision, Full, Member, OperatorPublish, Output, PeerCommandOutcome, Publish, TICK_MS};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{MissedTickBehavior, interval};

use super::link::{Input, Link};
use super::run_config::RunConfig;
use crate::broker::{Broker, ConnectionStatus, EndReason};
use crate::bus::{Bus, BusEvent};
use crate::clock::now_ms;
use crate::command::Command;
use crate::connection;
use crate::deferred::DeferredCommands;
use crate::error::Error;
use crate::handle::{BusMessage, Shared};
use crate::layout::{peer_subject, probe_subject};
use crate::settings::{Access, Settings};
use crate::setup::{self, ClusterInfo};
use crate::store::Store;
use crate::tasks::{TaskResult, Tasks};

/// The most commands taken at once. Their effects are executed in between.
const COMMANDS_TAKEN_MAX: usize = 256;
/// The capacity for changes of records. The readers block when it is full.
const INPUTS_MAX: usize = 256;
/// The capacity for QoS 0 messages. The readers block when it is full.
const BUS_EVENTS_MAX: usize = 1024;

pub(super) struct NodeLoop {
    member: Member,
    seed: Seed,
    settings: Settings,
    broker: Arc<dyn Broker>,
    shared: Arc<Shared>,
    connected: Arc<Notify>,
    /// The status to report while connected.
    connected_status: ConnectionStatus,
    was_connected: bool,
    store: Store,
    tasks: Tasks,
    done: Receiver<TaskResult>,
    deferred: DeferredCommands,
    bus: Bus,
    events: Receiver<BusEvent>,
    inbox: String,
    link: Link,
    answers: SelectAll<Subscriber>,
    peers: SelectAll<Subscriber>,
    /// Answers to the probe with this number.
    echoes: Option<(u64, Subscriber)>,
    /// Replaced connections, with the time until which answers may arrive on them.
    retired: Vec<(u64, Link)>,
    /// The number of reconnect requests. Only the last one counts.
    reconnects: u64,
    inputs: Receiver<Input>,
    to_inputs: Sender<Input>,
    /// Callers that wait for the outcome of commands to other nodes. All are answered within a timeout.
    peer_commands: HashMap<u64, SyncSender<PeerCommandOutcome>>,
    last_peer_command: u64,
    /// While stopping, the time until which pending work is awaited.
    stops_at_ms: Option<u64>,
    ended: Option<EndReason>,
}

impl NodeLoop {
    pub(super) async fn begin(
        config: RunConfig,
        client: Client,
        connected: Arc<Notify>,
        cluster_info: ClusterInfo,
        member: Member,
        bus: Receiver<BusMessage>,
    ) -> Result<NodeLoop, Error> {
        let RunConfig { settings, broker, shared, .. } = config;
        let (to_inputs, inputs) = channel(INPUTS_MAX);
        let (to_done, done) = channel(INPUTS_MAX);
        let (to_events, events) = channel(BUS_EVENTS_MAX);
        let inbox = client.new_inbox();
        let counters = shared.counters.clone();
        let mut link =
            Link::open(client.clone(), &inbox, member.incarnation(), to_inputs.clone(), counters.clone()).await?;
        Ok(NodeLoop {
            store: Store::new(client.clone(), inbox.clone(), &settings.times, counters.clone()),
            tasks: Tasks::new(client.clone(), to_done, &settings.times, counters),
            done,
            bus: Bus::new(client, bus, &shared, to_events),
            events,
            answers: link.answers.take().into_iter().collect(),
            peers: link.peers.take().into_iter().collect(),
            echoes: None,
            seed: cluster_info.seed,
            member,
            settings,
            broker,
            shared,
            connected,
            connected_status: ConnectionStatus::Ready,
            was_connected: true,
            deferred: DeferredCommands::default(),
            inbox,
            link,
            retired: Vec::new(),
            reconnects: 0,
            inputs,
            to_inputs,
            peer_commands: HashMap::new(),
            last_peer_command: 0,
            stops_at_ms: None,
            ended: None,
        })
    }

    pub(super) async fn run(mut self, mut commands: Receiver<Command>) -> EndReason {
        let mut tick = interval(Duration::from_millis(TICK_MS));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut taken = Vec::with_capacity(COMMANDS_TAKEN_MAX);
        loop {
            self.execute();
            if let Some(ended) = self.ended.take() {
                return ended;
            }
            let takes_commands = self.deferred.bytes() < self.settings.limits.deferred_max_bytes;
            // A sender that was rejected just after the queue was emptied is notified at the next tick.
            if takes_commands && commands.capacity() > 0 && self.shared.take_waiters() {
                self.broker.queue_ready();
            }
            // Answers come first: they complete work and make space for the work of commands. There are only as many as operations in
            // flight.
            tokio::select! {
                biased;
                Some(message) = self.answers.next() => {
                    let now_ms = now_ms();
                    if let Some((id, answer)) = self.store.take(now_ms, &message) {
                        self.member.answer(now_ms, id, &answer);
                    }
                }
                Some(done) = self.done.recv() => {
                    let (id, answer) = self.tasks.take(done);
                    self.member.answer(now_ms(), id, &answer);
                }
                _ = tick.tick() => self.tick(commands.is_empty()),
                () = self.shared.stop.notified() => self.stop(),
                () = self.connected.notified() => {
                    self.shared.take_at_once(self.link.client.max_payload());
                    self.store.connected(now_ms());
                    self.member.reconnected(now_ms());
                }
                Some(input) = self.inputs.recv() => self.take_input(input),
                Some(message) = self.peers.next() => self.member.receive_peer(now_ms(), &message.payload),
                Some(message) = next_echo(&mut self.echoes) => self.member.receive_peer(now_ms(), &message.payload),
                Some(events) = self.events.recv() => self.handle_bus_event(events),
                count = commands.recv_many(&mut taken, COMMANDS_TAKEN_MAX), if takes_commands => {
                    if count == 0 {
                        // All handles were dropped, so no more commands can arrive.
                        self.stop();
                    }
                    for command in taken.drain(..) {
                        self.shared.release_command(&command);
                        self.take_command(command);
                    }
                }
            }
        }
    }

    fn tick(&mut self, has_no_commands: bool) {
        let now_ms = now_ms();
        self.member.advance(now_ms);
        while let Some((id, answer)) = self.store.next_expired(now_ms) {
            self.member.answer(now_ms, id, &answer);
        }
        self.store.connected(now_ms);
        self.report_connection();
        for (_, link) in self.retired.extract_if(.., |(until_ms, _)| *until_ms <= now_ms) {
            tokio::spawn(async move { link.client.drain().await });
        }
        if self.deferred.bytes() >= self.settings.limits.deferred_max_bytes {
            self.shared.counters.command_stalls.add(1);
        }
        let is_done = self.store.is_idle() && self.tasks.is_idle() && self.deferred.is_empty();
        if self.stops_at_ms.is_some_and(|at_ms| at_ms <= now_ms || is_done && has_no_commands) {
            self.ended = Some(EndReason::Stopped);
        }
    }

    /// Reports a lost or restored connection.
    fn report_connection(&mut self) {
        let is_connected = self.store.is_connected();
        if std::mem::replace(&mut self.was_connected, is_connected) == is_connected {
            return;
        }
        if is_connected {
            self.broker.connection_status(&self.connected_status);
        } else {
            let why = "connection lost".to_owned();
            self.broker.connection_status(&ConnectionStatus::Waiting(Error::Connection { why }));
        }
    }

    /// Reports the result of changed access settings.
    fn access_changed(&mut self, status: ConnectionStatus) {
        self.broker.connection_status(&status);
        self.connected_status = status;
    }

    /// Executes the decisions of the member, and retries deferred commands.
    fn execute(&mut self) {
        loop {
            while let Some(output) = self.member.next_output() {
                match output {
                    Output::Operation(id, operation) if Tasks::takes(&operation) => self.tasks.begin(id, operation),
                    Output::Operation(id, operation) => self.store.begin(now_ms(), id, operation),
                    Output::AddInterest(pattern) => self.bus.subscribe(pattern),
                    Output::RemoveInterest(pattern) => self.bus.unsubscribe(&pattern),
                    Output::Send(to, message) => self.send(peer_subject(to), message),
                    Output::Probe(number) => self.subscribe_echoes(number),
                    Output::Echo { to, number, message } => self.send(probe_subject(to, number), message),
                    Output::Decision(Decision::PeerCommandResult { ticket, outcome }) => {
                        if let Some(to) = self.peer_commands.remove(&ticket) {
                            let _ = to.try_send(outcome);
                        }
                    }
                    Output::Decision(decision) => {
                        let ended = match decision {
                            Decision::Fenced => Some(EndReason::Fenced),
                            Decision::Drained => Some(EndReason::Drained),
                            _ => None,
                        };
                        if ended.is_some() {
                            self.shared.serve_until(0);
                            self.ended = ended;
                        } else if decision == Decision::Resumed {
                            // A shard that resumes checks the lease at once.
                            self.shared.serve_until(self.member.serves_until_ms());
                        }
                        self.broker.decide(decision);
                    }
                }
            }
            if self.shared.serve_until(self.member.serves_until_ms()) {
                // The lease was renewed before the member noticed that it had expired, so it has decided nothing.
                self.broker.decide(Decision::Resumed);
            }
            if self.deferred.is_empty() || !self.retry_deferred() {
                break;
            }
        }
    }

    /// Subscribes before anything is sent from now on. If the connection has no space for that, the probe is repeated.
    fn subscribe_echoes(&mut self, number: u64) {
        if self.echoes.as_ref().is_none_or(|(known, _)| *known != number) {
            let subscribe = self.link.client.subscribe(probe_subject(self.member.incarnation(), number));
            let subscribed = tokio::task::unconstrained(subscribe).now_or_never();
            self.echoes = subscribed.and_then(Result::ok).map(|echoes| (number, echoes));
        }
    }

    fn send(&mut self, subject: String, message: Vec<u8>) {
        let client = &self.link.client;
        let is_connected = client.connection_state() == State::Connected;
        let publish = client.publish(subject, message.into());
        let sent = is_connected.then(|| tokio::task::unconstrained(publish).now_or_never()).flatten();
        if !matches!(sent, Some(Ok(()))) {
            self.shared.counters.peer_messages_dropped.add(1);
        }
    }

    fn take_command(&mut self, command: Command) {
        if let Some(command) = self.deferred.join(command)
            && let Some((partition, command)) = self.execute_command(command)
            && let Some(client) = command.client()
        {
            self.shared.counters.messages_delayed.add(1);
            self.deferred.defer(client, partition, command, false);
            self.broker.pause_reading(client);
        }
    }

    /// Executes a command. Returns a message if its partition is full.
    fn execute_command(&mut self, command: Command) -> Option<(Partition, Command)> {
        let now_ms = now_ms();
        match command {
            Command::Claim { ticket, client_id, start } => self.member.claim(now_ms, ticket, &client_id, start),
            Command::Abandon { client, ticket } => self.member.abandon(now_ms, client, ticket),
            Command::Publish { client, ticket, refusal_seen, topic, packet_id, retain, message } => {
                let publish = Publish { ticket, refusal_seen, topic: &topic, packet_id, retain, message };
                let Err(Full(message)) = self.member.publish(now_ms, client, publish) else {
                    return None;
                };
                let partition = self.seed.partition(&topic);
                return Some((
                    partition,
                    Command::Publish { client, ticket, refusal_seen, topic, packet_id, retain, message },
                ));
            }
            Command::PublishFromOperator { ticket, topic, retain, message } => {
                self.member.publish_from_operator(now_ms, ticket, OperatorPublish { topic: &topic, retain, message });
            }
            Command::Release { client, packet_id } => self.member.release(now_ms, client, packet_id),
            Command::Save { client, number, state } => self.member.save(now_ms, client, number, state),
            Command::Left { client, state } => self.member.left(now_ms, client, state),
            Command::DisconnectedAsSaved { client } => self.member.disconnected_as_saved(now_ms, client),
            Command::SetDisconnectSettings { client, settings } => {
                self.member.set_disconnect_settings(client, settings)
            }
            Command::Received { shard, partition, until } => self.member.mark_received(now_ms, shard, partition, until),
            Command::Read { shard, request } => self.member.read(shard, request),
            Command::Join { client, epoch, share } => self.member.join(now_ms, client, epoch, &share),
            Command::Leave { client, share } => self.member.leave(now_ms, client, &share),
            Command::QuitGroup { client, epoch, share } => self.member.part(now_ms, client, epoch, &share),
            Command::Checkpoint { group, leases } => self.member.checkpoint(now_ms, group, leases),
            Command::Returned { group, partition, next, open } => {
                self.member.returned(now_ms, group, partition, next, open);
            }
            Command::RetainedSync { ticket } => self.member.sync_retained(now_ms, ticket),
            Command::AddInterest { filter } => self.member.add_interest(now_ms, &filter),
            Command::RemoveInterest { filter } => self.member.remove_interest(now_ms, &filter),
            Command::InterestSync { ticket } => self.member.sync_interest(now_ms, ticket),
            Command::Drain { is_for_good } => self.member.drain(now_ms, is_for_good),
            Command::DrainPeer { node, is_for_good, by, to } => {
                self.last_peer_command += 1;
                self.peer_commands.insert(self.last_peer_command, to);
                self.member.drain_peer(now_ms, self.last_peer_command, &node, is_for_good, &by);
            }
            Command::Rebalance => self.member.rebalance(now_ms),
            Command::Propose { ticket, base, parts } => self.member.propose(ticket, base, parts),
            Command::Configured { number, is_applied } => self.member.configured(now_ms, number, is_applied),
            Command::Reconnect(access) => self.open_connection(*access),
            Command::Report(to) => {
                let _ = to.try_send(self.member.status(now_ms));
            }
        }
        None
    }

    fn stop(&mut self) {
        let at_ms = now_ms() + self.settings.times.stop_ms;
        self.stops_at_ms = Some(self.stops_at_ms.unwrap_or(at_ms));
    }

    /// Retries the deferred commands of partitions that have space. Returns whether any was executed.
    fn retry_deferred(&mut self) -> bool {
        let mut has_progress = false;
        for partition in Partition::all() {
            while let Some((client, commands)) = self.deferred.next(partition) {
                let before = commands.len();
                let left = self.retry(client, partition, commands);
                has_progress |= left < before;
                if left == before {
                    break;
                }
            }
        }
        has_progress
    }

    /// Executes as many of a client's commands as possible, in order. Returns the number of remaining ones.
    fn retry(&mut self, client: ClientKey, partition: Partition, mut commands: VecDeque<Command>) -> usize {
        let mut is_first = true;
        while let Some(command) = commands.pop_front() {
            if let Some((needed, command)) = self.execute_command(command) {
                let left = commands.len() + 1;
                self.deferred.defer(client, needed, command, is_first && needed == partition);
                self.deferred.requeue_rest(client, commands);
                return left;
            }
            is_first = false;
        }
        self.broker.resume_reading(client);
        0
    }

    /// Handles a bus event. Of a message that matches several patterns, one copy counts.
    fn handle_bus_event(&mut self, events: BusEvent) {
        match events {
            BusEvent::ActivePattern(listening) if self.bus.is_listening(&listening) => {
                self.member.listening(now_ms(), &listening.pattern);
            }
            // The subscription was cancelled or replaced.
            BusEvent::ActivePattern(_) => {}
            BusEvent::Message { pattern, subject, message } => {
                if self.member.counts(&pattern, &subject) && !self.broker.receive_broadcast(&pattern, &subject, message)
                {
                    self.shared.counters.bus_inbound_dropped.add(1);
                }
            }
        }
    }

    fn take_input(&mut self, input: Input) {
        match input {
            Input::Node(node, revision, record) => self.member.observe_node(now_ms(), node, revision, &record),
            Input::Removed(node) => self.member.observe_node_removed(node),
            Input::Config(revision, record) => self.member.observe_config(revision, &record),
            Input::Link(number, _) if number != self.reconnects => {}
            Input::Link(_, Ok(link)) => self.switch_connection(*link),
            Input::Link(_, Err(error)) => {
                warn!("cannot use the new NATS access settings, keeping the current connection: {error}");
                self.access_changed(ConnectionStatus::AccessRefused(error));
            }
        }
    }

    /// Opens another connection while the current one stays in use.
    fn open_connection(&mut self, access: Access) {
        self.reconnects += 1;
        let (number, seed) = (self.reconnects, self.seed);
        let Settings { node_name, times, limits, .. } = self.settings.clone();
        let (inbox, me, inputs) = (self.inbox.clone(), self.member.incarnation(), self.to_inputs.clone());
        let (counters, connected) = (self.shared.counters.clone(), self.connected.clone());
        tokio::spawn(async move {
            let open = async {
                let client = connection::connect(&access, &node_name, &times, &limits, &counters, &connected).await?;
                setup::check_seed(&client, seed).await?;
                Link::open(client, &inbox, me, inputs.clone(), counters).await
            };
            let link = open.await.map(Box::new);
            let _ = inputs.send(Input::Link(number, link)).await;
        });
    }

    /// Switches operations to the new connection. Answers may still arrive on both.
    fn switch_connection(&mut self, mut link: Link) {
        info!("switched to a new NATS connection");
        self.answers.extend(link.answers.take());
        self.peers.extend(link.peers.take());
        self.store.use_connection(link.client.clone());
        self.tasks.use_connection(link.client.clone());
        self.bus.switch_connection(link.client.clone());
        self.echoes = None;
        let until_ms = now_ms() + self.settings.times.operation_ms;
        self.shared.take_at_once(link.client.max_payload());
        self.retired.push((until_ms, std::mem::replace(&mut self.link, link)));
        self.member.resubscribe_interest(now_ms());
        self.was_connected = true;
        self.access_changed(ConnectionStatus::AccessChanged);
    }
}

async fn next_echo(echoes: &mut Option<(u64, Subscriber)>) -> Option<Message> {
    match echoes {
        Some((_, echoes)) => echoes.next().await,
        None => None,
    }
}
