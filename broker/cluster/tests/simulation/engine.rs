//! A model of a node's engine: connections, and their interaction with the node and the clients.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU16;

use tautwire_cluster::names::{ClientKey, GroupKey, Incarnation, Partition, Seed};
use tautwire_cluster::record::{Place, Publisher, Will};
use tautwire_cluster::{
    Decision, DisconnectSettings, Member, OperatorPublish, PeerCommandOutcome, Publish, RetainedChange, Start,
};

use crate::client::{DisconnectOptions, FromClient, TOPICS, ToClient};
use crate::ledger::{Ledger, Message};
use crate::model::{Floor, Mirrored, Retaining, list_of, parts_of};
use crate::session::Session;
use crate::shard::{GROUP, SHARE, Shards};
use crate::world::TROUBLE_MS;

pub(crate) const SEED: Seed = Seed([9; 16]);

/// Identifies a connection in the whole run.
pub(crate) type ConnectionId = u64;

pub(crate) struct Engine {
    connections: BTreeMap<ConnectionId, Connection>,
    /// The connection of each served client.
    served: BTreeMap<ClientKey, ConnectionId>,
    /// Packets that arrived while reading was paused.
    waiting: VecDeque<(ConnectionId, FromClient)>,
    /// The requester of each claim.
    claims: BTreeMap<u64, (ConnectionId, bool)>,
    /// The message of each ticket.
    messages: BTreeMap<u64, (ConnectionId, NonZeroU16, Message)>,
    last_ticket: u64,
    shards: Shards,
    mirror: Mirrored,
    has_served: bool,
    /// The retained messages when this run began.
    pub(crate) floor: Floor,
    /// Partitions of the group that are being returned, with their progress.
    returning: Vec<(GroupKey, Partition, Place, Vec<Place>)>,
    ticks: u64,
    timeouts: u64,
    /// The current configuration.
    configuration: (u64, Vec<u64>),
    /// The number of the configuration that was in effect everywhere when this run began.
    pub(crate) configuration_floor: u64,
    pub(crate) to_clients: Vec<(ConnectionId, ToClient)>,
}

struct Connection {
    client: usize,
    epoch: Option<u64>,
    is_confirmed: bool,
    is_present: bool,
    /// The last message that is known to be refused.
    refusal_seen: u64,
    disconnect_options: DisconnectOptions,
}

/// Whether a client can receive the reason of a refusal. Others are disconnected.
pub(crate) fn can_receive_reason(client: usize) -> bool {
    client % 2 == 1
}

pub(crate) fn name_of(client: usize) -> String {
    format!("client-{client}")
}

/// The publisher that the log records for this client's messages.
pub(crate) fn key_of(client: usize) -> ClientKey {
    if client == OPERATOR { Publisher::OPERATOR.client } else { SEED.client(&name_of(client)) }
}

/// Publishes as an operator.
pub(crate) const OPERATOR: usize = 200;

impl Engine {
    pub(crate) fn new(seed: u64) -> Engine {
        Engine {
            connections: BTreeMap::new(),
            served: BTreeMap::new(),
            waiting: VecDeque::new(),
            claims: BTreeMap::new(),
            messages: BTreeMap::new(),
            last_ticket: 0,
            shards: Shards::new(seed),
            mirror: Mirrored::default(),
            has_served: false,
            floor: Floor::default(),
            returning: Vec::new(),
            ticks: 0,
            timeouts: 0,
            configuration_floor: 0,
            configuration: Default::default(),
            to_clients: Vec::new(),
        }
    }

    /// Does some of the shards' work, if the node may serve.
    pub(crate) fn work(&mut self, now_ms: u64, member: &mut Member, ledger: &mut Ledger) {
        if member.is_serving(now_ms) {
            for slot in self.shards.work(now_ms, member, ledger) {
                if slot == GROUP {
                    member.checkpoint(now_ms, SEED.group(SHARE), self.shards.leases());
                } else {
                    self.save(now_ms, slot as usize, member);
                }
            }
            self.send(member.incarnation(), ledger);
        }
    }

    fn save(&mut self, now_ms: u64, client: usize, member: &mut Member) {
        if let Some((number, state)) = self.shards.save(now_ms, client) {
            member.save(now_ms, SEED.client(&name_of(client)), number, state);
        }
    }

    /// Sends pending messages of sessions to their clients, after CONNACK.
    fn send(&mut self, me: Incarnation, ledger: &mut Ledger) {
        for id in self.served.values().copied().collect::<Vec<_>>() {
            let Some(connection) = self.connections.get(&id).filter(|connection| connection.is_confirmed) else {
                continue;
            };
            let Some(session) = self.shards.session(connection.client) else { continue };
            for packet in std::mem::take(&mut session.outgoing) {
                self.answer(id, packet, me, ledger);
            }
        }
    }

    pub(crate) fn receive(&mut self, connection: ConnectionId, packet: FromClient) {
        self.waiting.push_back((connection, packet));
    }

    /// Reads the next packet, if the node may serve.
    pub(crate) fn read_next(&mut self, now_ms: u64, member: &mut Member, ledger: &mut Ledger) -> bool {
        if !member.is_serving(now_ms) {
            return false;
        }
        let Some((connection, packet)) = self.waiting.pop_front() else { return false };
        self.read(now_ms, connection, packet, member, ledger);
        true
    }

    /// Sends a packet to all served clients, because messages may arrive at any moment.
    pub(crate) fn deliver(&mut self, now_ms: u64, member: &mut Member, ledger: &mut Ledger) {
        self.ticks += 1;
        if self.ticks.is_multiple_of(3) {
            for (group, partition, next, open) in std::mem::take(&mut self.returning) {
                member.returned(now_ms, group, partition, next, open);
            }
        }
        let timeouts = member.status(now_ms).counters.timeouts;
        if std::mem::replace(&mut self.timeouts, timeouts) < timeouts {
            let told = self.messages.values().filter(|(.., message)| can_receive_reason(message.client));
            told.for_each(|(.., message)| ledger.may_be_withdrawn(message));
        }
        if self.ticks.is_multiple_of(5) && member.is_serving(now_ms) {
            let ticket = self.mirror.begin(&ledger.retaining);
            member.sync_retained(now_ms, ticket);
        }
        let is_time = ledger.has_operators && self.ticks.is_multiple_of(7);
        if is_time && member.is_serving(now_ms) && ledger.now_ms < TROUBLE_MS {
            self.publish_from_operator(now_ms, member, ledger);
        }
        for connection in self.served.values().filter_map(|id| self.connections.get(id)) {
            if let Some(epoch) = connection.epoch
                && member.is_serving(now_ms)
            {
                ledger.served(connection.client, epoch, member.incarnation());
            }
        }
    }

    /// An operator publishes something.
    fn publish_from_operator(&mut self, now_ms: u64, member: &mut Member, ledger: &mut Ledger) {
        let number = ledger.own.begin();
        let (topic, retain) = ((number % TOPICS) as u8, u8::from(number.is_multiple_of(2)));
        let (is_once, is_will) = (number.is_multiple_of(3), false);
        let message = Message { client: OPERATOR, topic, is_once, number, epoch: 0, retain, is_will };
        let topic = &format!("topic/{topic}");
        let retain = message.retain().map(|retain| (retain, self.mirror.known(topic)));
        member.publish_from_operator(now_ms, number, OperatorPublish { topic, retain, message: message.encode() });
    }

    fn read(&mut self, now_ms: u64, id: ConnectionId, packet: FromClient, member: &mut Member, ledger: &mut Ledger) {
        if let FromClient::Connect { client, is_clean, terms: disconnect_options } = packet {
            let connection = Connection {
                client,
                epoch: None,
                is_confirmed: false,
                is_present: false,
                refusal_seen: 0,
                disconnect_options,
            };
            self.connections.insert(id, connection);
            self.last_ticket += 1;
            self.claims.insert(self.last_ticket, (id, is_clean));
            let start = if is_clean { Start::Clean } else { Start::Resume };
            return member.claim(now_ms, self.last_ticket, &name_of(client), start);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if packet == FromClient::Closed {
            return self.close(now_ms, id, member, false);
        }
        let Some(epoch) = connection.epoch else { return };
        let (client, refusal_seen) = (connection.client, connection.refusal_seen);
        let key = SEED.client(&name_of(client));
        ledger.served(client, epoch, member.incarnation());
        match packet {
            FromClient::Publish { packet_id, topic, is_once, retain, number } => {
                let message = Message { client, topic, is_once, number, epoch, retain, is_will: false };
                self.last_ticket += 1;
                self.messages.insert(self.last_ticket, (id, packet_id, message));
                if number % 3 == 0 {
                    self.save(now_ms, client, member);
                }
                let topic = &format!("topic/{topic}");
                let retain = message.retain().map(|retain| (retain, self.mirror.known(topic)));
                let (ticket, packet_id, message) = (self.last_ticket, is_once.then_some(packet_id), message.encode());
                let publish = Publish { ticket, refusal_seen, topic, packet_id, retain, message };
                member.publish(now_ms, key, publish).expect("not full");
            }
            FromClient::Release(packet_id) => member.release(now_ms, key, packet_id),
            FromClient::Subscribe { topics, is_member } => {
                let was_member = self.shards.session(client).is_some_and(|session| {
                    let was_member = session.is_member;
                    session.subscribe(topics, is_member);
                    was_member
                });
                if is_member {
                    member.join(now_ms, key, epoch, SHARE);
                } else if was_member {
                    member.part(now_ms, key, epoch, SHARE);
                }
                self.save(now_ms, client, member);
            }
            FromClient::Got(packet_id) => self.shards.acknowledged(now_ms, client, packet_id),
            FromClient::Completed(packet_id) => self.shards.completed(client, packet_id),
            FromClient::Disconnect => {
                let expiry_s = connection.disconnect_options.expiry_s.unwrap_or(u32::MAX);
                ledger.sessions.disconnected(client, epoch);
                member.set_disconnect_settings(key, DisconnectSettings { expiry_s, will: None });
                self.close(now_ms, id, member, false);
            }
            FromClient::Connect { .. } | FromClient::Closed => {}
        }
    }

    /// Ends a connection, and the service of its client with it.
    fn close(&mut self, now_ms: u64, id: ConnectionId, member: &mut Member, is_lost: bool) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.to_clients.push((id, ToClient::Closed));
        let key = SEED.client(&name_of(connection.client));
        if let Some(ticket) = self.claims.iter().find(|(_, (of, _))| *of == id).map(|(ticket, _)| *ticket) {
            self.claims.remove(&ticket);
            member.abandon(now_ms, key, ticket);
        }
        if self.served.get(&key) == Some(&id) {
            self.served.remove(&key);
            let state = self.shards.save(now_ms, connection.client);
            member.leave(now_ms, key, SHARE);
            self.shards.remove(connection.client);
            if let Some((_, state)) = state.filter(|_| !is_lost) {
                member.left(now_ms, key, state);
            }
        }
    }

    /// All connections end when the run of the node ends.
    pub(crate) fn close_all(&mut self) {
        self.to_clients.extend(self.connections.keys().map(|id| (*id, ToClient::Closed)));
        self.to_clients.extend(self.waiting.iter().map(|(id, _)| (*id, ToClient::Closed)));
        self.connections.clear();
        self.waiting.clear();
    }

    pub(crate) fn decide(&mut self, now_ms: u64, decision: Decision, member: &mut Member, ledger: &mut Ledger) {
        match decision {
            Decision::Serve { ticket, client, epoch, is_present, taken, state } => {
                let (id, is_clean) = self.claims.remove(&ticket).expect("a request");
                assert!(is_present || taken.is_empty() && state.is_empty());
                let connection = self.connections.get_mut(&id).expect("its claim would have been abandoned");
                ledger.resumed(connection.client, is_clean, Session::number_of(&state));
                connection.epoch = Some(epoch);
                let terms = terms_of(connection, epoch, ledger);
                member.set_disconnect_settings(client, terms);
                connection.is_present = is_present;
                let of = connection.client;
                self.served.insert(client, id);
                self.shards.serve(now_ms, of, &state);
                if self.shards.session(of).is_some_and(|session| session.is_member) {
                    member.join(now_ms, client, epoch, SHARE);
                }
                // A session begins with a record of that, and CONNACK waits for it.
                self.save(now_ms, of, member);
            }
            Decision::Refuse { ticket, why } => {
                ledger.tally.refused += u64::from(why == tautwire_cluster::Refusal::Unavailable);
                let (id, _) = self.claims.remove(&ticket).expect("a request");
                self.close(now_ms, id, member, false);
            }
            Decision::SessionTakenOver(client) => {
                ledger.tally.takeovers += 1;
                if let Some(id) = self.served.get(&client).copied() {
                    self.close(now_ms, id, member, false);
                }
            }
            Decision::Lost(client) => {
                if let Some(id) = self.served.get(&client).copied() {
                    self.close(now_ms, id, member, true);
                }
            }
            Decision::Stored { ticket, .. } => {
                let (id, packet_id, message) = self.messages.remove(&ticket).expect("a publisher");
                let packet =
                    if message.is_once { ToClient::Received(packet_id) } else { ToClient::Acknowledged(packet_id) };
                if self.answer(id, packet, member.incarnation(), ledger) {
                    ledger.acknowledged(&message);
                }
            }
            Decision::Completed { client, packet_id } => {
                if let Some(id) = self.served.get(&client).copied() {
                    self.answer(id, ToClient::Completed(packet_id), member.incarnation(), ledger);
                }
            }
            Decision::Saved { client, number } => self.saved(client, number, member.incarnation(), ledger),
            Decision::Suspended => ledger.tally.suspended += 1,
            Decision::Begin { next } => self.shards.begin(&next),
            Decision::Arrived(span) => self.shards.arrived(&span),
            Decision::Read { shard, number, span } => self.shards.read(shard, number, span),
            Decision::Joined { client, .. } => {
                let id = self.served.get(&client).and_then(|id| self.connections.get(id));
                if let Some(session) = id.and_then(|of| self.shards.session(of.client)) {
                    // SUBACK is sent when the next state is persisted.
                    (session.has_joined, session.is_changed) = (true, true);
                    self.shards.has_member();
                }
            }
            Decision::Lease { partition, next, open, .. } => {
                ledger.leased(partition, member.incarnation());
                self.shards.lease(now_ms, partition, next, open);
            }
            Decision::Recall { group, partition } => {
                // SUBACK of a member waits for the group's record.
                let (next, open) = self.shards.recall(partition);
                self.returning.push((group, partition, next, open));
            }
            Decision::Unreadable { .. }
            | Decision::InterestSync { .. }
            | Decision::UnreadableNode { .. }
            | Decision::ConfigUnsupported
            | Decision::NotJoined { .. } => {
                unreachable!("all nodes have one version")
            }
            Decision::NotStored { ticket, .. } => {
                let (id, packet_id, message) = self.messages.remove(&ticket).expect("a publisher");
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.refusal_seen = ticket;
                }
                if !can_receive_reason(message.client) {
                    ledger.refused(&message);
                    return self.close(now_ms, id, member, false);
                }
                if self.answer(id, ToClient::Refused(packet_id), member.incarnation(), ledger) {
                    ledger.refused(&message);
                }
            }
            Decision::Retain(changes) => {
                for RetainedChange { record, sequence, expires_at_ms } in changes {
                    let remaining_ms = expires_at_ms.map(|at_ms| at_ms as i64 - now_ms as i64);
                    self.mirror.apply(&record, sequence, remaining_ms, &ledger.retaining, ledger.now_ms);
                }
            }
            Decision::Published { ticket, is_stored } => ledger.own.ended(ticket, is_stored),
            Decision::RetainedSync { ticket } => {
                ledger.tally.keeping.looks += 1;
                self.mirror.sync_retained(ticket);
            }
            Decision::Redirect { ticket, to } => {
                assert!(to.reference.starts_with("node-"));
                let (id, _) = self.claims.remove(&ticket).expect("a request");
                self.close(now_ms, id, member, false);
            }
            Decision::Migrate { client, .. } => {
                ledger.tally.keeping.moved += 1;
                if let Some(id) = self.served.get(&client).copied() {
                    self.close(now_ms, id, member, false);
                }
            }
            Decision::Drained => {
                ledger.tally.keeping.drained += 1;
                assert!(self.served.is_empty(), "a node has ended and serves clients");
                self.close_all();
            }
            Decision::DrainRequested { by, .. } => ledger.peer_commands.carried_out(&by),
            Decision::PeerCommandResult { ticket, outcome } => {
                ledger.tally.keeping.ordered += u64::from(outcome == PeerCommandOutcome::Taken);
                ledger.peer_commands.answered(ticket, outcome);
            }
            Decision::Configure { number, parts } => {
                self.configuration = (number, list_of(&parts));
                member.configured(now_ms, number, true);
            }
            Decision::Proposed { ticket, outcome } => ledger.configurations.decided(ticket, outcome),
            Decision::Resumed => {
                // A node that serves for the first time has everything that was retained when it began, and the configuration.
                if !std::mem::replace(&mut self.has_served, true) {
                    self.mirror.has(&self.floor);
                    let (number, floor) = (self.configuration.0, self.configuration_floor);
                    assert!(floor <= number, "it serves by the configuration {number}, and {floor} held before");
                }
            }
            Decision::Fenced => {
                ledger.tally.fenced += 1;
                self.close_all();
            }
        }
    }

    fn saved(&mut self, client: ClientKey, number: u64, me: Incarnation, ledger: &mut Ledger) {
        let Some(id) = self.served.get(&client).copied() else { return };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        ledger.saved(connection.client, number);
        if !connection.is_confirmed {
            connection.is_confirmed = true;
            let is_present = connection.is_present;
            self.answer(id, ToClient::Connected { is_present }, me, ledger);
        }
        if let Some(session) = self.connections.get(&id).and_then(|of| self.shards.session(of.client)) {
            session.saved(number);
        }
        self.send(me, ledger);
    }

    pub(crate) fn propose(&self, member: &mut Member, ledger: &mut Ledger) {
        let (number, list) = &self.configuration;
        let ticket = ledger.configurations.propose();
        member.propose(ticket, *number, parts_of(&[list, &[ticket][..]].concat()));
    }

    pub(crate) fn settle(&self, retaining: &Retaining) {
        self.mirror.has(&retaining.floor());
    }

    /// Sends a packet to a served client.
    fn answer(&mut self, id: ConnectionId, packet: ToClient, me: Incarnation, ledger: &mut Ledger) -> bool {
        let Some(Connection { client, epoch: Some(epoch), .. }) = self.connections.get(&id) else { return false };
        ledger.served(*client, *epoch, me);
        self.to_clients.push((id, packet));
        true
    }
}

fn terms_of(connection: &Connection, claim: u64, ledger: &mut Ledger) -> DisconnectSettings {
    let DisconnectOptions { expiry_s, will } = connection.disconnect_options;
    let expiry_s = expiry_s.unwrap_or(u32::MAX);
    let will = will.map(|(number, delay_s, topic, retain)| {
        let delay_ms = u64::from(delay_s.min(expiry_s)) * 1000;
        ledger.sessions.given(connection.client, claim, number, delay_ms, ledger.now_ms);
        let client = connection.client;
        let message = Message { client, topic, is_once: false, number, epoch: claim, retain, is_will: true };
        Will { delay_s, topic: format!("topic/{topic}"), retain: message.retain(), message: message.encode() }
    });
    DisconnectSettings { expiry_s, will }
}
