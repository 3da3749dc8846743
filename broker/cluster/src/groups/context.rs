//! The context of a node for group operations.

use crate::names::{Incarnation, PARTITIONS};
use crate::nodes::Nodes;
use crate::outbox::Outbox;
use crate::record::Place;
use crate::settings::Settings;

/// The context of a node for group operations.
pub(crate) struct GroupContext<'a> {
    pub(crate) me: Incarnation,
    pub(crate) now_ms: u64,
    /// Whether the node may take free partitions.
    pub(crate) takes_more: bool,
    pub(crate) settings: &'a Settings,
    /// The position of the node in the log, at which a group without members begins.
    pub(crate) position: [Place; PARTITIONS as usize],
    pub(crate) nodes: &'a Nodes,
    pub(crate) out: &'a mut Outbox,
}
