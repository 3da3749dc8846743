//! The engine under random clients, networks and delays, against a model of what MQTT promises.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod cold;
mod disk;
mod ending;
mod handover;
mod journal;
mod ledger;
mod limits;
mod log_state;
mod memory;
mod packets;
mod random_clients;
mod rates;
mod turns;
mod world;
