//! The caller's tag and the sequence number of an outgoing message.

/// An outgoing message of the session: the caller's tag and its sequence number in the store.
#[derive(Debug)]
pub(super) struct TrackedMessage<T> {
    /// `None` if an earlier process published it.
    pub(super) tag: Option<T>,
    /// 0 if it is not in a store.
    pub(super) sequence: u64,
}
