//! Deliberate faults, with which tests verify that the simulations find such faults.

/// A fault of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Written data counts as durable without a sync.
    SkipsSync,
    /// A frame of another epoch counts.
    AcceptsOtherEpochs,
    /// Frames that were cut off before an epoch began count again.
    AcceptsTruncatedFrames,
    /// A reader begins one frame after what a snapshot covers.
    StartsOneFrameLate,
    /// A segment is released although the snapshot does not cover its last frames.
    ReleasesUncoveredFrames,
    /// Seals are not read.
    IgnoresSeals,
    /// The number of created segments is not stored.
    OmitsSegmentCount,
    /// A missing first segment is not detected.
    AcceptsAnyFirstSegment,
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
