//! One node, and a store that answers what the test says.

mod following;
mod groups;
mod health_check;
mod node;
mod peer_commands;
mod retained;
mod versions;
