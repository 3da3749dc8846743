//! The faults of a run, and their rates.

use crate::random::Random;

/// The faults of one run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
    /// Operations or answers that are lost, late, or duplicated: percent each.
    pub(crate) lost: u64,
    pub(crate) late: u64,
    pub(crate) doubled: u64,
    /// Writes that are rejected although their precondition holds: percent.
    pub(crate) busy: u64,
    /// Answers about the log that are incomplete: percent.
    pub(crate) gappy: u64,
    /// Answers about nodes from a replaced leader, which does not know nodes that have started since: percent.
    pub(crate) outdated: u64,
    /// Time between two faults.
    pub(crate) fault_every_ms: u64,
    /// The only fault in this run, because some do harm only in large numbers.
    pub(crate) only: Option<u64>,
    /// Clients that vanish without the node noticing: percent.
    pub(crate) vanish: u64,
    /// Operators publish messages, too.
    pub(crate) has_operators: bool,
}

/// The faults of a plan.
pub(crate) const KILL: u64 = 0;
pub(crate) const PAUSE: u64 = 1;
pub(crate) const CUT: u64 = 2;
pub(crate) const DEAFEN: u64 = 3;
pub(crate) const FLAP: u64 = 4;
pub(crate) const BLIND: u64 = 5;
pub(crate) const BUS_DOWN: u64 = 6;
pub(crate) const STORE_DOWN: u64 = 7;
pub(crate) const LOG_DOWN: u64 = 8;
pub(crate) const FAULTS: u64 = 9;

impl Plan {
    pub(crate) fn of(seed: u64) -> Plan {
        let mut random = Random::new(seed ^ 0xfa17);
        Plan {
            nodes: random.between(2, 5) as usize,
            clients: random.between(2, 6) as usize,
            lost: [0, 1, 5][random.below(3) as usize],
            late: [0, 1, 5][random.below(3) as usize],
            doubled: [0, 5][random.below(2) as usize],
            busy: [0, 3][random.below(2) as usize],
            gappy: [0, 5][random.below(2) as usize],
            fault_every_ms: [1000, 3000, 8000][random.below(3) as usize],
            only: [None, None, Some(FLAP), Some(FLAP), Some(BUS_DOWN)][random.below(5) as usize],
            vanish: [30, 80][random.below(2) as usize],
            has_operators: random.below(2) == 0,
            outdated: [0, 5, 20][random.below(3) as usize],
        }
    }
}
