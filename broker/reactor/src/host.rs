//! What a thread has around its shard, and what it does in a turn: the sockets, the ways to other threads, and the inbox for
//! what comes from outside.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tautwire_engine::{Action, AuthDecision, ClusterRequest, ConnectionId, Io, NextTurn, Peer, Published, Shard};
use tautwire_protocol::ConnectReason;
use tautwire_router::{Batch, ShardIndex};
use tautwire_session::Journal;

use crate::bell::Bell;
use crate::clock::Now;
use crate::cluster::ClusterThread;
use crate::connections::Connections;
use crate::door::Door;
use crate::doorkeeper::{Doorkeeper, Ticket};
use crate::inbox::{Order, Orders};
use crate::memory::{self, Trimmer};
use crate::promises::Promises;
use crate::ways::{Adopted, Ways};

/// Connections of other threads let in in one turn.
const ADOPTED_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) connections: Connections,
    pub(crate) door: Door,
    pub(crate) ways: Ways,
    pub(crate) bell: Arc<Bell>,
    pub(crate) stop: Arc<AtomicBool>,
    /// `None` when the broker stops.
    pub(crate) orders: Option<Orders>,
    /// Operators who wait for the log.
    promises: Promises,
    /// Finds out who clients are, where they are asked.
    pub(crate) doorkeeper: Option<Arc<dyn Doorkeeper>>,
    /// The thread of the cluster, where the broker is one of several.
    cluster: Option<Arc<dyn ClusterThread>>,
    began_us: u64,
    /// One thread looks after the heap for all.
    pub(crate) trimmer: Option<Trimmer>,
    /// How many more connections are adopted in this turn.
    adoptions_left: usize,
    /// The thread that was given the last handshake of TLS.
    shaken: usize,
}

impl Host {
    pub(crate) fn new(
        connections: Connections,
        door: Door,
        ways: Ways,
        bell: Arc<Bell>,
        stop: Arc<AtomicBool>,
        orders: Orders,
        cluster: Option<Arc<dyn ClusterThread>>,
    ) -> Host {
        let doorkeeper = door.doorkeeper().cloned();
        let trimmer = ways.is_of_first_thread().then(Trimmer::default);
        Host {
            connections,
            door,
            ways,
            bell,
            stop,
            orders: Some(orders),
            promises: Promises::default(),
            doorkeeper,
            cluster,
            began_us: 0,
            trimmer,
            adoptions_left: 0,
            shaken: 0,
        }
    }

    /// What has been kept for reuse goes when fewer will use it. The first thread sees that, and trims for all a few seconds later again, when
    /// the others have given back theirs.
    fn give_back_after_a_crowd<J: Journal>(&mut self, shard: &mut Shard<J>, now_ms: u64) {
        let is_due = match &mut self.trimmer {
            Some(trimmer) => trimmer.is_due(shard.held_bytes(), now_ms),
            None => self.ways.has_heard_that_a_crowd_has_gone(),
        };
        if !is_due {
            return;
        }
        shard.shrink();
        self.connections.shrink();
        memory::give_back(self.trimmer.is_some());
        if self.trimmer.is_some() {
            self.ways.tell_that_a_crowd_has_gone();
        }
    }

    /// To be called before each turn.
    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.adoptions_left = ADOPTED_MAX;
        self.began_us = now.us;
        self.connections.begin_turn(now, self.ways.has_batches());
        self.door.begin_turn();
    }

    /// Lets in the next one who waits; in a rush reads from it at once.
    fn let_in<J: Journal>(&mut self, shard: &mut Shard<J>) -> bool {
        let Connections { turnover, clock, .. } = &mut self.connections;
        if self.door.next_ms().is_none() || !turnover.may_let_in(|| clock.now_us()) {
            return false;
        }
        let Some(newcomer) = self.door.next(self.connections.now_ms, shard.counters()) else { return false };
        if let Some(trimmer) = &mut self.trimmer {
            trimmer.note_one_who_comes();
        }
        if newcomer.is_by_tls()
            && let Some(to) = self.next_for_handshakes()
        {
            self.ways.hand_over(to, Adopted { newcomer, bytes: Vec::new() });
        } else if self.door.is_rush() {
            self.connections.admit_and_read(shard, newcomer);
        } else {
            self.connections.admit(shard, newcomer);
        }
        true
    }

    /// The thread that is to make the next handshake of TLS, if it is another one. They take turns: whose client it is shows later.
    fn next_for_handshakes(&mut self) -> Option<ShardIndex> {
        let threads = self.ways.peers() + 1;
        self.shaken = (self.shaken + 1) % threads;
        (self.shaken > 0).then_some(ShardIndex(self.shaken as u8))
    }

    /// Finds out who a client is, now or later.
    fn find_out<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId) {
        let Some(question) = shard.take_auth_request(id) else { return };
        let verdict = match (shard.origin(id), &self.doorkeeper, &self.orders) {
            (Some(origin), Some(doorkeeper), Some(orders)) => {
                doorkeeper.ask(&origin, question, Ticket::new(orders.inbox(), id, &origin))
            }
            // The broker stops.
            _ => {
                let why = "nobody finds out who clients are now".into();
                Some(AuthDecision::Refused { reason: ConnectReason::ServerUnavailable, why, detail: None })
            }
        };
        if let Some(verdict) = verdict {
            shard.apply_auth_decision(id, verdict, self.connections.now_ms);
        }
    }

    fn has_work(&self, accepts_batches: bool) -> bool {
        // The bell does not ring for who is awake: the word to stop may have come during the turn.
        let told_to_stop = !self.connections.is_stopping() && self.stop.load(Ordering::SeqCst);
        told_to_stop
            || self.connections.has_work()
            || self.door.has_work(self.connections.now_ms)
            || self.ways.has_work(accepts_batches)
            || self.orders.as_ref().is_some_and(Orders::are_there)
    }
}

impl<J: Journal> Io<J> for Host {
    fn began_us(&self) -> u64 {
        self.began_us
    }

    fn now_us(&self) -> u64 {
        self.connections.clock.now_us()
    }

    fn holds_lease(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.holds_lease())
    }

    fn ask_cluster(&mut self, requests: &mut VecDeque<ClusterRequest>) {
        if let Some(cluster) = &self.cluster {
            cluster.ask(self.ways.own(), requests);
        }
    }

    fn room(&mut self, to: ShardIndex) -> usize {
        self.ways.room(to)
    }

    fn adopt(&mut self, shard: &mut Shard<J>) -> bool {
        if self.adoptions_left == 0 {
            return false;
        }
        self.adoptions_left -= 1;
        let Some(adopted) = self.ways.next_adopted() else { return false };
        self.connections.adopt(shard, adopted);
        true
    }

    fn next_batch(&mut self, from: ShardIndex) -> Option<Batch> {
        self.ways.next_batch(from)
    }

    fn batches_taken(&mut self, from: ShardIndex) {
        self.ways.tell_of_room(from);
    }

    fn read(&mut self, shard: &mut Shard<J>) -> bool {
        self.connections.read_next(shard) || (self.door.is_rush() && self.let_in(shard))
    }

    fn accept(&mut self, shard: &mut Shard<J>) {
        while !self.door.is_rush() && self.let_in(shard) {}
    }

    fn run_commands(&mut self, shard: &mut Shard<J>) {
        self.promises.settle(shard);
        let Some(orders) = self.orders.as_ref().filter(|orders| orders.are_there()) else { return };
        shard.counters().orders_refused.add(orders.take_refused());
        for (id, verdict) in orders.take_verdicts() {
            shard.apply_auth_decision(id, verdict, self.connections.now_ms);
        }
        if self.cluster.is_some() {
            for event in orders.take_events() {
                shard.handle_cluster_event(event, self.connections.now_ms);
            }
        }
        for order in orders.take() {
            match order {
                Order::Publish(message, answer) => {
                    let published = shard.publish_for_operator(&message, self.connections.now_ms);
                    self.promises.answer(published, answer);
                }
                Order::Keep(promise, answer) => {
                    self.promises.answer(Ok(Published { matched: true, promise: Some(promise) }), answer);
                }
                Order::AdminQuery(survey) => shard.run_admin_query(survey, self.connections.now_ms),
                Order::Disconnect(name, ends_session, answer) => {
                    answer.give(shard.disconnect_by_name(&name, ends_session, self.connections.now_ms));
                }
                Order::Adopt(placed, step, answer) => {
                    // Nobody comes between: this thread lets all newcomers in.
                    self.door.replace(placed, self.connections.now_ms);
                    let before = step.make();
                    shard.apply_config_update();
                    answer.give(before);
                }
            }
        }
    }

    fn peer(&mut self, id: ConnectionId) -> Option<Peer> {
        self.connections.peer(id)
    }

    fn perform(&mut self, shard: &mut Shard<J>, action: Action) {
        if let Action::Move(id, to) = action {
            if let Some(connection) = self.connections.give_away(shard, id) {
                self.ways.hand_over(to, connection);
            }
            return;
        }
        if let Action::Ask(id) = action {
            self.find_out(shard, id);
            return;
        }
        self.connections.perform(shard, action);
    }

    fn send(&mut self, to: ShardIndex, batches: impl Iterator<Item = Batch>) {
        self.ways.send(to, batches);
    }

    fn write_ready(&mut self, shard: &mut Shard<J>) {
        self.connections.write_ready(shard);
    }

    fn write(&mut self, shard: &mut Shard<J>, id: ConnectionId) {
        self.connections.write(shard, id);
    }

    fn end_turn(&mut self, shard: &mut Shard<J>) -> NextTurn {
        self.connections.watch_fresh(shard);
        self.connections.acknowledge_at_once(shard.counters());
        self.connections.close_drained(shard);
        self.ways.send_moves();
        let now_ms = self.connections.now_ms;
        self.give_back_after_a_crowd(shard, now_ms);
        self.bell.before_sleep();
        if self.has_work(shard.accepts_batches()) || self.promises.are_due(shard) {
            return NextTurn::Busy;
        }
        let trim_ms = self.trimmer.as_ref().and_then(Trimmer::next_ms);
        NextTurn::Until([self.door.next_ms(), self.connections.next_ms(), trim_ms].into_iter().flatten().min())
    }

    fn has_room_or_arm_waker(&mut self, to: ShardIndex) -> bool {
        self.ways.has_room_or_waits(to)
    }
}
