//! Faults that can be put in on purpose: tests show with them that the simulation finds such faults.

/// A fault of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// A lease counts from when its beat was confirmed, not from when it was sent.
    LeaseFromConfirmation,
    /// A node serves on although its lease has run out.
    ServesWithoutLease,
    /// A node whose record says that it is dying beats on.
    IgnoresDeath,
    /// Others are buried as soon as a beat is overdue.
    BuriesEarly,
    /// A node is buried without expecting the revision that was seen.
    BuriesBlindly,
    /// A buried node's groups are not fenced off.
    ForgetsFence,
    /// The sessions of a dying node are claimed before it is buried.
    ClaimsFromDying,
    /// A session is claimed although another node owns it.
    ClaimsFromLiving,
    /// A life is taken for gone if one answer of the store has no record of it.
    BelievesMissing,
    /// The old owner says that it has released a session before it has written it.
    ReleasesTooEarly,
    /// The old owner says that it has released a session, and serves on.
    ServesAfterRelease,
    /// A session is released although messages of its client are still on their way to the log.
    ReleasesWithMessagesUnderWay,
    /// A claim whose fate is unknown counts as made.
    TrustsUnknownClaims,
    /// A group whose fate is unknown counts as stored.
    TrustsUnknownGroups,
    /// A group whose fate is unknown is appended behind whatever is there now.
    AppendsTwice,
    /// PUBACK leaves when the message has been taken into a group.
    AcknowledgesBeforeStored,
    /// Acknowledgements leave in the order of the log.
    AcknowledgesOutOfOrder,
    /// A QoS 2 message is appended before the session's record knows of it.
    ForgetsIntents,
    /// Who claims a dead node's session takes none of its intents for stored.
    DropsIntents,
    /// Who claims a dead node's session takes all of its intents for stored.
    BelievesIntents,
    /// PUBCOMP leaves before the record has forgotten the identifier.
    CompletesTooEarly,
    /// The engine is told that state is safe before it is.
    SavesTooEarly,
    /// What is missing in what was followed counts as gone.
    TrustsGaps,
    /// A session goes on where the node stands, and not where it was.
    ResumesAtPosition,
    /// A session that is behind is saved as if it had kept up.
    SavesPosition,
    /// Messages that were handed out are not saved as open.
    SavesNothingOpen,
    /// Open messages are not sent again.
    ForgetsOpen,
    /// What arrives is offered to sessions that are behind as well.
    OffersToThoseBehind,
    /// A session that had no room for a message goes on with the next one.
    ForgetsToHold,
    /// A session that has room again before the message that it had none for was passed goes on with the next one.
    TakesRoomForTheNext,
    /// A session that has read once counts as caught up.
    CatchesUpTooEarly,
    /// Each copy of a message of QoS 0 counts.
    CountsAllCopies,
    /// Patterns go before those that take their place have come.
    UnlistensFirst,
    /// A node takes partitions of groups that a living one delivers.
    LeasesFromLiving,
    /// A node leaves partitions of groups to the dead.
    IgnoresDeadHolders,
    /// A node goes on delivering for a group without members.
    KeepsLeases,
    /// A partition of a group goes on where the node stands.
    LeasesFromPosition,
    /// Messages that were open when a partition of a group changed hands are forgotten.
    LeasesWithoutOpen,
    /// Messages that are open when a partition of a group is given back are forgotten.
    ReturnsWithoutOpen,
    /// Members whose sessions have ended unseen stay.
    KeepsEndedMembers,
    /// A member is removed when its session is gone once.
    BelievesOneLook,
    /// A member whose session has ended is removed although it has come back by another one.
    RemovesWhoCameBack,
    /// A member whose client is away is removed.
    RemovesWhoIsAway,
    /// The record of a group without members stays.
    KeepsEmptyGroups,
    /// What the engine gives back late counts for the lease that came after it.
    TrustsLateReturns,
    /// A group that begins anew goes on where it was.
    BeginsAnewWhereItWas,
    /// An order that comes twice is carried out twice.
    ObeysTwice,
    /// What a topic retains is replaced whatever place it has in the log.
    RetainsBlindly,
    /// PUBACK leaves when the message is in the log, and before it is retained.
    AcknowledgesBeforeRetained,
    /// Who buries a node leaves what it has not retained as it is.
    ForgetsRepair,
    /// A topic that has been cleared forgets at once where that was.
    ClearsWithoutTrace,
    /// Clients are served before the copy of the retained messages is complete.
    ServesBeforeCaughtUp,
    /// A copy that has come far enough counts as whole.
    TakesPartForWhole,
    /// A search for retained messages looks at once.
    LooksWithoutAsking,
    /// The store says where retained messages end as one of its servers knows it, which may have been replaced.
    ReadsTheEnd,
    /// A clean start drops the will of the connection before.
    DropsWills,
    /// Whoever comes back in time does not cancel a will.
    IgnoresReturn,
    /// A will does not wait for its delay.
    PublishesWillsAtOnce,
    /// Who takes on a dead node's session publishes its will although it is in the log.
    PublishesWillsAgain,
    /// A dead node's sessions are freed without their wills.
    ForgetsSweptWills,
    /// What is not of a node's share, it never sweeps.
    SweepsOnlyItsShare,
    /// The record of a dead node is removed while sessions name it.
    ForgetsTooEarly,
    /// A session is released without a time after which the store removes it.
    NeverExpires,
    /// A session expires although its client is connected.
    ExpiresClaimed,
    /// A message is refused and stays in its lane.
    RefusesWithoutWithdrawing,
    /// A message is refused, and what its client has sent after it is not.
    RefusesOne,
    /// What the engine hands over before it knows of a refusal is not refused.
    TakesWhatFollows,
    /// A QoS 2 message is refused before the record has forgotten it.
    RefusesBeforeRecord,
    /// QoS 2 messages go on behind one that was refused while the record has not forgotten it.
    PassesWithdrawn,
    /// A node that is drained buries itself while it serves clients.
    RetiresTooEarly,
    /// Nobody asks whether other nodes know what this one listens to.
    TellsBeforeSpread,
    /// A probe goes out before the bus has confirmed what it is about.
    ProbesTooEarly,
    /// What one node knows, all know.
    TakesOneEchoForAll,
    /// What a node reads first of the configuration holds, although it may be what a replaced leader knows.
    BelievesFirstConfiguration,
    /// A session is taken for lost when a leader that has been replaced does not know its record.
    BelievesReplacedLeaders,
    /// What a group's record says holds, even if it said something later before.
    GroupsGoBack,
    /// What a group's record says holds, although it may be what a replaced leader knows.
    LeasesAsRead,
    /// A proposal replaces whatever configuration is there.
    ConfiguresBlindly,
}

#[cfg(feature = "mutants")]
thread_local! {
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
pub fn is(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    return MUTANT.get() == Some(mutant);
    #[cfg(not(feature = "mutants"))]
    return {
        let _ = mutant;
        false
    };
}
