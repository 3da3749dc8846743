//! The connections to both brokers, and what passes between them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tautwire_protocol::{
    ConnAck, ConnectReason, DecodeOptions, Delivery, Disconnect, DisconnectReason, Packet, PacketId, Properties,
    Property, ProtocolVersion, PubAck, PubComp, PubRec, PubRel, Publish, QoS, ReasonCode, RetainHandling, SubAck,
    Subscribe, SubscriptionOptions, SubscriptionRequest, TopicFilter, TopicName, Unsubscribe, decode,
};

use crate::counters::LinkCounters;
use crate::error::{LinkError, Side};
use crate::half::Half;
use crate::handshake::{CONNECTED, DISCONNECTED, RemoteLimits, connect_local, connect_remote};
use crate::hops;
use crate::rate::TokenBucket;
use crate::settings::LinkSettings;
use crate::translate::{self, Change};

const MS_PER_S: u64 = 1000;
/// Part of the keep alive after which a PINGREQ is sent.
const PING_NUMERATOR: u64 = 3;
const PING_DENOMINATOR: u64 = 4;

/// One attempt to connect both brokers: from the CONNECT to the remote broker until an error or [`Link::close`].
///
/// The owner moves bytes: it passes received bytes to [`Link::handle_input`], sends [`Link::take_output`], reads a side only while
/// [`Link::wants_input`], and calls [`Link::handle_timeout`] at [`Link::next_timeout_ms`]. After an error it closes both connections.
#[derive(Debug)]
pub struct Link {
    settings: Arc<LinkSettings>,
    state: LinkState,
    remote: Half,
    local: Half,
    limits: Option<RemoteLimits>,
    subscriptions: Vec<PendingSubscription>,
    /// Why a broker refused the subscription of a rule.
    refused_rules: Vec<Option<(Side, ReasonCode)>>,
    /// Filters of earlier rules, to unsubscribe from.
    removed_filters: Vec<(Side, String)>,
    /// Outbound messages of QoS 2 that were sent with QoS 1.
    lowered: BTreeSet<PacketId>,
    /// PUBCOMP packets of the local broker that answer [`Link::release_all`].
    releases_pending: u32,
    buckets: [Vec<Option<TokenBucket>>; 2],
    /// Until when a side is not processed because of a rule's rate.
    paused_until_ms: [Option<u64>; 2],
    /// When the remote broker must have answered.
    response_due_ms: Option<u64>,
    local_keep_alive_s: u16,
    /// Whether this broker accepts retained messages.
    has_local_retain: bool,
    topic: String,
    hops: String,
    counters: LinkCounters,
}

/// How far a link has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// The remote broker has not accepted the connection yet.
    ConnectingRemote,
    /// The remote broker has accepted the connection: open the local connection and call [`Link::begin_local`].
    NeedsLocal,
    /// This broker has not accepted the connection yet.
    ConnectingLocal,
    /// Messages are forwarded.
    Connected,
    /// DISCONNECT was sent to both.
    Closed,
}

#[derive(Debug, Clone, Copy)]
struct PendingSubscription {
    side: Side,
    packet_id: PacketId,
    rule: usize,
}

impl Link {
    /// Begins to connect. `clean_start` discards the session at the remote broker, which is necessary after [`LinkError::SessionLost`].
    #[must_use]
    pub fn new(settings: Arc<LinkSettings>, clean_start: bool, now_ms: u64) -> Link {
        let rules = settings.rules.compiled();
        let buckets = || {
            rules.iter().map(|compiled| compiled.rule.rate_per_s.map(|per_s| TokenBucket::new(per_s, now_ms))).collect()
        };
        let mut link = Link {
            state: LinkState::ConnectingRemote,
            remote: Half::new(settings.version, received_packet_max_bytes(&settings), now_ms),
            local: Half::new(ProtocolVersion::V5, u32::MAX, now_ms),
            limits: None,
            subscriptions: Vec::new(),
            refused_rules: vec![None; rules.len()],
            removed_filters: Vec::new(),
            lowered: BTreeSet::new(),
            releases_pending: 0,
            buckets: [buckets(), buckets()],
            paused_until_ms: [None; 2],
            response_due_ms: Some(now_ms + settings.response_timeout_ms),
            local_keep_alive_s: 0,
            has_local_retain: true,
            topic: String::new(),
            hops: String::new(),
            counters: LinkCounters::default(),
            settings,
        };
        connect_remote(&link.settings, clean_start, &mut link.remote);
        link
    }

    /// Unsubscribes from a filter of earlier rules as soon as the link is connected.
    pub fn remove_filter(&mut self, side: Side, filter: String) {
        self.removed_filters.push((side, filter));
    }

    /// How far the link has come.
    #[must_use]
    pub fn state(&self) -> LinkState {
        self.state
    }

    /// Whether messages are forwarded by all rules, because both brokers have answered all subscriptions.
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        self.state == LinkState::Connected && self.subscriptions.is_empty()
    }

    /// What the link has done.
    #[must_use]
    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// For each rule: the broker that refused its subscription, and the reason code.
    #[must_use]
    pub fn refused_rules(&self) -> &[Option<(Side, ReasonCode)>] {
        &self.refused_rules
    }

    /// Begins to connect the local session, after the remote broker has accepted the connection.
    pub fn begin_local(&mut self, now_ms: u64) {
        let (LinkState::NeedsLocal, Some(limits)) = (self.state, &self.limits) else { return };
        connect_local(&self.settings, limits, &mut self.local);
        self.state = LinkState::ConnectingLocal;
        self.response_due_ms = Some(now_ms + self.settings.response_timeout_ms);
    }

    /// Processes received bytes.
    ///
    /// # Errors
    /// The link has ended; close both connections without sending more than the output.
    pub fn handle_input(&mut self, side: Side, bytes: &[u8], now_ms: u64) -> Result<(), LinkError> {
        let half = self.half_mut(side);
        half.received_ms = now_ms;
        half.input.extend_from_slice(bytes);
        if side == Side::Remote {
            self.postpone_response(now_ms);
        }
        self.process(side, now_ms)
    }

    /// Whether to read from a side now.
    #[must_use]
    pub fn wants_input(&self, side: Side) -> bool {
        let is_ready = match side {
            Side::Remote => matches!(self.state, LinkState::ConnectingRemote | LinkState::Connected),
            Side::Local => matches!(self.state, LinkState::ConnectingLocal | LinkState::Connected),
        };
        is_ready && self.paused_until_ms[side as usize].is_none() && self.has_space_for(side)
    }

    /// Whether the packets of a side have space in the output of the other one.
    ///
    /// A broker may stop reading until its own output has been read. If both brokers do so, neither output becomes empty unless the link reads
    /// one of them.
    fn has_space_for(&self, side: Side) -> bool {
        match side {
            Side::Remote => !self.local.is_full(),
            Side::Local => !self.remote.is_full() || (self.local.is_full() && self.remote.has_relief()),
        }
    }

    /// Takes the bytes to send to a side, and gives it `spare` as its next buffer.
    #[must_use]
    pub fn take_output(&mut self, side: Side, spare: Vec<u8>, now_ms: u64) -> Vec<u8> {
        self.half_mut(side).take_output(spare, now_ms)
    }

    /// When to call [`Link::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout_ms(&self) -> Option<u64> {
        let pings = [Side::Remote, Side::Local].map(|side| self.ping_due_ms(side));
        [self.response_due_ms, self.paused_until_ms[0], self.paused_until_ms[1], pings[0], pings[1]]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due: checks answers, sends PINGREQ, ends pauses.
    ///
    /// # Errors
    /// A broker did not answer in time, or as [`Link::handle_input`].
    pub fn handle_timeout(&mut self, now_ms: u64) -> Result<(), LinkError> {
        if !self.wants_input(Side::Remote) {
            // The answer may have arrived, but cannot be read now.
            self.postpone_response(now_ms);
        }
        if self.response_due_ms.is_some_and(|due_ms| due_ms <= now_ms) {
            return Err(match self.state {
                LinkState::ConnectingRemote => LinkError::Timeout(Side::Remote, "CONNACK"),
                LinkState::NeedsLocal | LinkState::ConnectingLocal => LinkError::Timeout(Side::Local, "CONNACK"),
                LinkState::Connected | LinkState::Closed => LinkError::Timeout(Side::Remote, "PINGRESP"),
            });
        }
        for side in [Side::Remote, Side::Local] {
            if self.ping_due_ms(side).is_some_and(|due_ms| due_ms <= now_ms) {
                self.half_mut(side).send(&Packet::PingReq);
                self.half_mut(side).sent_ms = now_ms;
                if side == Side::Remote {
                    self.response_due_ms.get_or_insert(now_ms + self.settings.response_timeout_ms);
                }
            }
            if self.paused_until_ms[side as usize].is_some_and(|until_ms| until_ms <= now_ms) {
                self.paused_until_ms[side as usize] = None;
                self.process(side, now_ms)?;
            }
        }
        Ok(())
    }

    /// Processes input that waited for space in the output of the other side. Call it when output has been sent.
    ///
    /// # Errors
    /// As [`Link::handle_input`].
    pub fn resume(&mut self, now_ms: u64) -> Result<(), LinkError> {
        [Side::Remote, Side::Local].into_iter().try_for_each(|side| {
            if self.half(side).input.is_empty() || !self.wants_input(side) {
                Ok(())
            } else {
                self.process(side, now_ms)
            }
        })
    }

    /// Ends the link as intended: the remote broker is told with DISCONNECT, and the statuses become `0`. Both sessions remain.
    pub fn close(&mut self, now_ms: u64) {
        if self.state == LinkState::Connected {
            self.publish_status(DISCONNECTED);
        }
        if !matches!(self.state, LinkState::ConnectingRemote | LinkState::Closed) {
            self.remote.send(&Disconnect::new(DisconnectReason::NormalDisconnection).into());
        }
        if matches!(self.state, LinkState::ConnectingLocal | LinkState::Connected) {
            self.local.send(&Disconnect::new(DisconnectReason::NormalDisconnection).into());
        }
        self.state = LinkState::Closed;
        self.response_due_ms = Some(now_ms + self.settings.response_timeout_ms);
    }

    /// Processes the input of a side as far as possible now.
    fn process(&mut self, side: Side, now_ms: u64) -> Result<(), LinkError> {
        let input = std::mem::take(&mut self.half_mut(side).input);
        let mut processed = 0;
        let result = loop {
            if !self.wants_input(side) || processed == input.len() {
                break Ok(());
            }
            let half = self.half(side);
            let options = DecodeOptions { version: half.version, max_packet_size: half.packet_max_bytes };
            let (packet, length) = match decode(&input[processed..], &options) {
                Ok(decoded) => decoded,
                Err(error) if error.is_incomplete() => break Ok(()),
                Err(error) => break Err(LinkError::Invalid(side, error)),
            };
            let handled = match side {
                Side::Remote => self.handle_remote(packet, now_ms),
                Side::Local => self.handle_local(packet, now_ms),
            };
            match handled {
                Ok(Handled::Done) => processed += length,
                Ok(Handled::Later) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.half_mut(side).restore_input(input, processed);
        if side == Side::Remote && processed > 0 {
            self.postpone_response(now_ms);
        }
        result
    }

    /// Gives the remote broker more time for PINGRESP, which may be behind many messages on a slow connection.
    fn postpone_response(&mut self, now_ms: u64) {
        if self.state == LinkState::Connected && self.response_due_ms.is_some() {
            self.response_due_ms = Some(now_ms + self.settings.response_timeout_ms);
        }
    }

    fn handle_remote(&mut self, packet: Packet<'_>, now_ms: u64) -> Result<Handled, LinkError> {
        if self.state == LinkState::ConnectingRemote {
            let Packet::ConnAck(connack) = packet else { return Err(unexpected(Side::Remote, &packet)) };
            return self.remote_accepted(&connack, now_ms);
        }
        match packet {
            Packet::Publish(message) => return self.forward_in(&message, now_ms),
            Packet::PubAck(_) | Packet::PubRec(_) => {
                self.counters.refused_out += u64::from(is_refusal(&packet));
                match packet {
                    Packet::PubAck(ack) if self.lowered.remove(&ack.packet_id) => {
                        self.local.send(&translate::pubrec_of(&ack).into());
                    }
                    packet => self.local.send(&packet),
                }
            }
            Packet::PubRel(_) | Packet::PubComp(_) => self.local.send(&packet),
            Packet::SubAck(ack) => self.subscribed(Side::Remote, &ack),
            Packet::UnsubAck(_) => {}
            Packet::PingResp => self.response_due_ms = None,
            Packet::Disconnect(disconnect) => return Err(disconnected(Side::Remote, &disconnect)),
            packet => return Err(unexpected(Side::Remote, &packet)),
        }
        Ok(Handled::Done)
    }

    fn handle_local(&mut self, packet: Packet<'_>, now_ms: u64) -> Result<Handled, LinkError> {
        if self.state == LinkState::ConnectingLocal {
            let Packet::ConnAck(connack) = packet else { return Err(unexpected(Side::Local, &packet)) };
            return self.local_accepted(&connack, now_ms);
        }
        match packet {
            Packet::Publish(message) => return self.forward_out(&message, now_ms),
            Packet::PubAck(_) | Packet::PubRec(_) => {
                self.counters.refused_in += u64::from(is_refusal(&packet));
                self.acknowledge_remote(packet);
            }
            Packet::PubComp(_) if self.releases_pending > 0 => self.releases_pending -= 1,
            Packet::PubRel(release) if self.maximum_qos() < QoS::ExactlyOnce => {
                self.local.send(&PubComp::success(release.packet_id).into());
            }
            Packet::PubRel(_) | Packet::PubComp(_) => self.acknowledge_remote(packet),
            Packet::SubAck(ack) => self.subscribed(Side::Local, &ack),
            Packet::UnsubAck(_) | Packet::PingResp => {}
            Packet::Disconnect(disconnect) => return Err(disconnected(Side::Local, &disconnect)),
            packet => return Err(unexpected(Side::Local, &packet)),
        }
        Ok(Handled::Done)
    }

    fn remote_accepted(&mut self, connack: &ConnAck<'_>, now_ms: u64) -> Result<Handled, LinkError> {
        check(Side::Remote, connack)?;
        self.limits = Some(RemoteLimits::new(connack, &self.settings));
        self.state = LinkState::NeedsLocal;
        self.response_due_ms = Some(now_ms + self.settings.response_timeout_ms);
        Ok(Handled::Done)
    }

    fn local_accepted(&mut self, connack: &ConnAck<'_>, now_ms: u64) -> Result<Handled, LinkError> {
        check(Side::Local, connack)?;
        let has_remote_session = self.limits.is_some_and(|limits| limits.session_present);
        match (connack.session_present, has_remote_session) {
            // Its Packet Identifiers may be in use at the remote broker, which would take new messages for repetitions.
            (false, true) => return Err(LinkError::SessionLost),
            (true, false) => self.release_all(),
            _ => {}
        }
        self.local_keep_alive_s = connack.properties.server_keep_alive().unwrap_or(0);
        self.has_local_retain = connack.properties.retain_available().unwrap_or(true);
        self.state = LinkState::Connected;
        self.response_due_ms = None;
        self.subscribe();
        self.publish_status(CONNECTED);
        self.process(Side::Remote, now_ms)?;
        Ok(Handled::Done)
    }

    /// Makes the local session forget received QoS 2 messages: the remote broker has lost its session and may use their Packet Identifiers for
    /// new messages. The answer to an unknown identifier is harmless [MQTT-4.3.3-11].
    fn release_all(&mut self) {
        for packet_id in (1..=u16::MAX).filter_map(PacketId::new) {
            self.local.send(&PubRel::success(packet_id).into());
            self.releases_pending += 1;
        }
    }

    /// Subscribes at both brokers. The Packet Identifiers are counted down, because those of messages are usually counted up.
    fn subscribe(&mut self) {
        let settings = self.settings.clone();
        let mut packet_ids = (1..=u16::MAX).rev().filter_map(PacketId::new);
        for (side, filter) in std::mem::take(&mut self.removed_filters) {
            let (Some(packet_id), Ok(filter)) = (packet_ids.next(), TopicFilter::new(&filter)) else { continue };
            let filters = [filter];
            self.half_mut(side).send(&Packet::Unsubscribe(Unsubscribe {
                packet_id,
                properties: Properties::EMPTY,
                filters: (&filters[..]).into(),
            }));
        }
        for (rule, compiled) in settings.rules.compiled().iter().enumerate() {
            for side in [Side::Remote, Side::Local] {
                let (applies, filter) = match side {
                    Side::Remote => (compiled.rule.direction.is_in(), &compiled.remote_filter),
                    Side::Local => (compiled.rule.direction.is_out(), &compiled.local_filter),
                };
                if !applies {
                    continue;
                }
                let (Some(packet_id), Ok(filter)) = (packet_ids.next(), TopicFilter::new(filter)) else { continue };
                let is_v5 = self.half(side).version.is_v5();
                let options = if is_v5 {
                    SubscriptionOptions {
                        qos: compiled.rule.qos,
                        no_local: true,
                        retain_as_published: true,
                        retain_handling: RetainHandling::SendIfNew,
                    }
                } else {
                    SubscriptionOptions::with_qos(compiled.rule.qos)
                };
                let id = [Property::SubscriptionIdentifier(compiled.subscription_id)];
                let requests = [SubscriptionRequest { filter, options }];
                self.half_mut(side).send(&Packet::Subscribe(Subscribe {
                    packet_id,
                    properties: if side == Side::Local { Properties::from_list(&id) } else { Properties::EMPTY },
                    requests: (&requests[..]).into(),
                }));
                self.subscriptions.push(PendingSubscription { side, packet_id, rule });
            }
        }
    }

    fn subscribed(&mut self, side: Side, ack: &SubAck<'_>) {
        let is_of = |pending: &PendingSubscription| pending.side == side && pending.packet_id == ack.packet_id;
        let Some(at) = self.subscriptions.iter().position(is_of) else { return };
        let rule = self.subscriptions.swap_remove(at).rule;
        if let Some(reason) = ack.reasons.iter().find(|reason| reason.is_error()) {
            self.refused_rules[rule] = Some((side, reason.into()));
        }
    }

    /// Publishes the status at both brokers with QoS 0, so that it needs no Packet Identifier.
    fn publish_status(&mut self, status: &'static [u8]) {
        let settings = self.settings.clone();
        for (side, topic) in [(Side::Local, &settings.status.local), (Side::Remote, &settings.status.remote)] {
            if let Some(topic) = topic.as_deref().and_then(|topic| TopicName::new(topic).ok()) {
                self.half_mut(side).send(&Packet::Publish(Publish {
                    delivery: Delivery::AtMostOnce,
                    retain: true,
                    topic: Some(topic),
                    properties: Properties::EMPTY,
                    payload: status,
                }));
            }
        }
    }

    /// Forwards a message of this broker, or drops and acknowledges it.
    fn forward_out(&mut self, message: &Publish<'_>, now_ms: u64) -> Result<Handled, LinkError> {
        // The link accepts no Topic Alias, so there is a topic.
        let Some(topic) = message.topic else { return Err(LinkError::Unexpected(Side::Local, "a Topic Alias")) };
        let settings = self.settings.clone();
        let limits = self.limits.unwrap_or_else(|| unreachable!("the remote broker was connected first"));
        let Some(rule) = settings.rules.outbound(message.properties.subscription_identifiers(), topic.as_str()) else {
            return Ok(self.drop_message(Side::Local, message.delivery, DropReason::Unmatched));
        };
        if self.is_rate_limited(Side::Local, rule, now_ms) {
            return Ok(Handled::Later);
        }
        if hops::append_out(hops::hops_of(&message.properties), &settings, &mut self.hops).is_err() {
            return Ok(self.drop_message(Side::Local, message.delivery, DropReason::Looped));
        }
        let compiled = &settings.rules.compiled()[rule];
        let Some(topic) = compiled.remote_topic(topic.as_str(), &mut self.topic) else {
            return Ok(self.drop_message(Side::Local, message.delivery, DropReason::Unmappable));
        };
        let qos = message.qos().min(compiled.rule.qos).min(limits.maximum_qos);
        let retain = message.retain && compiled.rule.keeps_retain && limits.is_retain_available;
        let change = Change { topic, qos, retain, hops: &self.hops, packet_max_bytes: limits.packet_max_bytes };
        if !translate::publish(message, change, &mut self.remote) {
            return Ok(self.drop_message(Side::Local, message.delivery, DropReason::Unmappable));
        }
        self.counters.messages_out += 1;
        match (message.delivery, qos) {
            (Delivery::ExactlyOnce { packet_id, .. }, QoS::AtLeastOnce) => {
                self.lowered.insert(packet_id);
            }
            (delivery, QoS::AtMostOnce) => acknowledge(&mut self.local, delivery),
            _ => {}
        }
        Ok(Handled::Done)
    }

    /// Passes a message of the remote broker to this one, or drops and acknowledges it.
    fn forward_in(&mut self, message: &Publish<'_>, now_ms: u64) -> Result<Handled, LinkError> {
        let Some(topic) = message.topic else { return Err(LinkError::Unexpected(Side::Remote, "a Topic Alias")) };
        let settings = self.settings.clone();
        if hops::append_in(hops::hops_of(&message.properties), &settings, &mut self.hops).is_err() {
            return Ok(self.drop_message(Side::Remote, message.delivery, DropReason::Looped));
        }
        let Some(rule) = settings.rules.inbound(topic.as_str()) else {
            return Ok(self.drop_message(Side::Remote, message.delivery, DropReason::Unmatched));
        };
        if self.is_rate_limited(Side::Remote, rule, now_ms) {
            return Ok(Handled::Later);
        }
        let compiled = &settings.rules.compiled()[rule];
        let Some(topic) = compiled.local_topic(topic.as_str(), &mut self.topic) else {
            return Ok(self.drop_message(Side::Remote, message.delivery, DropReason::Unmappable));
        };
        let retain = message.retain && compiled.rule.keeps_retain && self.has_local_retain;
        let packet_max_bytes = settings.local.packet_max_bytes;
        let change = Change { topic, qos: message.qos(), retain, hops: &self.hops, packet_max_bytes };
        if !translate::publish(message, change, &mut self.local) {
            return Ok(self.drop_message(Side::Remote, message.delivery, DropReason::Unmappable));
        }
        self.counters.messages_in += 1;
        Ok(Handled::Done)
    }

    /// Counts and acknowledges a message that is not forwarded.
    fn drop_message(&mut self, from: Side, delivery: Delivery, reason: DropReason) -> Handled {
        match reason {
            DropReason::Unmatched => self.counters.unmatched += 1,
            DropReason::Looped => self.counters.looped += 1,
            DropReason::Unmappable => self.counters.unmappable += 1,
        }
        acknowledge(self.half_mut(from), delivery);
        Handled::Done
    }

    fn is_rate_limited(&mut self, side: Side, rule: usize, now_ms: u64) -> bool {
        let Some(Some(bucket)) = self.buckets[side as usize].get_mut(rule) else { return false };
        let Err(until_ms) = bucket.take(now_ms) else { return false };
        self.paused_until_ms[side as usize] = Some(until_ms);
        self.counters.rate_pauses += 1;
        true
    }

    fn acknowledge_remote(&mut self, packet: Packet<'_>) {
        let version = self.remote.version;
        self.remote.send(&translate::acknowledgement(packet, version));
    }

    fn maximum_qos(&self) -> QoS {
        self.limits.map_or(QoS::ExactlyOnce, |limits| limits.maximum_qos)
    }

    /// When the next PINGREQ is due. A remote broker from which nothing was received is tested too, so a dead connection is noticed
    /// while messages are sent.
    fn ping_due_ms(&self, side: Side) -> Option<u64> {
        if self.state != LinkState::Connected {
            return None;
        }
        let (since_ms, keep_alive_s) = match side {
            // The remote broker must hear from the link although its answer is late.
            Side::Remote if self.response_due_ms.is_some() => (self.remote.sent_ms, self.limits?.keep_alive_s),
            Side::Remote => (self.remote.sent_ms.min(self.remote.received_ms), self.limits?.keep_alive_s),
            Side::Local => (self.local.sent_ms, self.local_keep_alive_s),
        };
        let interval_ms = u64::from(keep_alive_s) * MS_PER_S * PING_NUMERATOR / PING_DENOMINATOR;
        (interval_ms > 0).then(|| since_ms + interval_ms)
    }

    fn half(&self, side: Side) -> &Half {
        match side {
            Side::Remote => &self.remote,
            Side::Local => &self.local,
        }
    }

    fn half_mut(&mut self, side: Side) -> &mut Half {
        match side {
            Side::Remote => &mut self.remote,
            Side::Local => &mut self.local,
        }
    }
}

/// Whether a packet was processed.
enum Handled {
    Done,
    /// The packet waits; the side is paused.
    Later,
}

/// Why a message is not forwarded.
#[derive(Debug, Clone, Copy)]
enum DropReason {
    /// No rule applies to its topic.
    Unmatched,
    /// It has passed this broker already, or too many bridges.
    Looped,
    /// With the other prefix its topic is invalid, or it is too large for the receiver.
    Unmappable,
}

/// Whether a PUBACK or PUBREC refuses its message.
fn is_refusal(packet: &Packet<'_>) -> bool {
    match packet {
        Packet::PubAck(ack) => ack.reason.is_error(),
        Packet::PubRec(ack) => ack.reason.is_error(),
        _ => false,
    }
}

/// The largest packet that is read from the remote broker. Before MQTT 5.0 it cannot be told, so larger ones are read and dropped.
fn received_packet_max_bytes(settings: &LinkSettings) -> u32 {
    if settings.version.is_v5() { settings.local.packet_max_bytes } else { u32::MAX }
}

/// Acknowledges a message that is not forwarded, or was forwarded with QoS 0.
fn acknowledge(to: &mut Half, delivery: Delivery) {
    match delivery {
        Delivery::AtMostOnce => {}
        Delivery::AtLeastOnce { packet_id, .. } => to.send(&PubAck::success(packet_id).into()),
        Delivery::ExactlyOnce { packet_id, .. } => to.send(&PubRec::success(packet_id).into()),
    }
}

fn check(side: Side, connack: &ConnAck<'_>) -> Result<(), LinkError> {
    match connack.reason {
        ConnectReason::Success => Ok(()),
        reason => Err(LinkError::Refused(side, reason, connack.properties.reason_string().map(Box::from))),
    }
}

fn disconnected(side: Side, disconnect: &Disconnect<'_>) -> LinkError {
    LinkError::Disconnected(side, disconnect.reason, disconnect.properties.reason_string().map(Box::from))
}

fn unexpected(side: Side, packet: &Packet<'_>) -> LinkError {
    LinkError::Unexpected(side, packet.packet_type().name())
}
