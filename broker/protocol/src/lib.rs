//! The MQTT 3.1.1 and 5.0 wire format, without I/O.
//!
//! * [`decode`] turns bytes into a [`Packet`] that borrows from them. It does not allocate, so no length on the wire can reserve memory.
//!   It is strict: packets that the standard calls malformed or a protocol error are rejected with the byte offset and the reason code
//!   to answer with ([`DecodeError`]).
//! * Every packet computes its length (`encoded_len`) and encodes itself into a buffer of the caller (`encode`, `append_to`).
//! * [`OwnedPacket`] and [`OwnedPublish`] outlive the buffer that a packet was decoded from, in one allocation.
//! * [`malformed`] builds invalid packets, for tests.
//!
//! The same structs serve both directions. MQTT 3.1 (`MQIsdp`) shares the layout of 3.1.1.
//!
//! ```
//! use tautwire_protocol::{decode, DecodeOptions, Delivery, Packet, Properties, ProtocolVersion, Publish, TopicName};
//!
//! let publish = Publish {
//!     delivery: Delivery::AtMostOnce,
//!     retain: false,
//!     topic: Some(TopicName::new("demo/hello")?),
//!     properties: Properties::EMPTY,
//!     payload: b"hi",
//! };
//! let mut bytes = Vec::new();
//! publish.append_to(ProtocolVersion::V5, &mut bytes)?;
//!
//! let (packet, consumed) = decode(&bytes, &DecodeOptions::new(ProtocolVersion::V5))?;
//! assert_eq!(packet, Packet::Publish(publish));
//! assert_eq!(consumed, bytes.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod malformed;
pub mod wire;

mod decode;
mod encode;
mod error;
mod list;
mod owned;
mod packets;
mod properties;
mod reason;
mod topic;
mod vocabulary;

pub use decode::{
    DecodeOptions, FixedHeader, MAX_PACKET_SIZE_BYTES, ShortAcknowledgement, decode, decode_body, decode_publish,
};
pub use error::{DecodeCause, DecodeError, EncodeError, Fault};
pub use list::{List, ListItem, ListIter};
pub use owned::{OwnedPacket, OwnedPublish};
pub use packets::{
    Auth, ConnAck, Connect, Delivery, Disconnect, Packet, PubAck, PubComp, PubRec, PubRel, Publish, RetainHandling,
    SubAck, Subscribe, SubscriptionOptions, SubscriptionRequest, UnsubAck, Unsubscribe, Will,
};
pub use properties::{
    PayloadFormat, Properties, PropertiesIter, Property, PropertyContext, PropertyId, PropertyType, RawProperties,
    RawProperty, UserProperties,
};
pub use reason::{
    AuthReason, ConnectReason, DisconnectReason, PubAckReason, PubCompReason, PubRecReason, PubRelReason, ReasonCode,
    SubscribeReason, UnsubscribeReason,
};
pub use topic::{SharedFilter, TopicError, TopicErrorKind, TopicFilter, TopicName, topic_matches};
pub use vocabulary::{PacketId, PacketType, ProtocolVersion, QoS, SubscriptionId};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
