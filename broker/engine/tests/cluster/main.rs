//! Simulation of a cluster: brokers with shards of the engine and a member of the cluster, on a model of the store.

#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the simulation uses more of it")]
mod support;

mod bus;
mod client;
mod groups;
mod interest_sync;
mod large;
mod lease;
mod ledger;
mod levels;
mod memory;
mod node;
mod operator;
mod publishing;
mod random;
mod random_retained;
mod redirects;
mod refused;
mod retained;
mod sessions;
mod store;
mod sys;
mod wills;
mod world;
