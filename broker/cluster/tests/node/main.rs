//! Tests one node with a store whose answers the test gives.

mod following;
mod groups;
mod health_check;
mod node;
mod peer_commands;
mod retained;
mod versions;
