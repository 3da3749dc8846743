//! Deliberate faults, with which tests verify that the simulations find such faults.

/// A fault of persistence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// A snapshot lacks the messages that are being forwarded between shards.
    SnapshotOmitsForwards,
    /// A snapshot lacks the last frame that it claims to cover.
    SnapshotEndsOneFrameEarly,
    /// The Packet Identifiers of received QoS 2 messages are not restored.
    OmitsReceivedPacketIds,
    /// Merging drops retained messages that the log does not mention.
    MergeDropsUnchanged,
    /// Merging keeps retained messages of the last snapshot although the log replaces them.
    MergeKeepsReplaced,
    /// Merging uses the first change of a topic in the log instead of the last.
    MergeUsesFirstChange,
    /// Merging drops the record that a topic was cleared, although an older change may follow.
    MergeDropsCleared,
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
