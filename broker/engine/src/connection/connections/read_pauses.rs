//! The reasons to pause reading from a connection.

/// A reason to pause reading from a connection. There may be several at once; reading resumes when the last one is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PauseReason {
    /// The channel to another shard is full.
    ShardChannel = 1,
    /// The client has not read its output.
    Output = 2,
    /// Receivers of what it sent are deferred.
    FanOut = 4,
    /// A job is processing one of its packets.
    Job = 8,
    /// There is no memory for what it sent.
    Memory = 16,
    /// There is no memory for the rest of a packet that has begun.
    Input = 32,
    /// Too many of its acknowledgements wait for the log.
    Acks = 64,
    /// The log accepts no writes now.
    Log = 128,
    /// The client is over its publish rate.
    Rate = 256,
    /// The client's authentication is pending.
    Authentication = 512,
    /// The transcoding budget of the turn is exhausted.
    Transcoding = 1024,
    /// The client's session is being claimed for this node.
    SessionClaim = 2048,
    /// Too many messages of clients wait for the cluster log.
    RemoteLog = 4096,
    /// The node's cluster lease has expired.
    Lease = 8192,
    /// The node has not caught up with the retained messages yet.
    RetainedSync = 16384,
    /// Too many messages wait to be spilled to disk.
    Spill = 32768,
}

/// The set of reasons for which reading from a connection is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadPauses(u16);

impl ReadPauses {
    /// Adds a reason. Returns whether it is new.
    pub(crate) fn add(&mut self, reason: PauseReason) -> bool {
        let is_new = self.0 & reason as u16 == 0;
        self.0 |= reason as u16;
        is_new
    }

    /// Removes a reason. Returns whether it existed.
    pub(crate) fn remove(&mut self, reason: PauseReason) -> bool {
        let existed = self.contains(reason);
        self.0 &= !(reason as u16);
        existed
    }

    pub(crate) fn contains(self, reason: PauseReason) -> bool {
        self.0 & reason as u16 != 0
    }

    pub(crate) fn is_only(self, reason: PauseReason) -> bool {
        self.0 == reason as u16
    }

    /// Whether there is a reason, and all reasons are among `reasons`.
    pub(crate) fn is_within<const N: usize>(self, reasons: [PauseReason; N]) -> bool {
        let mask = reasons.into_iter().fold(0, |mask, reason| mask | reason as u16);
        self.0 != 0 && self.0 & !mask == 0
    }

    /// Whether reading is not paused.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_resumes_when_the_last_reason_is_removed() {
        let mut pauses = ReadPauses::default();
        assert!(pauses.is_empty());
        assert!(pauses.add(PauseReason::ShardChannel) && pauses.add(PauseReason::Job));
        assert!(!pauses.add(PauseReason::Job), "it was added already");
        assert!(pauses.remove(PauseReason::ShardChannel) && !pauses.remove(PauseReason::ShardChannel));
        assert!(!pauses.is_empty() && pauses.contains(PauseReason::Job));
        assert!(pauses.is_within([PauseReason::Job, PauseReason::Log]) && !pauses.is_within([PauseReason::Log]));
        assert!(pauses.remove(PauseReason::Job) && pauses.is_empty() && !pauses.is_within([PauseReason::Job]));
    }
}
