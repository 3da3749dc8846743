//! The I/O of a shard's turns: the sockets, the channels to other threads, and the inbox.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tautwire_engine::Mode;
use tautwire_engine::{Action, AuthDecision, ClusterRequest, ConnectionId, Io, NextTurn, Peer, PublishReceipt, Shard};
use tautwire_protocol::ConnectReason;
use tautwire_router::{Batch, ShardIndex};

use crate::acceptor::Acceptor;
use crate::authenticator::{AuthResponder, Authenticator};
use crate::clock::Now;
use crate::cluster::ClusterThread;
use crate::connections::Connections;
use crate::heap::{self, HeapTrimmer};
use crate::inbox::{Command, Commands};
use crate::pending_publishes::PendingPublishes;
use crate::shard_channels::{MigratingConnection, ShardChannels};
use crate::waker::Waker;

/// The most migrated connections accepted in one turn.
const MIGRATIONS_PER_TURN_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct ReactorIo {
    pub(crate) connections: Connections,
    pub(crate) acceptor: Acceptor,
    pub(crate) shard_channels: ShardChannels,
    pub(crate) waker: Arc<Waker>,
    pub(crate) stop: Arc<AtomicBool>,
    /// `None` when the broker is stopping.
    pub(crate) commands: Option<Commands>,
    /// Publish requests of operators that wait for the log.
    pending_publishes: PendingPublishes,
    /// Authenticates clients, if they must authenticate.
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    /// The cluster thread, if the broker is part of a cluster.
    cluster: Option<Arc<dyn ClusterThread>>,
    began_us: u64,
    /// Only one thread trims the heap for all.
    pub(crate) trimmer: Option<HeapTrimmer>,
    /// The number of migrated connections that this turn may still accept.
    migrations_left: usize,
    /// The thread that got the last TLS handshake.
    last_handshake_shard: usize,
}

impl ReactorIo {
    pub(crate) fn new(
        connections: Connections,
        acceptor: Acceptor,
        shard_channels: ShardChannels,
        waker: Arc<Waker>,
        stop: Arc<AtomicBool>,
        commands: Commands,
        cluster: Option<Arc<dyn ClusterThread>>,
    ) -> ReactorIo {
        let authenticator = acceptor.authenticator().cloned();
        let trimmer = shard_channels.is_of_first_thread().then(HeapTrimmer::default);
        ReactorIo {
            connections,
            acceptor,
            shard_channels,
            waker,
            stop,
            commands: Some(commands),
            pending_publishes: PendingPublishes::default(),
            authenticator,
            cluster,
            began_us: 0,
            trimmer,
            migrations_left: 0,
            last_handshake_shard: 0,
        }
    }

    /// Frees memory kept for reuse after churn. The first thread detects the end of churn, and trims the heap for all again a few seconds
    /// later, when the others have freed theirs.
    fn trim_after_churn<M: Mode>(&mut self, shard: &mut Shard<M>, now_ms: u64) {
        let is_due = match &mut self.trimmer {
            Some(trimmer) => trimmer.is_due(shard.held_bytes(), now_ms),
            None => self.shard_channels.take_churn_ended(),
        };
        if !is_due {
            return;
        }
        shard.shrink();
        self.connections.shrink();
        heap::return_free_memory(self.trimmer.is_some());
        if self.trimmer.is_some() {
            self.shard_channels.notify_churn_ended();
        }
    }

    /// Begins a turn.
    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.migrations_left = MIGRATIONS_PER_TURN_MAX;
        self.began_us = now.us;
        self.connections.begin_turn(now, self.shard_channels.has_batches());
        self.acceptor.begin_turn();
    }

    /// Accepts the next pending connection; in a burst, reads from it at once.
    fn admit_next<M: Mode>(&mut self, shard: &mut Shard<M>) -> bool {
        let Connections { churn_budget, clock, .. } = &mut self.connections;
        if self.acceptor.next_ms().is_none() || !churn_budget.may_admit(|| clock.now_us()) {
            return false;
        }
        let Some(accepted) = self.acceptor.next(self.connections.now_ms, shard.counters()) else { return false };
        if let Some(trimmer) = &mut self.trimmer {
            trimmer.record_connect();
        }
        if accepted.needs_tls_handshake()
            && let Some(to) = self.next_for_handshakes()
        {
            self.shard_channels.send_connection(to, MigratingConnection { accepted, bytes: Vec::new() });
        } else if self.acceptor.is_accept_burst() {
            self.connections.admit_and_read(shard, accepted);
        } else {
            self.connections.admit(shard, accepted);
        }
        true
    }

    /// Returns the thread for the next TLS handshake, if it is another one: round-robin, because the owner of the client is not known yet.
    fn next_for_handshakes(&mut self) -> Option<ShardIndex> {
        let threads = self.shard_channels.peers() + 1;
        self.last_handshake_shard = (self.last_handshake_shard + 1) % threads;
        (self.last_handshake_shard > 0).then_some(ShardIndex(self.last_handshake_shard as u8))
    }

    /// Authenticates a client, now or later.
    fn authenticate<M: Mode>(&mut self, shard: &mut Shard<M>, id: ConnectionId) {
        let Some(request) = shard.take_auth_request(id) else { return };
        let decision = match (shard.origin(id), &self.authenticator, &self.commands) {
            (Some(origin), Some(authenticator), Some(commands)) => {
                authenticator.ask(&origin, request, AuthResponder::new(commands.inbox(), id, &origin))
            }
            // The broker is stopping.
            _ => {
                let why = "authentication is not available".into();
                Some(AuthDecision::Refused { reason: ConnectReason::ServerUnavailable, why, detail: None })
            }
        };
        if let Some(decision) = decision {
            shard.apply_auth_decision(id, decision, self.connections.now_ms);
        }
    }

    fn has_work(&self, accepts_batches: bool) -> bool {
        // An awake thread is not woken, so the stop flag may have been set during the turn.
        let must_stop = !self.connections.is_stopping() && self.stop.load(Ordering::SeqCst);
        must_stop
            || self.connections.has_work()
            || self.acceptor.has_work(self.connections.now_ms)
            || self.shard_channels.has_work(accepts_batches)
            || self.commands.as_ref().is_some_and(Commands::has_commands)
    }
}

impl<M: Mode> Io<M> for ReactorIo {
    fn began_us(&self) -> u64 {
        self.began_us
    }

    fn now_us(&self) -> u64 {
        self.connections.clock.now_us()
    }

    fn holds_lease(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.holds_lease())
    }

    fn send_requests(&mut self, requests: &mut VecDeque<ClusterRequest>) {
        if let Some(cluster) = &self.cluster {
            cluster.ask(self.shard_channels.own_shard(), requests);
        }
    }

    fn room(&mut self, to: ShardIndex) -> usize {
        self.shard_channels.room(to)
    }

    fn adopt(&mut self, shard: &mut Shard<M>) -> bool {
        if self.migrations_left == 0 {
            return false;
        }
        self.migrations_left -= 1;
        let Some(migrating) = self.shard_channels.next_migrated() else { return false };
        self.connections.insert_migrated(shard, migrating);
        true
    }

    fn next_batch(&mut self, from: ShardIndex) -> Option<Batch> {
        self.shard_channels.next_batch(from)
    }

    fn batches_taken(&mut self, from: ShardIndex) {
        self.shard_channels.notify_capacity(from);
    }

    fn read(&mut self, shard: &mut Shard<M>) -> bool {
        self.connections.read_next(shard) || (self.acceptor.is_accept_burst() && self.admit_next(shard))
    }

    fn accept(&mut self, shard: &mut Shard<M>) {
        while !self.acceptor.is_accept_burst() && self.admit_next(shard) {}
    }

    fn run_commands(&mut self, shard: &mut Shard<M>) {
        self.pending_publishes.answer_ready(shard);
        let Some(commands) = self.commands.as_ref().filter(|commands| commands.has_commands()) else { return };
        shard.counters().commands_rejected.add(commands.take_refused());
        for (id, decision) in commands.take_auth_decisions() {
            shard.apply_auth_decision(id, decision, self.connections.now_ms);
        }
        if self.cluster.is_some() {
            for event in commands.take_events() {
                shard.handle_event(event, self.connections.now_ms);
            }
        }
        for command in commands.take() {
            match command {
                Command::Publish(message, answer) => {
                    let published = shard.publish_for_operator(&message, self.connections.now_ms);
                    self.pending_publishes.answer(published, answer);
                }
                Command::WaitDurable(confirm, answer) => {
                    self.pending_publishes.answer(Ok(PublishReceipt { matched: true, confirm: Some(confirm) }), answer);
                }
                Command::AdminQuery(query) => shard.run_admin_query(query, self.connections.now_ms),
                Command::Disconnect(name, ends_session, answer) => {
                    answer.send(shard.disconnect_by_name(&name, ends_session, self.connections.now_ms));
                }
                Command::Connect(accepted) => self.connections.admit(shard, *accepted),
                Command::ApplyConfig(planned, step, answer) => {
                    // No connection is accepted in between, because this thread accepts all of them.
                    self.acceptor.replace(planned, self.connections.now_ms);
                    let before = step.make();
                    shard.apply_config_update();
                    answer.send(before);
                }
            }
        }
    }

    fn peer(&mut self, id: ConnectionId) -> Option<Peer> {
        self.connections.peer(id)
    }

    fn perform(&mut self, shard: &mut Shard<M>, action: Action) {
        if let Action::Move(id, to) = action {
            if let Some(connection) = self.connections.take_for_migration(shard, id) {
                self.shard_channels.send_connection(to, connection);
            }
            return;
        }
        if let Action::Authenticate(id) = action {
            self.authenticate(shard, id);
            return;
        }
        self.connections.perform(shard, action);
    }

    fn send(&mut self, to: ShardIndex, batches: impl Iterator<Item = Batch>) {
        self.shard_channels.send(to, batches);
    }

    fn write_ready(&mut self, shard: &mut Shard<M>) {
        self.connections.write_ready(shard);
    }

    fn write(&mut self, shard: &mut Shard<M>, id: ConnectionId) {
        self.connections.write(shard, id);
    }

    fn end_turn(&mut self, shard: &mut Shard<M>) -> NextTurn {
        self.connections.register_new(shard);
        self.connections.send_quick_acks(shard.counters());
        self.connections.close_drained(shard);
        self.shard_channels.send_migrations();
        let now_ms = self.connections.now_ms;
        self.trim_after_churn(shard, now_ms);
        self.waker.before_sleep();
        if self.has_work(shard.accepts_batches()) || self.pending_publishes.has_ready(shard) {
            return NextTurn::Busy;
        }
        let trim_ms = self.trimmer.as_ref().and_then(HeapTrimmer::next_ms);
        NextTurn::Until([self.acceptor.next_ms(), self.connections.next_ms(), trim_ms].into_iter().flatten().min())
    }

    fn has_room_or_arm_waker(&mut self, to: ShardIndex) -> bool {
        self.shard_channels.has_room_or_waits(to)
    }
}
