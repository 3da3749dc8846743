//! The options of a comparison.

use std::path::PathBuf;

use crate::broker::{BrokerKind, Programs};
use crate::system::Placement;

/// The default number of rounds: enough for a median and a spread.
pub(super) const ROUNDS: u32 = 3;

/// The options of the comparison.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub programs: Programs,
    /// Empty: the brokers of each definition.
    pub brokers: Vec<BrokerKind>,
    /// Empty: the placements of each definition.
    pub placements: Vec<Placement>,
    pub rounds: Option<u32>,
    /// A quick run: one round, the first placement, the first brokers, smaller parameters.
    pub quick: bool,
    /// The scheduling priority of broker and generator, as for `nice`.
    pub nice: i32,
    /// The folder for results; `None`: `bench/results/HARDWARE`, or `bench/results/quick` for results that are not of record.
    pub out: Option<PathBuf>,
}

impl Options {
    /// Whether the result is of record: all brokers and placements of the definition, enough rounds.
    pub(super) fn is_complete_run(&self) -> bool {
        !self.quick && self.brokers.is_empty() && self.placements.is_empty() && self.rounds.is_none_or(|n| n >= ROUNDS)
    }
}
