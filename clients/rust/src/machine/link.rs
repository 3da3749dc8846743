//! The state of one connection.

use std::num::{NonZeroU16, NonZeroU32};

use hashbrown::HashMap;
use tautwire_protocol::{ConnAck, Disconnect, Properties, ProtocolVersion, QoS};

use crate::Error;

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Offline,
    /// CONNECT is sent, CONNACK is pending.
    Connecting {
        until_ms: u64,
    },
    Open,
    /// DISCONNECT is sent or the connection has failed: nothing more is sent.
    Closing,
}

/// What the server supports according to its CONNACK (section 3.2.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// QoS 1 and 2 messages that may be in flight to it.
    pub receive_maximum: u16,
    /// The highest QoS.
    pub maximum_qos: QoS,
    /// Whether it supports retained messages.
    pub retain: bool,
    /// The largest packet it accepts, in bytes.
    pub maximum_packet_size_bytes: Option<u32>,
    /// The highest topic alias it accepts.
    pub topic_alias_maximum: u16,
    /// Whether filters may have wildcards.
    pub wildcards: bool,
    /// Whether subscriptions may have identifiers.
    pub subscription_identifiers: bool,
    /// Whether subscriptions may be shared.
    pub shared_subscriptions: bool,
}

impl Default for Offer {
    fn default() -> Self {
        Offer {
            receive_maximum: u16::MAX,
            maximum_qos: QoS::ExactlyOnce,
            retain: true,
            maximum_packet_size_bytes: None,
            topic_alias_maximum: 0,
            wildcards: true,
            subscription_identifiers: true,
            shared_subscriptions: true,
        }
    }
}

impl Offer {
    pub(super) fn from_connack(connack: &ConnAck<'_>, version: ProtocolVersion) -> Offer {
        if !version.is_v5() {
            // Features that a CONNACK of 3.1.1 cannot announce are assumed; identifiers came with 5.0.
            return Offer { subscription_identifiers: false, ..Offer::default() };
        }
        let properties: Properties<'_> = connack.properties;
        Offer {
            receive_maximum: properties.receive_maximum().map_or(u16::MAX, NonZeroU16::get),
            maximum_qos: properties.maximum_qos().unwrap_or(QoS::ExactlyOnce),
            retain: properties.retain_available().unwrap_or(true),
            maximum_packet_size_bytes: properties.maximum_packet_size().map(NonZeroU32::get),
            topic_alias_maximum: properties.topic_alias_maximum().unwrap_or(0),
            wildcards: properties.wildcard_subscription_available().unwrap_or(true),
            subscription_identifiers: properties.subscription_identifier_available().unwrap_or(true),
            shared_subscriptions: properties.shared_subscription_available().unwrap_or(true),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) offer: Offer,
    /// 0 if keep alive is off.
    pub(super) keep_alive_ms: u64,
    pub(super) last_sent_ms: u64,
    last_received_ms: u64,
    pub(super) ping_sent_ms: Option<u64>,
    /// The topics of the aliases that the server has set [MQTT-3.3.2-12].
    pub(super) aliases_in: HashMap<u16, Box<str>>,
    /// The aliases that the server knows [MQTT-3.3.2-11].
    pub(super) aliases_out: HashMap<Box<str>, u16>,
}

impl Link {
    pub(super) fn opened(now_ms: u64) -> Link {
        Link { last_sent_ms: now_ms, last_received_ms: now_ms, ..Link::default() }
    }

    pub(super) fn received(&mut self, now_ms: u64) {
        self.last_received_ms = now_ms;
    }

    /// When a PINGREQ is due: after silence in either direction, so that a dead connection is detected while we
    /// send.
    fn ping_due_ms(&self) -> Option<u64> {
        // A tenth early, so that it arrives within the interval.
        let interval_ms = self.keep_alive_ms - self.keep_alive_ms / 10;
        let since_ms = self.last_sent_ms.min(self.last_received_ms);
        (self.keep_alive_ms > 0 && self.ping_sent_ms.is_none()).then(|| since_ms.saturating_add(interval_ms))
    }

    pub(super) fn ping_is_due(&self, now_ms: u64) -> bool {
        self.ping_due_ms().is_some_and(|due_ms| now_ms >= due_ms)
    }

    /// Nothing is being read, so the PINGRESP may have arrived.
    pub(super) fn forgive_silence(&mut self, now_ms: u64) {
        self.last_received_ms = now_ms;
        if self.ping_sent_ms.is_some() {
            self.ping_sent_ms = Some(now_ms);
        }
    }

    pub(super) fn deadline_ms(&self, phase: Phase, ping_timeout_ms: u64) -> Option<u64> {
        match phase {
            Phase::Connecting { until_ms } => Some(until_ms),
            Phase::Open => match self.ping_sent_ms {
                Some(sent_ms) => Some(sent_ms.saturating_add(ping_timeout_ms)),
                None => self.ping_due_ms(),
            },
            Phase::Offline | Phase::Closing => None,
        }
    }
}

/// The error for a DISCONNECT of the server.
pub(super) fn disconnected(disconnect: &Disconnect<'_>) -> Error {
    Error::Disconnected {
        reason: disconnect.reason,
        text: disconnect.properties.reason_string().map(Into::into),
        server_reference: disconnect.properties.server_reference().map(Into::into),
    }
}
