//! Why a connection is not heard.

/// A reason not to read from a connection. There may be several at once; it is heard again when the last is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PauseReason {
    /// Another shard has to take what is meant for it.
    ShardChannel = 1,
    /// The client has to take its output.
    Output = 2,
    /// Those who stand in line for what it sent have to be written to.
    FanOut = 4,
    /// A packet that it has sent is being worked on.
    Job = 8,
    /// Memory has to become free for what it has sent.
    Memory = 16,
    /// Memory has to become free for the rest of a packet that it has begun.
    Input = 32,
    /// The log has to become safe as far as it is acknowledged.
    Acks = 64,
    /// The log has to take more.
    Log = 128,
    /// The client publishes faster than it may.
    Rate = 256,
    /// It has to be found out who the client is.
    Authentication = 512,
    /// A turn has to have time for what it has sent: somebody wants it in another format.
    Transcoding = 1024,
    /// The client's session has to be this node's.
    SessionClaim = 2048,
    /// The log of all nodes has to take what clients have published.
    RemoteLog = 4096,
    /// The node's lease has run out.
    Lease = 8192,
    /// This node has to know all that was retained before.
    RetainedSync = 16384,
    /// The store of cold messages has to write more of those that are in memory.
    Spill = 32768,
}

/// The reasons why one connection is not heard now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadPauses(u16);

impl ReadPauses {
    /// Adds a reason; says whether it is new.
    pub(crate) fn add(&mut self, reason: PauseReason) -> bool {
        let is_new = self.0 & reason as u16 == 0;
        self.0 |= reason as u16;
        is_new
    }

    /// Takes a reason away; says whether it was there.
    pub(crate) fn remove(&mut self, reason: PauseReason) -> bool {
        let was_there = self.contains(reason);
        self.0 &= !(reason as u16);
        was_there
    }

    pub(crate) fn contains(self, reason: PauseReason) -> bool {
        self.0 & reason as u16 != 0
    }

    pub(crate) fn is_only(self, reason: PauseReason) -> bool {
        self.0 == reason as u16
    }

    /// Whether there is a reason, and all reasons are among `reasons`.
    pub(crate) fn is_within<const N: usize>(self, reasons: [PauseReason; N]) -> bool {
        let those = reasons.into_iter().fold(0, |those, reason| those | reason as u16);
        self.0 != 0 && self.0 & !those == 0
    }

    /// Whether the connection may be heard.
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
        let mut holds = ReadPauses::default();
        assert!(holds.is_empty());
        assert!(holds.add(PauseReason::ShardChannel) && holds.add(PauseReason::Job));
        assert!(!holds.add(PauseReason::Job), "it is there already");
        assert!(holds.remove(PauseReason::ShardChannel) && !holds.remove(PauseReason::ShardChannel));
        assert!(!holds.is_empty() && holds.contains(PauseReason::Job));
        assert!(holds.is_within([PauseReason::Job, PauseReason::Log]) && !holds.is_within([PauseReason::Log]));
        assert!(holds.remove(PauseReason::Job) && holds.is_empty() && !holds.is_within([PauseReason::Job]));
    }
}
