//! Faults that can be put in on purpose: tests show with them that simulations find such faults.

/// A fault of the engine.
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
    /// An acknowledgement leaves when the frame before the one that it speaks of is durable.
    AcknowledgesOneFrameEarly,
    /// PUBCOMP waits for nothing.
    CompletesAtOnce,
    /// CONNACK waits for nothing.
    ConnectsAtOnce,
    /// A PUBLISH of QoS 2 waits for nothing.
    DeliversAtOnce,
    /// The log does not say what is on its way to other shards.
    ForgetsHanded,
    /// A batch leaves before the frame that speaks of it.
    SendsBeforeItPosts,
    /// The log does not say what has come from other shards.
    ForgetsTook,
    /// The log does not say what is retained.
    ForgetsRetained,
    /// The log does not say which Packet Identifiers of QoS 2 messages a client has used.
    ForgetsTaken,
    /// When a client comes back, the first packet of its window is not sent again.
    ResendsFromSecond,
    /// A message of a shared subscription that its member has no room for waits in the member's own queue.
    QueuesForMembers,

    /// A queue of a shared subscription does not ask members for room.
    ForgetsToAskMembers,
    /// A member of a shared subscription does not report that it has room.
    ForgetsToReportRoom,
    /// What a member of a shared subscription holds whose session ends with its connection is not written down.
    ForgetsFleetingMembers,
    /// In a cluster, PUBACK and PUBREC wait for nothing.
    AcknowledgesBeforeStored,
    /// In a cluster, what the next node must not do again is not saved before the client is told of it.
    TellsBeforeSaved,
    /// In a cluster, a message for which a queue has no room is dropped.
    DropsWhatIsHeld,
    /// In a cluster, a session begins at the position of its shard, not at its own.
    ForgetsOwnPlace,
    /// In a cluster, what waits in a queue is not read again by the next node.
    ForgetsQueue,
    /// In a cluster, a session that is further than its shard gets what arrives.
    TakesWhatItHas,
    /// In a cluster, a shard goes on when the lease has run out.
    ServesWithoutLease,
    /// In a cluster, what a member of a shared subscription has not acknowledged when it goes is for nobody.
    ForgetsToPutBack,
    /// In a cluster, a group is done with a message as soon as a member has it.
    SettlesWhenGiven,
    /// In a cluster, the identifiers of QoS 2 messages that a client has not released do not come along.
    ForgetsTakenOver,
    /// In a cluster, a search for retained messages does not ask whether the node has all of them.
    SearchesWithoutLooking,
    /// In a cluster, what the log brings is retained only when the stream of retained messages brings it, too.
    RetainsByStreamAlone,
    /// In a cluster, a search shows what the log has brought before the stream of retained messages has it.
    ShowsUnconfirmed,
    /// In a cluster, a retained message replaces a later one.
    RetainsInAnyOrder,
    /// In a cluster, what is retained late does not reach those who have subscribed before.
    ForgetsLate,
    /// In a cluster, a new subscription gets as retained messages what the log brings it anyway.
    ReplaysWhatComes,
    /// In a cluster, what was retained in a former life of the node stays.
    KeepsFormerLife,
    /// In a cluster, a message that the log has not taken is acknowledged.
    AcknowledgesWhatIsRefused,
    /// In a cluster, nobody else learns of wills.
    ForgetsTerms,
    /// In a cluster, CONNACK does not wait for the will to be safe.
    ConnectsBeforeWillIsSaved,
    /// In a cluster, SUBACK does not wait until other nodes know of the subscription.
    AcknowledgesBeforeSpread,
    /// In a cluster, nobody else learns that a client has taken its will back.
    ForgetsGoodbye,
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
pub(crate) fn is(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    return MUTANT.get() == Some(mutant);
    #[cfg(not(feature = "mutants"))]
    return {
        let _ = mutant;
        false
    };
}
