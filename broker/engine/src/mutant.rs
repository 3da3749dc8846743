//! Faults that can be put in on purpose: tests show with them that the simulation finds such faults.

use crate::shard::Shard;

/// A fault of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Paused publishers are heard again before batches are sent, and not again after that.
    ResumesBeforeItSends,
    /// The shard sleeps although there are batches for another one.
    SleepsOnBatches,
    /// The shard sleeps although receivers of a fan-out stand in line.
    SleepsOnFanOuts,
    /// The shard sleeps although it has taken only a part of a batch.
    SleepsOnBegunBatches,
}

impl<J> Shard<J> {
    /// Puts a fault in.
    #[cfg(feature = "mutants")]
    pub fn mutate(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    /// Whether this fault has been put in.
    #[inline(always)]
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        #[cfg(feature = "mutants")]
        return self.mutant == Some(mutant);
        #[cfg(not(feature = "mutants"))]
        return {
            let _ = mutant;
            false
        };
    }
}
