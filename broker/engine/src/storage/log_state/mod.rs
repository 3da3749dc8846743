//! A log that takes no more: it has as much as it may, or its disk has failed. What would have to be kept is refused, and
//! everybody is told; what asks for nothing lasting goes on.

mod steps;

pub(crate) const FULL: &str = "the broker has as much on disk as it may; send it again later";

pub(crate) const FAILED: &str = "the broker's disk has failed, so nothing can be kept until the broker is restarted";
