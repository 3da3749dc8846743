//! Deliberate faults, with which tests verify that the simulation finds such faults.

/// A fault of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// A lease counts from the confirmation of its heartbeat, not from the sending.
    LeaseFromConfirmation,
    /// A node keeps serving although its lease has expired.
    ServesWithoutLease,
    /// A node whose record says that it is being removed keeps sending heartbeats.
    IgnoresDeath,
    /// Nodes are removed as soon as a heartbeat is overdue.
    BuriesEarly,
    /// A node is removed without the observed revision as precondition.
    BuriesBlindly,
    /// The partitions of a removed node are not fenced.
    ForgetsFence,
    /// The sessions of a node are claimed before its removal is complete.
    ClaimsFromDying,
    /// A session is claimed although another node owns it.
    ClaimsFromLiving,
    /// An incarnation counts as deleted if one answer of the store has no record of it.
    BelievesMissing,
    /// The old owner reports the release of a session before it has written it.
    ReleasesTooEarly,
    /// The old owner reports the release of a session, and keeps serving it.
    ServesAfterRelease,
    /// A session is released although messages of its client are still in flight to the log.
    ReleasesWithMessagesUnderWay,
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
    ForgetsIntents,
    /// The claimant of a dead node's session treats none of its intents as stored.
    DropsIntents,
    /// The claimant of a dead node's session treats all of its intents as stored.
    BelievesIntents,
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
    SavesNothingOpen,
    /// Open messages are not sent again.
    ForgetsOpen,
    /// Arriving messages are offered to lagging sessions as well.
    OffersToThoseBehind,
    /// A session without capacity for a message continues with the next one.
    ForgetsToHold,
    /// A session whose capacity returns before the blocked message was passed continues with the next one.
    TakesRoomForTheNext,
    /// A session that has read once counts as caught up.
    CatchesUpTooEarly,
    /// Each copy of a message of QoS 0 counts.
    CountsAllCopies,
    /// Patterns are removed before their replacements are confirmed.
    UnlistensFirst,
    /// A node takes partitions of groups that a live node delivers.
    LeasesFromLiving,
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
    BelievesOneLook,
    /// A member with an ended session is removed although it has joined again with another session.
    RemovesWhoCameBack,
    /// A member whose client is offline is removed.
    RemovesWhoIsAway,
    /// The record of a group without members is kept.
    KeepsEmptyGroups,
    /// A late return by the engine counts for the next lease.
    TrustsLateReturns,
    /// A recreated group continues at its old position.
    BeginsAnewWhereItWas,
    /// A command that arrives twice is executed twice.
    ObeysTwice,
    /// A retained message is replaced regardless of its position in the log.
    RetainsBlindly,
    /// PUBACK is sent when the message is in the log, before it is retained.
    AcknowledgesBeforeRetained,
    /// The removal of a node skips messages that the node has not retained.
    ForgetsRepair,
    /// A cleared topic drops its position at once.
    ClearsWithoutTrace,
    /// Clients are served before the copy of the retained messages is complete.
    ServesBeforeCaughtUp,
    /// A copy that has reached the position counts as complete.
    TakesPartForWhole,
    /// A scan of retained messages begins without waiting for the copy.
    LooksWithoutAsking,
    /// The end of the retained messages is taken from one server, which may be a replaced leader.
    ReadsTheEnd,
    /// A clean start drops the will of the previous connection.
    DropsWills,
    /// A client that returns in time does not cancel its will.
    IgnoresReturn,
    /// A will does not wait for its delay.
    PublishesWillsAtOnce,
    /// The node that takes over a dead node's session publishes its will although it is in the log.
    PublishesWillsAgain,
    /// A dead node's sessions are freed without their wills.
    ForgetsSweptWills,
    /// A node never collects sessions outside of its share.
    SweepsOnlyItsShare,
    /// The record of a dead node is deleted while sessions name it.
    ForgetsTooEarly,
    /// A session is released without an expiry in the store.
    NeverExpires,
    /// A session expires although its client is connected.
    ExpiresClaimed,
    /// A message is refused but stays in its producer.
    RefusesWithoutWithdrawing,
    /// A message is refused, but later messages of its client are not.
    RefusesOne,
    /// Messages sent before the engine knows of a refusal are not refused.
    TakesWhatFollows,
    /// A QoS 2 message is refused before the record has dropped it.
    RefusesBeforeRecord,
    /// QoS 2 messages after a refused one are appended before the record has dropped it.
    PassesWithdrawn,
    /// A draining node removes itself while it serves clients.
    RetiresTooEarly,
    /// The interest of a node is not verified with other nodes.
    TellsBeforeSpread,
    /// A probe is sent before the bus has confirmed its patterns.
    ProbesTooEarly,
    /// The echo of one node counts for all nodes.
    TakesOneEchoForAll,
    /// The first read of the configuration counts, although it may come from a replaced leader.
    BelievesFirstConfiguration,
    /// A session counts as lost when a replaced leader does not know its record.
    BelievesReplacedLeaders,
    /// A group's record is applied even if a later one was observed before.
    GroupsGoBack,
    /// A group's record is applied although it may come from a replaced leader.
    LeasesAsRead,
    /// A proposal replaces any current configuration.
    ConfiguresBlindly,
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
