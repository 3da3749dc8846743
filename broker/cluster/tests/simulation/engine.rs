//! What stands for a node's engine: connections, and what they tell the node and their clients.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU16;

use tautwire_cluster::names::{ClientKey, Incarnation, Seed};
use tautwire_cluster::{Decision, Member, Start};

use crate::client::{FromClient, ToClient};
use crate::ledger::{Ledger, Message};

pub(crate) const SEED: Seed = Seed([9; 16]);

/// A connection, in the whole run.
pub(crate) type ConnectionId = u64;

#[derive(Default)]
pub(crate) struct Engine {
    connections: BTreeMap<ConnectionId, Connection>,
    /// Which connection has a client that is served.
    served: BTreeMap<ClientKey, ConnectionId>,
    /// What came while nothing was read.
    waiting: VecDeque<(ConnectionId, FromClient)>,
    /// Who asked for a session.
    claims: BTreeMap<u64, (ConnectionId, bool)>,
    /// Which message a ticket stands for.
    messages: BTreeMap<u64, (ConnectionId, NonZeroU16, Message)>,
    last_ticket: u64,
    pub(crate) to_clients: Vec<(ConnectionId, ToClient)>,
}

struct Connection {
    client: usize,
    epoch: Option<u64>,
    is_confirmed: bool,
    /// Stands for all that a session has: it grows.
    state: u64,
    is_present: bool,
}

pub(crate) fn name_of(client: usize) -> String {
    format!("client-{client}")
}

impl Engine {
    pub(crate) fn receive(&mut self, connection: ConnectionId, packet: FromClient) {
        self.waiting.push_back((connection, packet));
    }

    /// Reads the next packet that has come, if the node may serve.
    pub(crate) fn read_next(&mut self, now_ms: u64, member: &mut Member, ledger: &mut Ledger) -> bool {
        if !member.is_serving(now_ms) {
            return false;
        }
        let Some((connection, packet)) = self.waiting.pop_front() else { return false };
        self.read(now_ms, connection, packet, member, ledger);
        true
    }

    /// Sends something to all clients that are served: there may be messages for them at any moment.
    pub(crate) fn deliver(&self, now_ms: u64, member: &Member, ledger: &mut Ledger) {
        for connection in self.served.values().filter_map(|id| self.connections.get(id)) {
            if let Some(epoch) = connection.epoch
                && member.is_serving(now_ms)
            {
                ledger.served(connection.client, epoch, member.incarnation());
            }
        }
    }

    fn read(&mut self, now_ms: u64, id: ConnectionId, packet: FromClient, member: &mut Member, ledger: &mut Ledger) {
        if let FromClient::Connect { client, is_clean } = packet {
            let connection = Connection { client, epoch: None, is_confirmed: false, state: 0, is_present: false };
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
        let key = SEED.client(&name_of(connection.client));
        ledger.served(connection.client, epoch, member.incarnation());
        match packet {
            FromClient::Publish { packet_id, topic, is_once, number } => {
                let message = Message { client: connection.client, topic, is_once, number, epoch };
                self.last_ticket += 1;
                self.messages.insert(self.last_ticket, (id, packet_id, message));
                if number % 3 == 0 {
                    connection.state += 1;
                    member.save(now_ms, key, connection.state, connection.state.to_le_bytes().to_vec());
                }
                let once = is_once.then_some(packet_id);
                let topic = format!("topic/{topic}");
                member.publish(now_ms, key, self.last_ticket, &topic, once, message.encode()).expect("there is room");
            }
            FromClient::Release(packet_id) => member.release(now_ms, key, packet_id),
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
            if !is_lost {
                member.left(now_ms, key, connection.state.to_le_bytes().to_vec());
            }
        }
    }

    /// All connections end with the node's life.
    pub(crate) fn close_all(&mut self) {
        self.to_clients.extend(self.connections.keys().map(|id| (*id, ToClient::Closed)));
        self.to_clients.extend(self.waiting.iter().map(|(id, _)| (*id, ToClient::Closed)));
        self.connections.clear();
        self.waiting.clear();
    }

    pub(crate) fn decide(&mut self, now_ms: u64, decision: Decision, member: &mut Member, ledger: &mut Ledger) {
        match decision {
            Decision::Serve { ticket, client, epoch, is_present, taken, state } => {
                let (id, is_clean) = self.claims.remove(&ticket).expect("somebody asked");
                assert!(is_present || taken.is_empty() && state.is_empty());
                let state = state.try_into().ok().map(u64::from_le_bytes);
                let connection = self.connections.get_mut(&id).expect("its claim would have been abandoned");
                ledger.resumed(connection.client, is_clean, state);
                connection.epoch = Some(epoch);
                connection.is_present = is_present;
                // A session begins with a record that says so, and CONNACK waits for it.
                connection.state = state.unwrap_or_default() + 1;
                let (number, state) = (connection.state, connection.state.to_le_bytes().to_vec());
                self.served.insert(client, id);
                member.save(now_ms, client, number, state);
            }
            Decision::Refuse { ticket, why } => {
                ledger.tally.refused += u64::from(why == tautwire_cluster::Refusal::Unavailable);
                let (id, _) = self.claims.remove(&ticket).expect("somebody asked");
                self.close(now_ms, id, member, false);
            }
            Decision::Surrender(client) => {
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
                let (id, packet_id, message) = self.messages.remove(&ticket).expect("somebody published");
                let packet =
                    if message.is_once { ToClient::Received(packet_id) } else { ToClient::Acknowledged(packet_id) };
                if self.answer(id, packet, member.incarnation(), ledger) {
                    ledger.acknowledged(message.client, message.number);
                }
            }
            Decision::Completed { client, packet_id } => {
                if let Some(id) = self.served.get(&client).copied() {
                    self.answer(id, ToClient::Completed(packet_id), member.incarnation(), ledger);
                }
            }
            Decision::Saved { client, number } => self.saved(client, number, member.incarnation(), ledger),
            Decision::Suspended => ledger.tally.suspended += 1,
            Decision::Begin { .. } | Decision::Arrived(_) | Decision::Read { .. } | Decision::Unreadable { .. } => {}
            Decision::Resumed => {}
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
    }

    /// Sends a packet to a client that is served.
    fn answer(&mut self, id: ConnectionId, packet: ToClient, me: Incarnation, ledger: &mut Ledger) -> bool {
        let Some(Connection { client, epoch: Some(epoch), .. }) = self.connections.get(&id) else { return false };
        ledger.served(*client, *epoch, me);
        self.to_clients.push((id, packet));
        true
    }
}
