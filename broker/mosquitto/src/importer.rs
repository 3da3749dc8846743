//! Converts a parsed file to broker state.

use std::collections::{BTreeMap, HashMap};

use tautwire_protocol::{PacketId, QoS, RetainHandling, SubscriptionId, SubscriptionOptions, TopicFilter};
use tautwire_session::{
    Change, PendingMessage, Record, Replay, RetainedChange, SessionNumber, SubscriptionIds, SubscriptionRecord,
    session_name,
};

use crate::database::{Client, Database, Delivery, Direction, State, Subscription};
use crate::imported_state::ImportedState;
use crate::messages::{Messages, subscription_ids, text};
use crate::report::{Reason, Report};
use crate::unreleased::Unreleased;

/// The times of an import.
#[derive(Debug, Clone, Copy)]
pub struct ImportTime {
    /// Now, in milliseconds of Unix time.
    pub now_ms: u64,
    /// When the file was written: clients that were connected count as offline since then.
    pub written_at_ms: u64,
    /// Drawn at random, for the identifiers of messages.
    pub run: u64,
}

/// The result of an import.
#[derive(Debug)]
pub struct Import {
    /// The state, for an empty data directory.
    pub state: Replay,
    /// What was imported and what was skipped.
    pub report: Report,
}

/// The `mount_point` of each listener that has one, by its port.
pub type MountPoints = BTreeMap<u16, String>;

/// The client identifiers of bridges: those of their sessions in Mosquitto, with the new ones.
pub type BridgeSessions = BTreeMap<String, String>;

/// Imports the sessions and retained messages of Mosquitto. Items that cannot be imported are skipped and reported; they are never an
/// error.
pub fn import_database(
    database: &Database<'_>,
    import_time: ImportTime,
    mount_points: &MountPoints,
    bridges: &BridgeSessions,
) -> Import {
    let mut importer = Importer {
        imported: ImportedState::default(),
        sessions: HashMap::new(),
        messages: Messages::new(&database.messages, import_time.now_ms, import_time.run),
        import_time,
    };
    importer.imported.report.skip_unnamed(Reason::UnknownChunk, database.unknown_chunks);
    for client in &database.clients {
        importer.client(client, mount_points, bridges);
    }
    let mut unreleased = Unreleased::default();
    for subscription in &database.subscriptions {
        if let Some((session, filter, record)) = importer.subscription(subscription) {
            unreleased.add_candidate(session, filter, record);
        }
    }
    for delivery in &database.deliveries {
        match delivery.direction {
            Direction::ToClient => importer.outgoing(delivery),
            Direction::FromClient => importer.incoming(delivery, &mut unreleased),
        }
    }
    for number in &database.retained {
        importer.retain(*number);
    }
    unreleased.publish(&mut importer.imported);
    for client in &database.clients {
        importer.skip(client);
    }
    Import { state: importer.imported.replay, report: importer.imported.report }
}

/// An import in progress.
struct Importer<'d, 'a> {
    imported: ImportedState,
    /// The imported sessions, by Client Identifier.
    sessions: HashMap<&'a [u8], SessionNumber>,
    messages: Messages<'d, 'a>,
    import_time: ImportTime,
}

impl<'a> Importer<'_, 'a> {
    fn client(&mut self, client: &Client<'a>, mount_points: &MountPoints, bridges: &BridgeSessions) {
        let name = text(client.id).filter(|id| !id.is_empty() && !self.sessions.contains_key(client.id));
        let Some(client_id) = name else { return self.imported.report.skip(Reason::InvalidClient, client.id) };
        let bridge = bridges.get(client_id);
        // If the interval is unlimited, a time exists only because persistent_client_expiration limits it.
        let expiry_interval_s = match client.expires_at_s {
            // Mosquitto stores no interval for its bridges.
            _ if bridge.is_some() => u32::MAX,
            0 => client.expiry_interval_s,
            at_s if at_s.saturating_mul(1000) <= self.import_time.now_ms => {
                return self.imported.report.skip(Reason::SessionExpired, client.id);
            }
            at_s if client.expiry_interval_s == u32::MAX => {
                u32::try_from(at_s.saturating_sub(self.offline_since_ms(client) / 1000)).unwrap_or(u32::MAX)
            }
            _ => client.expiry_interval_s,
        };
        if expiry_interval_s == 0 {
            return self.imported.report.skip(Reason::CleanSession, client.id);
        }
        let number = SessionNumber(self.sessions.len() as u64 + 1);
        let mount_point = mount_points.get(&client.port).map(String::as_str).filter(|_| bridge.is_none());
        let client_id = &*session_name(mount_point, bridge.map_or(client_id, String::as_str));
        let opened = Record::Opened { session: number, client_id, at_ms: self.import_time.written_at_ms };
        if self.imported.replay.apply(&opened).is_ok() {
            self.sessions.insert(client.id, number);
            self.imported.change(number, Change::ExpiryInterval(expiry_interval_s));
            self.imported.report.sessions += 1;
        }
    }

    /// Since when a client is offline, as far as known.
    fn offline_since_ms(&self, client: &Client<'a>) -> u64 {
        let is_bounded = client.expires_at_s > 0 && client.expiry_interval_s < u32::MAX;
        let disconnected_at_s = client.expires_at_s.saturating_sub(u64::from(client.expiry_interval_s));
        if is_bounded { disconnected_at_s.saturating_mul(1000) } else { self.import_time.written_at_ms }
    }

    fn subscription(
        &mut self,
        subscription: &Subscription<'a>,
    ) -> Option<(SessionNumber, &'a str, SubscriptionRecord)> {
        let session = self.session(subscription.client)?;
        let Some((filter, record)) = record_of(subscription) else {
            self.imported.report.skip(Reason::InvalidSubscription, subscription.filter);
            return None;
        };
        self.imported.change(session, Change::Subscribed(filter.into(), record));
        self.imported.report.subscriptions += 1;
        Some((session, filter, record))
    }

    fn outgoing(&mut self, delivery: &Delivery<'a>) {
        let Some(session) = self.session(delivery.client) else { return };
        let id = PacketId::new(delivery.packet_id).filter(|id| !self.imported.is_in_use(session, *id));
        match (delivery.state, id) {
            (None | Some(State::Unreleased | State::Complete), _) => {
                self.imported.report.skip(Reason::UnknownState, delivery.client);
            }
            (Some(State::Released), Some(id)) => {
                self.imported.set_next_packet_id(session, id);
                if self.imported.change_with(session, Change::AwaitingPubComp(id), Some(id)) {
                    self.imported.report.in_flight += 1;
                }
            }
            // The client may know the message by another identifier, so the exchange cannot continue.
            (Some(State::Released), None) => self.imported.report.skip(Reason::UnknownState, delivery.client),
            (Some(state), id) => {
                let Some(pending) = self.pending(delivery) else { return };
                let was_sent = state == State::Sent || state == State::Publish && delivery.duplicate;
                match id.filter(|_| was_sent) {
                    Some(id) => self.imported.sent(session, id, pending),
                    None => self.imported.queue(session, pending),
                }
            }
        }
    }

    fn pending(&mut self, delivery: &Delivery<'a>) -> Option<PendingMessage> {
        let topic = self.messages.topic(delivery.message);
        let qos = match QoS::from_u8(delivery.qos) {
            Some(QoS::AtMostOnce) => Err(Reason::AtMostOnce),
            Some(qos) => Ok(qos),
            None => Err(Reason::InvalidMessage),
        };
        let ids = subscription_ids(delivery.properties).ok_or(Reason::InvalidMessage);
        let made = qos.and_then(|qos| Ok((qos, ids?, self.messages.get(delivery.message)?)));
        match made {
            Ok((qos, ids, message)) => Some(PendingMessage {
                message: message.into(),
                qos,
                retain: delivery.retain,
                subscription_ids: SubscriptionIds::from(&ids[..]),
                share: None,
            }),
            Err(reason) => {
                self.imported.report.skip(reason, topic);
                None
            }
        }
    }

    fn incoming(&mut self, delivery: &Delivery<'a>, unreleased: &mut Unreleased<'a>) {
        let Some(session) = self.session(delivery.client) else { return };
        match (delivery.state, PacketId::new(delivery.packet_id)) {
            (Some(State::Unreleased), Some(id)) => {
                let held = self.imported.replay.session_of(session).and_then(|replayed| replayed.session.held());
                if held.is_some_and(|held| held.contains(id)) {
                    return self.imported.report.skip(Reason::UnknownState, delivery.client);
                }
                // The message has been acknowledged in any case.
                self.imported.change(session, Change::Taken(id));
                self.imported.report.unreleased += 1;
                match self.messages.get(delivery.message) {
                    Ok(message) => unreleased.add(session, message),
                    Err(reason) => self.imported.report.skip(reason, self.messages.topic(delivery.message)),
                }
            }
            (Some(State::Queued), _) => self.imported.report.skip(Reason::Unacknowledged, delivery.client),
            // A retransmitted PUBREL is answered without it.
            (Some(State::Complete), _) => {}
            _ => self.imported.report.skip(Reason::UnknownState, delivery.client),
        }
    }

    fn retain(&mut self, number: u64) {
        match self.messages.get(number) {
            Ok(message) => {
                self.imported.report.retained += 1;
                self.imported.set_retained(RetainedChange::Set(message));
            }
            Err(reason) => self.imported.report.skip(reason, self.messages.topic(number)),
        }
    }

    /// The client is offline. Its next message gets the identifier after the last one, which the client may still hold.
    fn skip(&mut self, client: &Client<'a>) {
        let Some(session) = self.sessions.get(client.id).copied() else { return };
        if client.last_packet_id > 0 {
            let ids = (client.last_packet_id..=u16::MAX).skip(1).chain(1..=client.last_packet_id);
            let free = ids.filter_map(PacketId::new).find(|id| !self.imported.is_in_use(session, *id));
            free.into_iter().for_each(|id| self.imported.set_next_packet_id(session, id));
        }
        // A time in the future is from another clock.
        let at_ms = self.offline_since_ms(client).min(self.import_time.now_ms);
        let is_applied = self.imported.replay.apply(&Record::Left { session, at_ms }).is_ok();
        debug_assert!(is_applied, "the session exists");
    }

    /// The session of a client. If there is none, the skipped item is reported.
    fn session(&mut self, client: &[u8]) -> Option<SessionNumber> {
        let session = self.sessions.get(client).copied();
        if session.is_none() {
            self.imported.report.skip(Reason::SessionMissing, client);
        }
        session
    }
}

fn record_of<'a>(subscription: &Subscription<'a>) -> Option<(&'a str, SubscriptionRecord)> {
    let filter = TopicFilter::new(text(subscription.filter)?).ok()?;
    let identifier = match subscription.identifier {
        0 => None,
        number => Some(SubscriptionId::new(number)?),
    };
    let bits = subscription.options;
    let options = SubscriptionOptions {
        qos: QoS::from_u8(subscription.qos)?,
        // Not allowed on a shared subscription [MQTT-3.8.3-4].
        no_local: bits & 0x04 != 0 && filter.share().is_none(),
        retain_as_published: bits & 0x08 != 0,
        retain_handling: RetainHandling::from_u8(bits >> 4 & 0b11)?,
    };
    Some((filter.as_str(), SubscriptionRecord { options, identifier, format: None }))
}
