//! One node, and a store that answers what the test says.

mod following;
mod groups;
mod node;
mod orders;
mod patrol;
mod retained;
mod versions;
