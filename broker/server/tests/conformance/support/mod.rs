//! Support for all tests: a broker process, raw clients, and fences that prove absence.

pub(crate) mod base64;
pub(crate) mod broker;
pub(crate) mod cases;
pub(crate) mod client;
pub(crate) mod connecting;
pub(crate) mod fence;
pub(crate) mod folder;
pub(crate) mod http;
pub(crate) mod message;
pub(crate) mod property;
pub(crate) mod rng;
pub(crate) mod time;
pub(crate) mod tls;
pub(crate) mod websocket;
pub(crate) mod wire;

pub(crate) use broker::{Broker, program, reconnect};
pub(crate) use cases::{Case, every_case, every_thread_count, every_version};
pub(crate) use client::{Client, EXPECT_TIMEOUT, options, packet_id};
pub(crate) use connecting::{ConnectBuilder, NEVER, WillMessage};
pub(crate) use fence::expect_nothing_from;
pub(crate) use folder::Folder;
pub(crate) use http::{TOKEN, admin};
pub(crate) use message::{Message, OutgoingPublish};
pub(crate) use rng::Rng;
pub(crate) use tautwire_protocol::ProtocolVersion::{self, V3_1, V3_1_1, V5};
pub(crate) use tautwire_protocol::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};
pub(crate) use time::{remaining_expiry, sleep, wait_until};
pub(crate) use wire::{Transport, Wire};
