//! Forwards requests and decisions between the threads that serve clients and the cluster's thread, without blocking.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use tautwire_cluster::delivery::ReadRequest;
use tautwire_cluster::names::{ClientKey, Seed};
use tautwire_cluster::{Decision, PeerCommandOutcome, Status, subject};
use tautwire_engine::{ClusterEvent, ClusterRequest, home_of};
use tautwire_nats::{Broker, Command, ConnectionStatus, EndReason, Handle, Refused};
use tautwire_reactor::{ClusterSender, ClusterThread};
use tautwire_router::ShardIndex;

use super::proposals::Proposals;
use super::revisions::Revisions;
use super::session_shards::SessionShards;
use crate::time::since_epoch;

/// Request tickets of a shard have its number in the highest byte.
const SHARD_SHIFT: u32 = 56;
/// Poll interval while the command queue is full.
const QUEUE_POLL: Duration = Duration::from_millis(20);
/// Limit for ended incarnations whose successor has not started.
const ENDED_MAX: usize = 4;

/// Forwards requests of shards and decisions of the cluster, across all incarnations of the node.
pub(super) struct Relay {
    seed: Seed,
    sender: OnceLock<ClusterSender>,
    /// The handle of the current incarnation.
    life: RwLock<Option<Handle>>,
    /// By shard: commands to send before its next request.
    waiting: Box<[Mutex<VecDeque<Command>>]>,
    clients: Mutex<Clients>,
    /// Bit mask of shards with filters.
    listening: AtomicU64,
    is_draining: AtomicBool,
    connection: Mutex<Option<ConnectionStatus>>,
    serving: ServingState,
    /// The shared configuration.
    pub(super) revisions: Revisions,
    pub(super) proposals: Proposals,
    ended: SyncSender<EndReason>,
}

/// The shards of clients and filters.
#[derive(Default)]
struct Clients {
    sessions: SessionShards,
    /// Filters of connected clients by shard. They persist across incarnations.
    filters: HashMap<ShardIndex, HashSet<Box<str>>>,
}

/// Whether clients are served, with a condition variable to wait for it.
#[derive(Default)]
struct ServingState {
    state: Mutex<bool>,
    changed: Condvar,
}

impl Relay {
    /// Creates a relay for this many threads. Ended incarnations are sent to the receiver.
    pub(super) fn new(seed: Seed, threads: usize) -> (Relay, Receiver<EndReason>) {
        let (ended, ends) = sync_channel(ENDED_MAX);
        let relay = Relay {
            seed,
            sender: OnceLock::new(),
            life: RwLock::new(None),
            waiting: (0..threads).map(|_| Mutex::default()).collect(),
            clients: Mutex::default(),
            listening: AtomicU64::new(0),
            is_draining: AtomicBool::new(false),
            connection: Mutex::default(),
            serving: ServingState::default(),
            revisions: Revisions::default(),
            proposals: Proposals::default(),
            ended,
        };
        (relay, ends)
    }

    /// Sets the sender to the shards.
    pub(super) fn connect(&self, sender: ClusterSender) {
        let _ = self.sender.set(sender);
    }

    /// The handle of the current incarnation, if there is one.
    pub(super) fn life(&self) -> Option<Handle> {
        self.handle().clone()
    }

    /// Requests the status of the node, which responds at once if it has joined.
    pub(super) fn report(&self, wait: Duration) -> Option<Status> {
        let (to, answer) = sync_channel(1);
        self.life()?.give(Command::Report(to)).ok()?;
        answer.recv_timeout(wait).ok()
    }

    /// The last reported status of the connection to the servers.
    pub(super) fn connection_status(&self) -> Option<ConnectionStatus> {
        lock(&self.connection).clone()
    }

    /// Reports to the current incarnation whether a revision of the configuration is in effect. A later incarnation asks again.
    pub(super) fn configured(&self, number: u64, is_applied: bool) {
        while let Some(life) = self.life()
            && matches!(life.give(Command::Configured { number, is_applied }), Err(Refused::Full(_)))
        {
            std::thread::sleep(QUEUE_POLL);
        }
    }

    /// Waits for at most `wait`. Returns whether clients are served.
    pub(super) fn await_service(&self, wait: Duration) -> bool {
        let ServingState { state, changed } = &self.serving;
        let waited = changed.wait_timeout_while(lock(state), wait, |is_serving| !*is_serving);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Drains another node by its name; `None` if this node has not joined the cluster or does not respond.
    pub(super) fn drain_peer(
        &self,
        node: &str,
        is_for_good: bool,
        by: &str,
        wait: Duration,
    ) -> Option<PeerCommandOutcome> {
        let (to, outcome) = sync_channel(1);
        let (node, by) = (node.to_owned(), by.to_owned());
        self.life()?.give(Command::DrainPeer { node, is_for_good, by, to }).ok()?;
        outcome.recv_timeout(wait).ok()
    }

    /// Whether an operator has requested a drain, which cannot be undone.
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    pub(super) fn start_drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Handles a drain of this node that was requested through another node.
    fn on_drain_requested(&self, from: &str, is_for_good: bool, by: &str) {
        log::info!("draining this node: requested by {by} through the node with incarnation {from}");
        log::error!(
            target: crate::log::audit::TARGET,
            event = "cluster_drain", actor = by, via_node = from, permanent = is_for_good;
            ""
        );
        self.start_drain();
    }

    fn handle(&self) -> RwLockReadGuard<'_, Option<Handle>> {
        self.life.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        lock(&self.clients)
    }

    fn shards(&self) -> impl Iterator<Item = ShardIndex> + use<> {
        (0..self.waiting.len()).map(|shard| ShardIndex(shard as u8))
    }

    fn wake_all(&self) {
        if let Some(sender) = self.sender.get() {
            self.shards().for_each(|shard| sender.wake(shard));
        }
    }

    fn notify(&self, shard: ShardIndex, event: ClusterEvent) {
        if let Some(sender) = self.sender.get() {
            sender.send(shard, event);
        }
    }

    fn notify_all(&self, event: &ClusterEvent) {
        self.shards().for_each(|shard| self.notify(shard, event.clone()));
    }

    /// Converts a request of a shard to a command for the node; `None` if there is nothing to do.
    fn command(&self, shard: ShardIndex, request: ClusterRequest, handle: Option<&Handle>) -> Option<Command> {
        let number = usize::from(shard.0);
        Some(match request {
            ClusterRequest::Claim { ticket, name, start } => {
                self.clients().sessions.claim(self.seed.client(&name), shard, ticket);
                Command::Claim { ticket, client_id: name.into(), start }
            }
            ClusterRequest::Abandon { client, ticket } => {
                self.clients().sessions.end_claim(ticket);
                Command::Abandon { client, ticket }
            }
            ClusterRequest::Publish { client, ticket, refusal_seen, topic, packet_id, retain, message } => {
                Command::Publish {
                    client,
                    ticket,
                    refusal_seen,
                    topic: topic.into(),
                    packet_id: packet_id.and_then(|packet_id| NonZeroU16::new(packet_id.get())),
                    retain: retain.map(|retaining| (retaining.retain, retaining.known)),
                    message,
                }
            }
            ClusterRequest::PublishFromOperator { ticket, topic, retain, message } => Command::PublishFromOperator {
                ticket,
                topic: topic.into(),
                retain: retain.map(|retaining| (retaining.retain, retaining.known)),
                message,
            },
            ClusterRequest::Release { client, packet_id } => {
                Command::Release { client, packet_id: NonZeroU16::new(packet_id.get())? }
            }
            ClusterRequest::Save { client, number, state } => Command::Save { client, number, state },
            ClusterRequest::SetDisconnectSettings { client, settings } => {
                Command::SetDisconnectSettings { client, settings }
            }
            ClusterRequest::RetainedSync { ticket } => Command::RetainedSync { ticket },
            ClusterRequest::Left { client, state } => {
                self.clients().sessions.leave(client);
                Command::Left { client, state }
            }
            ClusterRequest::Received { partition, until } => Command::Received { shard: number, partition, until },
            ClusterRequest::Read { number: read, partition, from } => {
                Command::Read { shard: number, request: ReadRequest { number: read, partition, from } }
            }
            ClusterRequest::Join { client, epoch, share } => Command::Join { client, epoch, share: share.into() },
            ClusterRequest::Leave { client, share } => Command::Leave { client, share: share.into() },
            ClusterRequest::QuitGroup { client, epoch, share } => {
                Command::QuitGroup { client, epoch, share: share.into() }
            }
            ClusterRequest::Checkpoint { group, leases } => Command::Checkpoint { group, leases },
            ClusterRequest::Returned { group, partition, next, open } => {
                Command::Returned { group, partition, next, open }
            }
            ClusterRequest::Broadcast { topic, messages } => {
                if let Some(handle) = handle {
                    handle.send(&subject::subject_of(&topic, self.seed), messages);
                }
                return None;
            }
            ClusterRequest::InterestSync { ticket } => Command::InterestSync { ticket },
            ClusterRequest::AddInterest(filter) => {
                let mut clients = self.clients();
                let is_new = clients.filters.entry(shard).or_default().insert(filter.clone());
                self.listening.fetch_or(1 << number, Ordering::Relaxed);
                return is_new.then(|| Command::AddInterest { filter: filter.into() });
            }
            ClusterRequest::RemoveInterest(filter) => {
                let mut clients = self.clients();
                let filters = clients.filters.entry(shard).or_default();
                let was_there = filters.remove(&filter);
                if filters.is_empty() {
                    self.listening.fetch_and(!(1 << number), Ordering::Relaxed);
                }
                return was_there.then(|| Command::RemoveInterest { filter: filter.into() });
            }
        })
    }

    /// Handles a command that the node can never accept. Returns a command to send instead.
    fn refuse(&self, shard: ShardIndex, command: &Command) -> Option<Command> {
        match command {
            Command::Publish { client, ticket, .. } => {
                self.notify(shard, ClusterEvent::Decided(Decision::NotStored { client: *client, ticket: *ticket }));
            }
            Command::PublishFromOperator { ticket, .. } => {
                self.notify(shard, ClusterEvent::Decided(Decision::Published { ticket: *ticket, is_stored: false }));
            }
            Command::SetDisconnectSettings { client, .. } => log::error!(
                "the will of the client {client} exceeds the limit of the NATS servers and is not stored; raise max_payload there \
                 [cluster_will_too_large]"
            ),
            Command::Save { client, state, .. } => {
                log_state_too_large(*client, state.len());
                self.notify(shard, ClusterEvent::TooLarge(*client));
            }
            Command::Left { client, state } => {
                log_state_too_large(*client, state.len());
                return Some(Command::DisconnectedAsSaved { client: *client });
            }
            _ => {}
        }
        None
    }
}

impl ClusterThread for Relay {
    fn ask(&self, shard: ShardIndex, requests: &mut VecDeque<ClusterRequest>) {
        let Some(waiting) = self.waiting.get(usize::from(shard.0)) else { return };
        let mut waiting = lock(waiting);
        let guard = self.handle();
        loop {
            let command = match waiting.pop_front() {
                Some(command) => command,
                None => match requests.pop_front() {
                    Some(request) => match self.command(shard, request, guard.as_ref()) {
                        Some(command) => command,
                        None => continue,
                    },
                    None => return,
                },
            };
            // Without an incarnation the command is dropped: the shard has been notified, or is about to be.
            let Some(handle) = &*guard else { continue };
            match handle.give(command) {
                Ok(()) | Err(Refused::Over(_)) => {}
                Err(Refused::TooLarge(command)) => {
                    if let Some(instead) = self.refuse(shard, &command) {
                        waiting.push_front(instead);
                    }
                }
                Err(Refused::Full(command)) => return waiting.push_front(command),
            }
        }
    }

    fn holds_lease(&self) -> bool {
        self.handle().as_ref().is_some_and(Handle::is_serving)
    }
}

impl Broker for Relay {
    /// Connects the shards to a new incarnation, and restores the filters of clients.
    fn node_started(&self, life: &Handle) {
        // Shards send no requests while their queues are locked, so each filter is sent once.
        let mut waiting: Vec<_> = self.waiting.iter().map(lock).collect();
        *self.life.write().unwrap_or_else(PoisonError::into_inner) = Some(life.clone());
        let clients = self.clients();
        for (number, commands) in waiting.iter_mut().enumerate() {
            let filters = clients.filters.get(&ShardIndex(number as u8));
            let listen = |filter: Box<str>| Command::AddInterest { filter: filter.into() };
            **commands = filters.into_iter().flatten().cloned().map(listen).collect();
        }
        drop((clients, waiting));
        self.wake_all();
    }

    fn decide(&self, decision: Decision) {
        let shard_of = |ticket: u64| Some(ShardIndex((ticket >> SHARD_SHIFT) as u8));
        let shard = match decision {
            Decision::Begin { next } => {
                let state_max_bytes = self.life().map_or(usize::MAX, |life| life.state_max_bytes());
                return self.notify_all(&ClusterEvent::Began { next: *next, state_max_bytes });
            }
            Decision::Read { shard, .. } => Some(ShardIndex(shard as u8)),
            Decision::Retain(mut changes) => {
                for change in &mut changes {
                    change.expires_at_ms = change.expires_at_ms.map(unix_ms);
                }
                return self.notify_all(&ClusterEvent::Retained(changes.into()));
            }
            Decision::Serve { ticket, .. } => {
                self.clients().sessions.serve(ticket);
                shard_of(ticket)
            }
            Decision::Refuse { ticket, .. } | Decision::Redirect { ticket, .. } => {
                self.clients().sessions.end_claim(ticket);
                shard_of(ticket)
            }
            Decision::Published { ticket, .. }
            | Decision::InterestSync { ticket }
            | Decision::RetainedSync { ticket } => shard_of(ticket),
            Decision::SessionTakenOver(client)
            | Decision::Stored { client, .. }
            | Decision::NotStored { client, .. }
            | Decision::Migrate { client, .. }
            | Decision::Completed { client, .. }
            | Decision::Joined { client, .. }
            | Decision::NotJoined { client, .. }
            | Decision::Saved { client, .. } => self.clients().sessions.of(client),
            Decision::Lost(client) => self.clients().sessions.leave(client),
            Decision::Lease { group, .. } | Decision::Recall { group, .. } => Some(home_of(group, self.waiting.len())),
            Decision::Arrived(_) => return self.notify_all(&ClusterEvent::Decided(decision)),
            Decision::Suspended | Decision::Resumed | Decision::Fenced | Decision::Drained => {
                self.serving.set(decision == Decision::Resumed);
                if matches!(decision, Decision::Fenced | Decision::Drained) {
                    *self.life.write().unwrap_or_else(PoisonError::into_inner) = None;
                    self.clients().sessions.clear();
                }
                return self.notify_all(&ClusterEvent::Decided(decision));
            }
            Decision::Unreadable { partition, sequence, error } => {
                log::error!(
                    "group {} of partition {partition} of the cluster's log cannot be read: {error}; this broker delivers nothing more of \
                     this partition until it is upgraded [cluster_unreadable]",
                    sequence.0
                );
                return;
            }
            Decision::UnreadableNode { node, error } => {
                log::error!(
                    "the record of the node {node} cannot be read: {error}; clients with sessions on that node are refused here \
                     [cluster_node_unreadable]"
                );
                return;
            }
            Decision::Configure { number, parts } => return self.revisions.offer(number, &parts),
            Decision::ConfigUnsupported => return self.revisions.mark_unsupported(),
            Decision::Proposed { ticket, outcome } => return self.proposals.decide(ticket, outcome),
            Decision::DrainRequested { from, is_for_good, by } => {
                return self.on_drain_requested(&from.to_string(), is_for_good, &by);
            }
            // Results are sent to the callers.
            Decision::PeerCommandResult { .. } => return,
        };
        if let Some(shard) = shard {
            self.notify(shard, ClusterEvent::Decided(decision));
        }
    }

    fn receive_broadcast(&self, _: &str, _: &str, message: Arc<[u8]>) -> bool {
        let Some(sender) = self.sender.get() else { return false };
        let listening = self.listening.load(Ordering::Relaxed);
        let is_listening = |shard: &ShardIndex| listening >> shard.0 & 1 == 1;
        // Each shard has its own tables and filters by itself.
        let offer = |all, shard| sender.try_send(shard, ClusterEvent::BusMessages(message.clone())) && all;
        self.shards().filter(is_listening).fold(true, offer)
    }

    /// Not needed: shards limit the pending messages of all their clients together below the limit of the node.
    fn pause_reading(&self, _: ClientKey) {}

    fn resume_reading(&self, _: ClientKey) {}

    fn queue_ready(&self) {
        self.wake_all();
    }

    fn connection_status(&self, connection: &ConnectionStatus) {
        *lock(&self.connection) = Some(connection.clone());
    }

    fn node_ended(&self, ended: &EndReason) {
        self.serving.set(false);
        *self.life.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.proposals.clear();
        // At most one incarnation ends at a time.
        let _ = self.ended.try_send(ended.clone());
    }
}

impl ServingState {
    fn set(&self, is_serving: bool) {
        *lock(&self.state) = is_serving;
        self.changed.notify_all();
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "relay of {} threads", self.waiting.len())
    }
}

fn log_state_too_large(client: ClientKey, bytes: usize) {
    log::error!(
        "the state of the client {client} has {bytes} bytes, which exceeds the limit of the NATS servers; its connection is closed, and the \
         state saved before remains; raise max_payload there [cluster_state_too_large]"
    );
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts a time of the node's clock, which measures leases, to the shards' clock.
fn unix_ms(at_ms: u64) -> u64 {
    let unix_ms = u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX);
    unix_ms.saturating_add(at_ms.saturating_sub(tautwire_nats::now_ms()))
}
