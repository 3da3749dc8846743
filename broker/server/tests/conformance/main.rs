//! Conformance tests and hostile input: the broker's program over real sockets, byte by byte.
//!
//! Each file has one topic; each test is named after what it checks and cites the statements of the standard. Absence is proved by a fence,
//! a later message or ping that must be the next to arrive, never by waiting. `TAUTWIRE_TEST_BINARY` runs the same tests with another build
//! of the program, and `TAUTWIRE_TEST_TRANSPORT=websocket` over WebSocket.

mod access;
mod admin;
mod auth;
mod broken_connections;
mod connect;
mod contracts;
mod cross_thread;
mod durability;
mod events;
mod faults;
mod flapping;
mod flow_control;
mod hostile;
mod keep_alive;
mod limits;
mod listeners;
mod many_filters;
mod memory;
mod mqtt_3_1;
mod ordering;
mod payload_limits;
mod properties;
mod publish_qos;
mod quotas;
mod refusals;
mod reload;
mod replays;
mod retained;
mod retained_publisher;
mod scram_client;
mod session;
mod shared;
mod spilled_messages;
mod starting;
mod stopping;
mod subscribe;
mod support;
mod sys;
mod tls;
mod tokens;
mod user;
mod user_quotas;
mod users;
mod websocket;
mod will;
