//! Why a connection is not heard.

/// A reason not to read from a connection. There may be several at once; it is heard again when the last is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Another shard has to take what is meant for it.
    Transit = 1,
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
    Verdict = 512,
    /// A turn has to have time for what it has sent: somebody wants it in another format.
    Forms = 1024,
    /// The client's session has to be this node's.
    Claim = 2048,
    /// The log of the cluster has to take what clients have published.
    Cluster = 4096,
    /// The node's lease in its cluster has run out.
    Lease = 8192,
    /// This node has to know all that was retained in the cluster.
    Look = 16384,
    /// The store of cold messages has to write more of those that are in memory.
    Cold = 32768,
}

/// The reasons why one connection is not heard now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Holds(u16);

impl Holds {
    /// Adds a reason; says whether it is new.
    pub(crate) fn add(&mut self, reason: Reason) -> bool {
        let is_new = self.0 & reason as u16 == 0;
        self.0 |= reason as u16;
        is_new
    }

    /// Takes a reason away; says whether it was there.
    pub(crate) fn remove(&mut self, reason: Reason) -> bool {
        let was_there = self.contains(reason);
        self.0 &= !(reason as u16);
        was_there
    }

    pub(crate) fn contains(self, reason: Reason) -> bool {
        self.0 & reason as u16 != 0
    }

    pub(crate) fn is_only(self, reason: Reason) -> bool {
        self.0 == reason as u16
    }

    /// Whether there is a reason, and all reasons are among `reasons`.
    pub(crate) fn are_among<const N: usize>(self, reasons: [Reason; N]) -> bool {
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
    fn a_connection_is_heard_when_the_last_reason_is_gone() {
        let mut holds = Holds::default();
        assert!(holds.is_empty());
        assert!(holds.add(Reason::Transit) && holds.add(Reason::Job));
        assert!(!holds.add(Reason::Job), "it is there already");
        assert!(holds.remove(Reason::Transit) && !holds.remove(Reason::Transit));
        assert!(!holds.is_empty() && holds.contains(Reason::Job));
        assert!(holds.are_among([Reason::Job, Reason::Log]) && !holds.are_among([Reason::Log]));
        assert!(holds.remove(Reason::Job) && holds.is_empty() && !holds.are_among([Reason::Job]));
    }
}
