//! The results of a run: metrics, latencies and the account of every message.

mod accounting;
mod histogram;
mod measurement;

pub(crate) use accounting::{Account, ExpectedOrder, Sequence};
pub(crate) use histogram::{Histogram, WrittenHistogram};
pub(crate) use measurement::Measurement;
