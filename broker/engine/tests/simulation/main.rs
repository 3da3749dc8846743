//! The engine under random clients, networks and delays, against a model of what MQTT promises.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod disk;
mod journal;
mod ledger;
mod limits;
mod memory;
mod packets;
mod random_clients;
mod turns;
mod world;
