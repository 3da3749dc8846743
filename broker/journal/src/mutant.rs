//! Faults that can be put in on purpose: tests show with them that simulations find such faults.

/// A fault of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// What has been written counts as durable without a sync.
    ForgetsToSync,
    /// A frame of another epoch counts.
    TakesOtherEpochs,
    /// What was cut off before an epoch began counts again.
    TakesWhatWasCutOff,
    /// A reader begins one frame behind what a snapshot covers.
    BeginsOneFrameLate,
    /// A segment is let go of although the snapshot does not cover its last frames.
    ReleasesTooMuch,
    /// Seals are not read.
    ForgetsSeals,
    /// That a segment was made is not remembered.
    ForgetsSegments,
    /// A first segment that is missing is not missed.
    TakesAnyFirstSegment,
}

#[cfg(feature = "mutants")]
std::thread_local! {
    /// Of the thread, so that tests do not disturb each other.
    static MUTANT: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Puts a fault into all that this thread does from now on, or takes it out.
#[cfg(feature = "mutants")]
pub fn mutate(mutant: Option<Mutant>) {
    MUTANT.set(mutant);
}

/// Whether this fault has been put in.
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
