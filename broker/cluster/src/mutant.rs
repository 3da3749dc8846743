//! Deliberate faults, with which tests verify that the simulation finds such faults.

/// A fault of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// A lease counts from the confirmation of its heartbeat, not from the sending.
    LeaseFromConfirmation,
    /// A node keeps serving although its lease has expired.
    ServesWithoutLease,
    /// A node whose record says that it is being removed keeps sending heartbeats.
    IgnoresOwnRemoval,
    /// Nodes are removed as soon as a heartbeat is overdue.
    RemovesEarly,
    /// A node is removed without the observed revision as precondition.
    RemovesWithoutRevision,
    /// The partitions of a removed node are not fenced.
    SkipsFence,
    /// The sessions of a node are claimed before its removal is complete.
    ClaimsBeforeRemoval,
    /// A session is claimed although another node owns it.
    ClaimsFromLiveOwner,
    /// An incarnation counts as deleted if one answer of the store has no record of it.
    TrustsOneMissingAnswer,
    /// The old owner reports the release of a session before it has written it.
    ReleasesTooEarly,
    /// The old owner reports the release of a session, and keeps serving it.
    ServesAfterRelease,
    /// A session is released although messages of its client are still in flight to the log.
    ReleasesWithMessagesInFlight,
    /// A claim with an unknown outcome counts as written.
    TrustsUnknownClaims,
    /// A group with an unknown outcome counts as stored.
    TrustsUnknownGroups,
    /// A group with an unknown outcome is appended again after whatever is last now.
    AppendsTwice,
    /// PUBACK is sent when the message was added to a group.
    AcknowledgesBeforeStored,
    /// Acknowledgements are sent in the order of the log.
    AcknowledgesOutOfOrder,
    /// A QoS 2 message is appended before the session's record has its intent.
    OmitsIntents,
    /// The claimant of a dead node's session treats none of its intents as stored.
    DropsIntents,
    /// The claimant of a dead node's session treats all of its intents as stored.
    AssumesIntentsStored,
    /// PUBCOMP is sent before the record has dropped the identifier.
    CompletesTooEarly,
    /// State is reported as persisted before it is.
    SavesTooEarly,
    /// A gap in a followed stream counts as lost groups.
    TrustsGaps,
    /// A session resumes at the position of the node instead of its own.
    ResumesAtPosition,
    /// A lagging session is saved with the position of the shard.
    SavesPosition,
    /// Delivered messages are not saved as open.
    OmitsOpenMessages,
    /// Open messages are not sent again.
    SkipsOpenMessages,
    /// Arriving messages are offered to lagging sessions as well.
    OffersToLaggingSessions,
    /// A session without capacity for a message continues with the next one.
    SkipsMessageWithoutCapacity,
    /// A session whose capacity returns before the blocked message was passed continues with the next one.
    SkipsBlockedMessage,
    /// A session that has read once counts as caught up.
    CatchesUpTooEarly,
    /// Each copy of a message of QoS 0 counts.
    CountsAllCopies,
    /// Patterns are removed before their replacements are confirmed.
    RemovesPatternsFirst,
    /// A node takes partitions of groups that a live node delivers.
    LeasesFromLiveHolder,
    /// A node leaves partitions of groups with dead nodes.
    IgnoresDeadHolders,
    /// A node keeps delivering for a group without members.
    KeepsLeases,
    /// A partition of a group continues at the position of the node.
    LeasesFromPosition,
    /// Open messages are lost when a partition of a group moves.
    LeasesWithoutOpen,
    /// Open messages are lost when a partition of a group is returned.
    ReturnsWithoutOpen,
    /// Members whose sessions have ended unnoticed are kept.
    KeepsEndedMembers,
    /// A member is removed when its session is missing once.
    TrustsOneMissingRead,
    /// A member with an ended session is removed although it has joined again with another session.
    RemovesRejoinedMember,
    /// A member whose client is offline is removed.
    RemovesOfflineMember,
    /// The record of a group without members is kept.
    KeepsEmptyGroups,
    /// A late return by the engine counts for the next lease.
    TrustsLateReturns,
    /// A recreated group continues at its old position.
    RecreatesAtOldPosition,
    /// A command that arrives twice is executed twice.
    ExecutesTwice,
    /// A retained message is replaced regardless of its position in the log.
    RetainsWithoutOrderCheck,
    /// PUBACK is sent when the message is in the log, before it is retained.
    AcknowledgesBeforeRetained,
    /// The removal of a node skips messages that the node has not retained.
    SkipsRetainedRepair,
    /// A cleared topic drops its position at once.
    DropsClearedPosition,
    /// Clients are served before the copy of the retained messages is complete.
    ServesBeforeCaughtUp,
    /// A copy that has reached the position counts as complete.
    TrustsPartialCopy,
    /// A scan of retained messages begins without waiting for the copy.
    ScansWithoutSync,
    /// The end of the retained messages is taken from one server, which may be a replaced leader.
    TrustsOneServersEnd,
    /// A clean start drops the will of the previous connection.
    DropsWills,
    /// A client that returns in time does not cancel its will.
    IgnoresReconnect,
    /// A will does not wait for its delay.
    IgnoresWillDelay,
    /// The node that takes over a dead node's session publishes its will although it is in the log.
    PublishesWillsAgain,
    /// A dead node's sessions are freed without their wills.
    DropsCollectedWills,
    /// A node never collects sessions outside of its share.
    CollectsOnlyItsShare,
    /// The record of a dead node is deleted while sessions name it.
    DeletesRecordTooEarly,
    /// A session is released without an expiry in the store.
    NeverExpires,
    /// A session expires although its client is connected.
    ExpiresClaimed,
    /// A message is refused but stays in its producer.
    RefusesWithoutWithdrawing,
    /// A message is refused, but later messages of its client are not.
    RefusesOnlyOne,
    /// Messages sent before the engine knows of a refusal are not refused.
    AcceptsAfterRefusal,
    /// A QoS 2 message is refused before the record has dropped it.
    RefusesBeforeRecord,
    /// QoS 2 messages after a refused one are appended before the record has dropped it.
    AppendsAfterRefusal,
    /// A draining node removes itself while it serves clients.
    RetiresTooEarly,
    /// The interest of a node is not verified with other nodes.
    ReportsBeforeVerified,
    /// A probe is sent before the bus has confirmed its patterns.
    ProbesTooEarly,
    /// The echo of one node counts for all nodes.
    CountsOneEchoForAll,
    /// The first read of the configuration counts, although it may come from a replaced leader.
    TrustsFirstConfiguration,
    /// A session counts as lost when a replaced leader does not know its record.
    TrustsReplacedLeaders,
    /// A group's record is applied even if a later one was observed before.
    AppliesOlderGroups,
    /// A group's record is applied although it may come from a replaced leader.
    AppliesUnverifiedGroups,
    /// A proposal replaces any current configuration.
    ConfiguresWithoutRevision,
}

#[cfg(feature = "mutants")]
thread_local! {
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
pub fn is(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    return MUTANT.get() == Some(mutant);
    #[cfg(not(feature = "mutants"))]
    return {
        let _ = mutant;
        false
    };
}
