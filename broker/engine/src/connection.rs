//! What a shard holds for one network connection.

use std::collections::{HashMap, VecDeque};

use tautwire_message::{Format, Message};
use tautwire_protocol::{ProtocolVersion, QoS, SubscriptionId};
use tautwire_router::Scan;
use tautwire_session::LogPosition;

use crate::ack::Ack;
use crate::frames::Alias;
use crate::output::Output;

/// A connection's place in its shard. The generation tells it from a later one in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    /// The place.
    pub index: u32,
    /// How often the place has been taken.
    pub generation: u32,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The place is free.
    Vacant,
    /// CONNECT is due [MQTT-3.1.0-1].
    AwaitingConnect,
    /// CONNACK with success has been sent.
    Open,
    /// Nothing more is read; what is pending is written, then the connection is closed.
    Closing,
}

/// State of one connection. Kept small: there may be hundreds of thousands that do nothing. What few need is boxed.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) phase: Phase,
    pub(crate) version: ProtocolVersion,
    /// In the list of connections with fresh output.
    pub(crate) dirty: bool,
    /// The client wants reason strings [MQTT-3.1.2-29].
    pub(crate) problem_information: bool,
    /// Not read from until other shards have taken what is meant for them.
    pub(crate) paused: bool,
    /// Not read from until the client has taken what is meant for it.
    pub(crate) choked: bool,
    /// Not read from until those have been written to who stand in line for what it sent.
    pub(crate) braked: bool,
    /// The session was there before the connection.
    pub(crate) resumed: bool,
    /// What an older connection of the same client had sent has been read; it can be taken over.
    pub(crate) heard_older: bool,
    pub(crate) keep_alive_s: u16,
    /// The most QoS 1 and 2 messages that may be in flight towards the client.
    pub(crate) send_maximum: u16,
    /// Topic aliases that the client accepts.
    pub(crate) alias_maximum: u16,
    pub(crate) generation: u32,
    pub(crate) session: Option<u32>,
    /// The client's Maximum Packet Size, where it set one.
    pub(crate) maximum_packet_size_bytes: Option<std::num::NonZeroU32>,
    pub(crate) last_received_ms: u64,
    /// Since when a packet has been incomplete.
    pub(crate) incomplete_since_ms: Option<NonZeroMs>,
    /// Since when output has been pending without a byte taken.
    pub(crate) stalled_since_ms: Option<NonZeroMs>,
    /// When the place's timer comes up; belongs to the place and survives the connection.
    pub(crate) armed_ms: Option<NonZeroMs>,
    /// What of the output is in the gauge of pending bytes.
    pub(crate) counted_output_bytes: usize,
    pub(crate) output: Option<Box<Output>>,
    pub(crate) extras: Option<Box<Extras>>,
}

/// A moment that takes no more room in an `Option`.
pub(crate) type NonZeroMs = std::num::NonZeroU64;

/// What only some connections need.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// Topic aliases that the client has set [MQTT-3.3.2-12].
    pub(crate) aliases_in: HashMap<u16, Box<str>>,
    /// Topic aliases that we have set [MQTT-3.3.2-11].
    pub(crate) aliases_out: HashMap<Box<str>, u16>,
    /// Acknowledgements that wait for the journal, in order.
    pub(crate) held_acks: VecDeque<(LogPosition, Ack)>,
    /// Those of them that answer a PUBLISH for which no identifier is held.
    pub(crate) held_publish_acks: usize,
    /// Retained messages still to be sent for a new subscription.
    pub(crate) replays: VecDeque<Replay>,
    /// The search for the first of them is among those that go on later.
    pub(crate) scan_waits: bool,
}

/// Retained messages that a subscription is owed, as they were when it was made.
#[derive(Debug)]
pub(crate) struct Replay {
    /// Messages of the session's queue that were there before, and are sent before.
    pub(crate) queue_ahead: usize,
    pub(crate) scan: Scan,
    /// The next one, taken from the scan and not sent yet.
    pub(crate) next: Option<Message>,
    pub(crate) qos: QoS,
    pub(crate) identifier: Option<SubscriptionId>,
    pub(crate) format: Option<Format>,
}

impl Connection {
    pub(crate) fn vacant() -> Connection {
        Connection {
            phase: Phase::Vacant,
            version: ProtocolVersion::V3_1_1,
            dirty: false,
            problem_information: true,
            paused: false,
            choked: false,
            braked: false,
            resumed: false,
            heard_older: false,
            keep_alive_s: 0,
            send_maximum: 0,
            alias_maximum: 0,
            generation: 0,
            session: None,
            maximum_packet_size_bytes: None,
            last_received_ms: 0,
            incomplete_since_ms: None,
            stalled_since_ms: None,
            armed_ms: None,
            counted_output_bytes: 0,
            output: None,
            extras: None,
        }
    }

    /// Takes the place for a new connection.
    pub(crate) fn open(&mut self, now_ms: u64) {
        *self = Connection {
            phase: Phase::AwaitingConnect,
            generation: self.generation.wrapping_add(1),
            armed_ms: self.armed_ms,
            last_received_ms: now_ms,
            ..Connection::vacant()
        };
    }

    pub(crate) fn is_v5(&self) -> bool {
        self.version == ProtocolVersion::V5
    }

    /// Whether reading from the client waits, for whatever reason.
    pub(crate) fn is_held(&self) -> bool {
        self.paused || self.choked || self.braked
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.pending_bytes())
    }

    pub(crate) fn has_replays(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| !extras.replays.is_empty())
    }

    /// A message has left the session's queue.
    pub(crate) fn note_queue_moved(&mut self) {
        if let Some(extras) = &mut self.extras {
            for replay in &mut extras.replays {
                replay.queue_ahead = replay.queue_ahead.saturating_sub(1);
            }
        }
    }

    /// Whether any PUBLISH may be sent with its topic by name: the client has set no Maximum Packet Size and takes no aliases.
    #[inline]
    pub(crate) fn takes_any_publish(&self) -> bool {
        self.maximum_packet_size_bytes.is_none() && self.alias_maximum == 0
    }

    /// How to say `topic` to a client that accepts aliases: the first topics get one each for the connection's life.
    pub(crate) fn alias_for(&self, topic: &str) -> Alias {
        if self.alias_maximum == 0 {
            return Alias::None;
        }
        let aliases = self.extras.as_ref().map(|extras| &extras.aliases_out);
        if let Some(alias) = aliases.and_then(|aliases| aliases.get(topic)) {
            return Alias::Use(*alias);
        }
        let next = aliases.map_or(0, |aliases| aliases.len()) + 1;
        if next <= usize::from(self.alias_maximum) { Alias::Set(next as u16) } else { Alias::None }
    }

    /// The client has been told an alias.
    pub(crate) fn note_alias(&mut self, topic: &str, alias: Alias) {
        if let Alias::Set(alias) = alias {
            self.extras().aliases_out.insert(topic.into(), alias);
        }
    }

    pub(crate) fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }
}
