//! The engine under random clients, networks and delays, against a model of what MQTT promises.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod cold;
mod cold_brake;
mod crashes;
mod ending;
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
mod shared;
mod turns;
mod world;
