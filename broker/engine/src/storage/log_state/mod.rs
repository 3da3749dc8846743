//! Refusals while the log is full or its disk has failed. Changes that must be persisted are refused with the reason; everything
//! else continues.

mod steps;

pub(crate) const FULL: &str = "the broker has as much on disk as it may; send it again later";

pub(crate) const FAILED: &str = "the broker's disk has failed, so nothing can be kept until the broker is restarted";
