//! The engine under random clients, networks and delays, against a model of what MQTT promises.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod journal;
mod ledger;
mod random_clients;
mod world;
