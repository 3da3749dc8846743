//! Deliberate faults, with which tests verify that the simulations find such faults.

/// A fault of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Reading from paused publishers resumes only before batches are sent, not after.
    ResumesBeforeSending,
    /// The shard sleeps although batches to other shards are not sent.
    SleepsWithUnsentBatches,
    /// The shard sleeps although fan-outs are deferred.
    SleepsWithDeferredFanOuts,
    /// The shard sleeps although it has processed only a part of a batch.
    SleepsWithPartialBatches,
    /// An acknowledgement is sent when the frame before its own is durable.
    AcknowledgesOneFrameEarly,
    /// PUBCOMP does not wait for the log.
    SendsPubCompBeforeDurable,
    /// CONNACK does not wait for the log.
    SendsConnAckBeforeDurable,
    /// A PUBLISH of QoS 2 to a subscriber does not wait for the log.
    DeliversBeforeDurable,
    /// Messages that are forwarded to other shards are not recorded.
    OmitsForwardedRecord,
    /// A batch is sent before the frame that records it is submitted.
    SendsBatchBeforeFrame,
    /// Messages that were received from other shards are not recorded.
    OmitsForwardAcceptedRecord,
    /// Changes of retained messages are not recorded.
    OmitsRetainedRecord,
    /// The Packet Identifiers of QoS 2 messages that a client has sent are not recorded.
    OmitsReceivedPacketId,
    /// When a session resumes, the first packet in flight is not sent again.
    SkipsFirstResend,
    /// A message of a shared subscription that exceeds the credit of a member waits in the queue of the member's session.
    QueuesSharedInSession,

    /// The queue of a shared subscription does not ask its members for credit.
    SkipsCreditRequest,
    /// A member of a shared subscription does not report its credit.
    SkipsCreditReport,
    /// Messages in flight to a member of a shared subscription without a persistent session are not recorded.
    OmitsTransientMemberRecord,
    /// In a cluster, PUBACK and PUBREC do not wait until the message is stored.
    AcknowledgesBeforeStored,
    /// In a cluster, QoS 2 messages and PUBREL are sent before the state of the session is saved.
    SendsBeforeSaved,
    /// In a cluster, a message that does not fit into a queue is dropped.
    DropsBlockedMessages,
    /// In a cluster, a session resumes at the position of its shard instead of its own.
    IgnoresSessionPosition,
    /// In a cluster, the next owner of a session does not read its queued messages again.
    OmitsQueuedMessages,
    /// In a cluster, a session that is ahead of its shard receives messages again.
    DeliversBelowPosition,
    /// In a cluster, a shard keeps serving clients although the lease has expired.
    ServesWithoutLease,
    /// In a cluster, messages that a member of a shared subscription returns count as done.
    SettlesReturnedMessages,
    /// In a cluster, a message of a shared subscription counts as done when it is sent to a member.
    SettlesOnDelivery,
    /// In a cluster, the next owner of a session does not restore the Packet Identifiers that the client has not released.
    OmitsUnreleasedPacketIds,
    /// In a cluster, a scan of retained messages does not wait until the copy of the node is complete.
    ScansBeforeRetainedSync,
    /// In a cluster, retained messages are read only from the stream of retained messages, not from the log.
    IgnoresRetainFromLog,
    /// In a cluster, a scan returns retained messages that the stream of retained messages has not confirmed.
    ScansUnconfirmedRetained,
    /// In a cluster, an older retained message replaces a newer one.
    RetainsOutOfOrder,
    /// In a cluster, a message that is retained late is not sent to existing subscriptions.
    SkipsLateRetained,
    /// In a cluster, a new subscription receives retained messages that it also receives from the log.
    ReplaysLiveMessages,
    /// In a cluster, retained messages of the node's previous incarnation are kept.
    KeepsPreviousRetained,
    /// In a cluster, a message that the log has refused is acknowledged.
    AcknowledgesRefusedMessages,
    /// In a cluster, wills and expiry intervals are not saved for the other nodes.
    OmitsDisconnectSettings,
    /// In a cluster, CONNACK does not wait until the will is saved.
    SendsConnAckBeforeWillSaved,
    /// In a cluster, SUBACK does not wait until the other nodes know the subscription.
    SendsSubAckBeforeInterestSync,
    /// In a cluster, the removal of a will by DISCONNECT is not saved for the other nodes.
    OmitsWillRemoval,
}

#[cfg(feature = "mutants")]
thread_local! {
    /// One for each thread, so that tests do not affect each other.
    static MUTANT: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Enables a fault on this thread, or disables it with `None`.
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
