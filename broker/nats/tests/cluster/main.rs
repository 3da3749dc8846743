//! Tests nodes on real nats-servers. `make test-cluster` runs them; without TAUTWIRE_NATS_SERVER they are skipped with a message.

mod node;
#[path = "../servers/mod.rs"]
mod servers;

mod access;
mod bus;
mod faults;
mod removal;
mod sessions;
mod setup;
mod storage;
