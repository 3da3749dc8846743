//! A simulated node: its shards, its member of the cluster, and the cluster thread between them.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU16;
use std::sync::Arc;

use tautwire_cluster::delivery::ReadRequest;
use tautwire_cluster::names::{ClientKey, Incarnation, Seed};
use tautwire_cluster::{
    Answer, Decision, Member, Operation, OperationId, OperatorPublish, Output, Publish, Revision, Settings,
};
use tautwire_engine::Clustered;
use tautwire_engine::{ClusterEvent, ClusterRequest, ClusterSettings, RetainedChange, home_of, messages_of};
use tautwire_message::MessageRef;
use tautwire_protocol::topic_matches;
use tautwire_router::RetainedLimits;

use crate::support::{NoDelays, SimulatedBroker};

pub(crate) const SEED: Seed = Seed([9; 16]);
pub(crate) const SHARDS: usize = 2;
/// The maximum number of retained messages.
pub(crate) const RETAINED_MAX: usize = 100;

pub(crate) struct Node {
    pub(crate) member: Member,
    member_settings: Settings,
    pub(crate) broker: SimulatedBroker<Clustered>,
    /// The shard on which each client was claimed.
    homes: HashMap<ClientKey, usize>,
    /// The incarnation has ended, and the next one has not begun.
    pub(crate) is_over: bool,
    /// The announced filters of each shard.
    interest: Vec<HashSet<Box<str>>>,
    /// The maximum size of a session's state in the store.
    pub(crate) state_max_bytes: usize,
}

/// An effect of a node on its environment.
pub(crate) enum Effect {
    Operation(OperationId, Operation),
    Send(Incarnation, Vec<u8>),
    Broadcast(Arc<[u8]>),
    /// Subscribes to a pattern on the bus, or unsubscribes.
    AddInterest(String, bool),
    /// Subscribes to the answers to this probe.
    Probe(u64),
    /// An answer to another node's probe.
    Echo(Incarnation, u64, Vec<u8>),
    /// The incarnation has ended; the next one has to begin.
    Begin,
}

impl Node {
    pub(crate) fn new(
        now_ms: u64,
        me: Incarnation,
        former: Option<Incarnation>,
        settings: tautwire_engine::Settings,
        cluster: &ClusterSettings,
        member_settings: Settings,
        state_max_bytes: usize,
    ) -> Node {
        let retained = RetainedLimits { messages: RETAINED_MAX, bytes: 1 << 20 };
        let mode = Clustered::new(SEED, cluster.clone());
        let mut broker = SimulatedBroker::new(SHARDS, settings, retained, |_| mode.clone());
        broker.advance(now_ms);
        let member = Member::new(now_ms, me, "node", former, SEED, member_settings.clone());
        let interest = vec![HashSet::new(); SHARDS];
        Node { member, member_settings, broker, homes: HashMap::new(), is_over: false, interest, state_max_bytes }
    }

    /// Begins another incarnation with the same shards.
    pub(crate) fn restart(&mut self, now_ms: u64, me: Incarnation) {
        let former = self.member.incarnation();
        self.member = Member::new(now_ms, me, "node", Some(former), SEED, self.member_settings.clone());
        self.homes.clear();
        self.is_over = false;
        for filter in self.interest.iter().flatten() {
            self.member.add_interest(now_ms, filter);
        }
    }

    pub(crate) fn answer(&mut self, now_ms: u64, id: OperationId, answer: &Answer) {
        self.member.answer(now_ms, id, answer);
    }

    pub(crate) fn observe_node(&mut self, now_ms: u64, node: Incarnation, revision: Revision, value: &[u8]) {
        self.member.observe_node(now_ms, node, revision, value);
    }

    pub(crate) fn receive_peer(&mut self, message: &Arc<[u8]>) {
        let topic = topic_of(message);
        for shard in 0..SHARDS {
            if self.interest[shard].iter().any(|filter| topic_matches(filter, topic)) {
                self.broker.send_event(shard, ClusterEvent::BusMessages(message.clone()));
            }
        }
    }

    pub(crate) fn has_no_interest(&self) -> bool {
        self.interest.iter().all(HashSet::is_empty)
    }

    /// Runs shards and member until nothing is left to do now; returns the effects.
    pub(crate) fn settle(&mut self, now_ms: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.broker.advance((crate::world::START_MS + now_ms).saturating_sub(self.broker.now_ms()));
        loop {
            self.broker.set_lease(self.member.is_serving(now_ms) || self.is_over);
            self.broker.settle(&mut NoDelays);
            let mut is_done = true;
            for shard in 0..SHARDS {
                let requests: Vec<_> = self.broker.take_requests(shard).collect();
                is_done &= requests.is_empty();
                for request in requests {
                    self.handle_request(now_ms, shard, request, &mut effects);
                }
            }
            while let Some(output) = self.member.next_output() {
                is_done = false;
                match output {
                    Output::AddInterest(pattern) => effects.push(Effect::AddInterest(pattern, true)),
                    Output::RemoveInterest(pattern) => effects.push(Effect::AddInterest(pattern, false)),
                    Output::Probe(number) => effects.push(Effect::Probe(number)),
                    Output::Echo { to, number, message } => effects.push(Effect::Echo(to, number, message)),
                    Output::Operation(id, operation) => effects.push(Effect::Operation(id, operation)),
                    Output::Send(to, bytes) => effects.push(Effect::Send(to, bytes)),
                    Output::Decision(decision) => self.forward_decision(decision, &mut effects),
                }
            }
            if is_done {
                return effects;
            }
        }
    }

    fn handle_request(&mut self, now_ms: u64, shard: usize, request: ClusterRequest, effects: &mut Vec<Effect>) {
        match request {
            ClusterRequest::Read { number, partition, from } => {
                self.member.read(shard, ReadRequest { number, partition, from });
            }
            ClusterRequest::Broadcast { messages, .. } => effects.push(Effect::Broadcast(messages.into())),
            ClusterRequest::Claim { ticket, name, start } => {
                assert_eq!(ticket >> 56, shard as u64, "the highest byte of a ticket must be its shard");
                self.homes.insert(SEED.client(&name), shard);
                self.member.claim(now_ms, ticket, &name, start);
            }
            ClusterRequest::Abandon { client, ticket } => self.member.abandon(now_ms, client, ticket),
            ClusterRequest::Publish { client, ticket, refusal_seen, topic, packet_id, retain, message } => {
                let packet_id = packet_id.and_then(|packet_id| NonZeroU16::new(packet_id.get()));
                let retain = retain.map(|info| (info.retain, info.known));
                let publish = Publish { ticket, refusal_seen, topic: &topic, packet_id, retain, message };
                self.member.publish(now_ms, client, publish).expect("the publish was refused");
            }
            ClusterRequest::PublishFromOperator { ticket, topic, retain, message } => {
                let retain = retain.map(|info| (info.retain, info.known));
                self.member.publish_from_operator(now_ms, ticket, OperatorPublish { topic: &topic, retain, message });
            }
            ClusterRequest::Release { client, packet_id } => {
                let packet_id = NonZeroU16::new(packet_id.get()).expect("not 0");
                self.member.release(now_ms, client, packet_id);
            }
            ClusterRequest::Save { client, state, .. } if state.len() > self.state_max_bytes => {
                self.broker.send_event(shard, ClusterEvent::TooLarge(client));
            }
            ClusterRequest::Left { client, state } if state.len() > self.state_max_bytes => {
                self.member.disconnected_as_saved(now_ms, client);
            }
            ClusterRequest::Save { client, number, state } => self.member.save(now_ms, client, number, state),
            ClusterRequest::SetDisconnectSettings { client, settings } => {
                self.member.set_disconnect_settings(client, settings)
            }
            ClusterRequest::RetainedSync { ticket } => self.member.sync_retained(now_ms, ticket),
            ClusterRequest::Left { client, state } => self.member.left(now_ms, client, state),
            ClusterRequest::Received { partition, until } => self.member.mark_received(now_ms, shard, partition, until),
            ClusterRequest::Join { client, epoch, share } => self.member.join(now_ms, client, epoch, &share),
            ClusterRequest::Leave { client, share } => self.member.leave(now_ms, client, &share),
            ClusterRequest::QuitGroup { client, epoch, share } => self.member.part(now_ms, client, epoch, &share),
            ClusterRequest::Checkpoint { group, leases } => self.member.checkpoint(now_ms, group, leases),
            ClusterRequest::Returned { group, partition, next, open } => {
                self.member.returned(now_ms, group, partition, next, open);
            }
            ClusterRequest::AddInterest(filter) => {
                self.member.add_interest(now_ms, &filter);
                assert!(self.interest[shard].insert(filter), "a filter was announced twice");
            }
            ClusterRequest::RemoveInterest(filter) => {
                self.member.remove_interest(now_ms, &filter);
                assert!(self.interest[shard].remove(&filter), "the filter was not announced");
            }
            ClusterRequest::InterestSync { ticket } => self.member.sync_interest(now_ms, ticket),
        }
    }

    fn forward_decision(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        let home = |client: &ClientKey| self.homes.get(client).copied().expect("the client was not claimed");
        let shards = match &decision {
            Decision::Serve { ticket, .. }
            | Decision::Refuse { ticket, .. }
            | Decision::Redirect { ticket, .. }
            | Decision::Published { ticket, .. }
            | Decision::InterestSync { ticket }
            | Decision::RetainedSync { ticket } => {
                let shard = (*ticket >> 56) as usize;
                shard..shard + 1
            }
            Decision::SessionTakenOver(client)
            | Decision::Lost(client)
            | Decision::Stored { client, .. }
            | Decision::NotStored { client, .. }
            | Decision::Migrate { client, .. }
            | Decision::Joined { client, .. }
            | Decision::NotJoined { client, .. }
            | Decision::Completed { client, .. }
            | Decision::Saved { client, .. } => home(client)..home(client) + 1,
            Decision::Suspended | Decision::Resumed | Decision::Fenced | Decision::Drained | Decision::Arrived(_) => {
                0..SHARDS
            }
            Decision::Read { shard, .. } => *shard..*shard + 1,
            Decision::Lease { group, .. } | Decision::Recall { group, .. } => {
                let shard = usize::from(home_of(*group, SHARDS).0);
                shard..shard + 1
            }
            Decision::Begin { next } => {
                (0..SHARDS).for_each(|shard| {
                    let state_max_bytes = self.state_max_bytes;
                    self.broker.send_event(shard, ClusterEvent::Began { next: **next, state_max_bytes });
                });
                return;
            }
            Decision::Retain(changes) => {
                let by_clock_of_shards = |change: &RetainedChange| RetainedChange {
                    expires_at_ms: change.expires_at_ms.map(|at_ms| crate::world::START_MS + at_ms),
                    ..change.clone()
                };
                let changes: Arc<[RetainedChange]> = changes.iter().map(by_clock_of_shards).collect();
                for shard in 0..SHARDS {
                    self.broker.send_event(shard, ClusterEvent::Retained(changes.clone()));
                }
                return;
            }
            // Not sent to shards.
            Decision::Unreadable { .. }
            | Decision::UnreadableNode { .. }
            | Decision::ConfigUnsupported
            | Decision::Configure { .. }
            | Decision::Proposed { .. }
            | Decision::DrainRequested { .. }
            | Decision::PeerCommandResult { .. } => return,
        };
        if decision == Decision::Fenced {
            self.is_over = true;
            effects.push(Effect::Begin);
        }
        for shard in shards {
            self.broker.send_event(shard, ClusterEvent::Decided(decision.clone()));
        }
    }
}

/// The topic of a batch from node to node.
pub(crate) fn topic_of(messages: &[u8]) -> &str {
    let first = messages_of(messages).next().expect("a message of a node");
    MessageRef::read_stored(first).expect("a message of a node").topic
}
