//! Retained messages: writing them after the log, and this node's copy of them.
//!
//! A message with RETAIN is in the log before it is retained, and the retained record names its position there. A writer only replaces
//! records with an earlier position than its own, with the sequence it has seen as precondition. So for each topic, the order of the log is
//! the order of the retained messages, whichever node is faster, and the last message in the log is retained in the end.

mod mirror;
mod writer;

pub(crate) use mirror::Mirror;
pub use mirror::MirrorStatus;
pub(crate) use writer::{Waiter, Writer};
