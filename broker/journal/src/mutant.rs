//! Deliberate faults, with which tests verify that the simulations find such faults.

/// A fault of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Written data counts as durable without a sync.
    ForgetsToSync,
    /// A frame of another epoch counts.
    TakesOtherEpochs,
    /// Frames that were cut off before an epoch began count again.
    TakesWhatWasCutOff,
    /// A reader begins one frame after what a snapshot covers.
    BeginsOneFrameLate,
    /// A segment is released although the snapshot does not cover its last frames.
    ReleasesTooMuch,
    /// Seals are not read.
    ForgetsSeals,
    /// The number of created segments is not stored.
    ForgetsSegments,
    /// A missing first segment is not detected.
    TakesAnyFirstSegment,
}

#[cfg(feature = "mutants")]
std::thread_local! {
    /// Per thread, so that tests do not disturb each other.
    static MUTANT: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Enables a fault for everything this thread does from now on, or disables it.
#[cfg(feature = "mutants")]
pub fn mutate(mutant: Option<Mutant>) {
    MUTANT.set(mutant);
}

/// Whether this fault is enabled.
#[inline(always)]
pub(crate) fn is(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    return MUTANT.get() == Some(mutant);
    #[cfg(not(feature = "mutants"))]
    return {
        let _ = mutant;
        false
    };
}
