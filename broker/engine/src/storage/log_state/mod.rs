//! Refusals while the log is full or its disk has failed. Changes that must be persisted are refused with the reason; everything
//! else continues.

mod steps;

pub(crate) const FULL: &str = "disk.limit is reached, so nothing more can be stored; try again later";

pub(crate) const FAILED: &str = "the broker's disk has failed, so nothing can be kept until the broker is restarted";
