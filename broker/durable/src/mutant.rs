//! Faults that can be put in on purpose: tests show with them that simulations find such faults.

/// A fault of what becomes of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// A snapshot says nothing of what is on its way between shards.
    SnapshotForgetsHandovers,
    /// A snapshot lacks the last frame that it is said to cover.
    SnapshotEndsOneFrameEarly,
    /// The Packet Identifiers of QoS 2 messages that clients have sent are not read back.
    ForgetsTakenIdentifiers,
    /// Merging leaves out what topics retain and the log does not speak of.
    MergeForgetsUnchanged,
    /// Merging takes what the last snapshot has, whatever the log says of the topic.
    MergeKeepsReplaced,
    /// Merging takes the first change of a topic in the log, not the last.
    MergeTakesFirstChange,
    /// Merging does not say which topics were cleared, although an older change may follow.
    MergeForgetsCleared,
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
