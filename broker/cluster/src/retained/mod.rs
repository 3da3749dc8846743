//! Retained messages: writing them behind the log, and this node's copy of all of them.
//!
//! A message with RETAIN is in the log before it is retained, and what a topic retains names its place there. A writer replaces only what
//! stands before its own place, by the sequence that it has seen. So for each topic the order of the log is the order of what was retained,
//! whoever is faster, and what is retained in the end is the last in the log.

mod mirror;
mod writer;

pub(crate) use mirror::Mirror;
pub use mirror::MirrorStatus;
pub(crate) use writer::{Waiter, Writer};
