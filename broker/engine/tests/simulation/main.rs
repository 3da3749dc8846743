//! The engine under random clients, networks and delays, checked against a model of what MQTT guarantees.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod crashes;
mod full_queues;
mod journal;
mod ledger;
mod limits;
mod log_state;
mod machine;
mod memory;
mod mutants;
mod packets;
mod random_clients;
mod rates;
mod session_end;
mod shared;
mod spill;
mod spill_backpressure;
mod turns;
mod world;
