//! The parts of a node besides serving clients: retained messages, configuration, draining, garbage collection, and status.

use crate::Status;
use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Incarnation, Partition};
use crate::numbers::Revision;
use crate::operation::{Answer, Decision, OperationId, Refusal};
use crate::peer_commands::{PeerCommandContext, PeerCommandMessage};
use crate::producers::PendingRetain;
use crate::record::{ConfigPart, Load};
use crate::retained::Waiter;
use crate::sessions::SessionContext;
use crate::status::Counters;
use crate::wills::DisconnectSettings;

use super::Member;

impl Member {
    /// A scan of the retained messages begins. After `RetainedSync` with this ticket, this node's mirror has everything that any node had
    /// retained before.
    pub fn sync_retained(&mut self, now_ms: u64, ticket: u64) {
        if !self.is_over {
            self.check_lease(now_ms);
            self.mirror.sync_retained(ticket, &mut self.out);
        }
    }

    /// The settings that apply when a client disconnects have changed. They are persisted with the state that is saved next. A client that
    /// sends DISCONNECT loses its will [MQTT-3.14.4-3]: call this before [`left`](Member::left).
    pub fn set_disconnect_settings(&mut self, client: ClientKey, terms: DisconnectSettings) {
        if !self.is_over {
            self.sessions.set_disconnect_settings(client, terms);
        }
    }

    /// Drains the node: clients are sent to other nodes, and when none is left, `Drained` follows. `is_for_good` means that clients must
    /// not return. This cannot be cancelled; only a new incarnation of the node accepts clients again.
    pub fn drain(&mut self, now_ms: u64, is_for_good: bool) {
        self.drain.begin(is_for_good);
        self.advance(now_ms);
    }

    /// Drains another node, by its name. `by` is the operator. The answer is `PeerCommandResult`.
    pub fn drain_peer(&mut self, now_ms: u64, ticket: u64, name: &str, is_for_good: bool, by: &str) {
        let Member { me, settings, nodes, peer_commands, out, .. } = self;
        if !self.is_over {
            let mut cx = PeerCommandContext { me: *me, now_ms, settings, out };
            peer_commands.drain(ticket, name, is_for_good, by, nodes, &mut cx);
        }
    }

    /// Handles a message of another node about a command.
    pub(super) fn receive_peer_command(&mut self, now_ms: u64, message: PeerCommandMessage) {
        let Member { me, settings, peer_commands, out, .. } = self;
        let mut cx = PeerCommandContext { me: *me, now_ms, settings, out };
        if let Some(is_for_good) = peer_commands.receive_peer(message, &mut cx) {
            self.drain(now_ms, is_for_good);
        }
    }

    /// Moves some clients to other nodes if this node has more than its share.
    pub fn rebalance(&mut self, now_ms: u64) {
        let Member { me, seed, is_serving, settings, nodes, producers, sessions, out, drain, .. } = self;
        let (me, seed, is_serving) = (*me, *seed, *is_serving);
        drain.rebalance(sessions, &SessionContext { me, seed, now_ms, is_serving, settings, nodes, producers, out });
        self.advance(now_ms);
    }

    /// The record of a node was removed, as reported by the store.
    pub fn observe_node_removed(&mut self, node: Incarnation) {
        if !self.is_over && node != self.me {
            self.nodes.forget(node);
        }
    }

    /// Observes the shared configuration, as reported by the store.
    pub fn observe_config(&mut self, revision: Revision, record: &[u8]) {
        if !self.is_over {
            self.config.observe(revision, record, &mut self.out);
        }
    }

    /// The engine has applied the given revision, or has failed to.
    pub fn configured(&mut self, now_ms: u64, number: u64, is_taken_on: bool) {
        self.config.configured(number, is_taken_on);
        self.begin_to_serve(now_ms);
    }

    /// Proposes a new revision of the shared configuration, based on revision `base`; 0 for none. The answer is `Proposed`.
    pub fn propose(&mut self, ticket: u64, base: u64, parts: Vec<ConfigPart>) {
        if !self.is_over {
            self.config.propose(ticket, base, parts, &self.settings, &mut self.out);
        }
    }

    /// Returns the status of the node.
    pub fn status(&self, now_ms: u64) -> Status {
        Status {
            incarnation: self.me,
            is_serving: self.is_serving(now_ms),
            is_draining: self.drain.is_draining(),
            nodes: self.nodes.status(now_ms),
            producers: self.producers.status(now_ms),
            sessions: self.sessions.status(),
            mirror: self.mirror.status(),
            config: self.config.status(),
            garbage_collection: self.garbage_collector.status(),
            health_check: self.health_check.status(),
            counters: Counters {
                retained_conflicts: self.retained.conflicts,
                retained_superseded: self.retained.superseded,
                retaining_bytes: self.retained.bytes() as u64,
                spreads_unanswered: self.interest_sync.unanswered(),
                moved: self.drain.moved,
                ..self.counters
            },
        }
    }

    /// Returns the load that each heartbeat reports.
    pub(super) fn load(&self) -> Load {
        Load { sessions: self.sessions.owned(), is_closed: self.is_closed() }
    }

    /// Whether the node accepts no clients.
    pub(super) fn is_closed(&self) -> bool {
        self.drain.is_draining() || self.config.is_behind()
    }

    /// Redirects a client that requests its session here.
    pub(super) fn redirect_client(&mut self, now_ms: u64, ticket: u64) {
        let Member { me, seed, is_serving, settings, nodes, producers, out, drain, .. } = self;
        let (me, seed, is_serving) = (*me, *seed, *is_serving);
        let to = drain.elsewhere(&SessionContext { me, seed, now_ms, is_serving, settings, nodes, producers, out });
        self.drain.moved += 1;
        self.out.decide(match to {
            Some(to) => Decision::Redirect { ticket, to },
            None => Decision::Refuse { ticket, why: Refusal::Closed },
        });
    }

    /// Runs due housekeeping.
    pub(super) fn run_housekeeping(&mut self, now_ms: u64) {
        self.copy_retained();
        let Member { me, settings, peer_commands, out, .. } = self;
        peer_commands.advance(&mut PeerCommandContext { me: *me, now_ms, settings, out });
        self.config.advance(now_ms, &self.settings, &mut self.out);
        if self.is_serving {
            let sessions = &self.sessions;
            let withdrawn = self.producers.withdraw(now_ms, &self.settings, |origin| sessions.can_notify(origin));
            self.counters.timeouts += withdrawn.len() as u64;
            self.notify_operators(withdrawn.iter().map(|withdrawn| &withdrawn.origin), false);
            self.with_sessions(now_ms, |sessions, cx| sessions.withdrawn(&withdrawn, cx));
        }
        let Member {
            me, seed, is_serving, settings, nodes, producers, sessions, out, drain, garbage_collector, ..
        } = self;
        let (me, seed, is_serving) = (*me, *seed, *is_serving);
        let cx = &mut SessionContext { me, seed, now_ms, is_serving, settings, nodes, producers, out };
        drain.advance(sessions, cx);
        // A draining node leaves garbage collection to others, because it must not take over sessions.
        if !drain.is_draining() {
            garbage_collector.advance(sessions, cx);
        }
        self.retire();
    }

    /// Copies retained messages only when the engine knows where the log begins: earlier events would belong to no run.
    pub(super) fn copy_retained(&mut self) {
        if self.log.has_begun() {
            self.mirror.advance(&self.settings, &mut self.out);
        }
    }

    /// Removes this node from the cluster when it is drained and idle.
    fn retire(&mut self) {
        // It returns its partitions of groups with their progress.
        let is_idle = self.retained.is_idle() && (self.groups.len() == 0 || is(Mutant::RetiresTooEarly));
        if self.drain.is_retiring || !self.drain.is_done(&self.sessions) || !is_idle {
            return;
        }
        if let Some(ends) = self.producers.ends().or_else(|| is(Mutant::RetiresTooEarly).then(Default::default)) {
            self.drain.is_retiring = true;
            self.lease.retire(ends);
        }
    }

    /// Retains messages that are in the log.
    pub(super) fn retain(&mut self, partition: Partition, retaining: Vec<PendingRetain>) {
        for PendingRetain { origin, record, known } in retaining {
            let waiter = Waiter::Publisher(origin, partition, record.place.sequence);
            self.retained.push(record, known, waiter, self.seed, &self.settings, &mut self.out);
        }
    }

    /// Retains messages that the removal of a node has found.
    pub(super) fn repair(&mut self) {
        for (node, attempt, record) in self.nodes.take_repairs() {
            let waiter = Waiter::Removal(node, attempt);
            self.retained.push(record, None, waiter, self.seed, &self.settings, &mut self.out);
        }
    }

    pub(super) fn answer_retained(&mut self, now_ms: u64, subject: String, id: OperationId, answer: &Answer) {
        let is_serving = self.is_serving;
        let done = self.retained.answer(subject, id, answer, is_serving, &self.settings, &mut self.out);
        for waiter in done {
            match waiter {
                Waiter::Publisher(origin, partition, group) => {
                    self.producers.settled(partition, group);
                    if !is(Mutant::AcknowledgesBeforeRetained) {
                        self.stored(now_ms, &[origin]);
                    }
                }
                Waiter::Removal(node, attempt) => {
                    self.nodes.repaired(node, attempt, &mut self.out);
                    self.repair();
                }
            }
        }
    }

    /// Handles a page of sessions, or the result of freeing a session.
    pub(super) fn answer_garbage_collection(
        &mut self,
        now_ms: u64,
        id: OperationId,
        freed: Option<ClientKey>,
        answer: &Answer,
    ) {
        let Member { me, seed, is_serving, settings, nodes, producers, sessions, out, garbage_collector, .. } = self;
        let (me, seed, is_serving) = (*me, *seed, *is_serving);
        let cx = &mut SessionContext { me, seed, now_ms, is_serving, settings, nodes, producers, out };
        match freed {
            Some(client) => garbage_collector.freed(client, sessions, cx),
            None => garbage_collector.answer(id, answer, sessions, cx),
        }
    }
}
