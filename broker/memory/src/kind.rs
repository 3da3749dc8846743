//! The purposes that memory is held for.

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:literal,)*) => {
        /// What memory is held for. The sum of all kinds is the memory that clients cause the broker to hold.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $($(#[doc = $doc])+ $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// The name of its gauge.
            pub const fn gauge(self) -> &'static str {
                match self { $(Kind::$kind => concat!("memory_", $name, "_bytes"),)* }
            }

            /// The description of its gauge.
            pub const fn meaning(self) -> &'static str {
                match self { $(Kind::$kind => concat!($($doc),+).trim_ascii(),)* }
            }
        }
    };
}

kinds! {
    /// Messages: each counts once, however many queues, windows and output buffers refer to it.
    Message "message",
    /// Records of messages that are spilled to disk.
    Spilled "spill_index",
    /// Bytes of incomplete packets, and of complete packets whose processing is paused.
    Input "input",
    /// Bytes that wait to be written to connections, except messages that are only referenced.
    Output "output",
    /// Entries of session queues.
    Queue "queue",
    /// Entries of the windows of sent and unacknowledged messages.
    Window "in_flight",
    /// Wills.
    Will "will",
    /// Topic filters, in subscriptions and elsewhere.
    Subscription "subscription",
    /// Topic aliases.
    Alias "alias",
    /// Batches of messages in transit between threads.
    Transit "shard_batch",
    /// Pending searches for retained messages of new subscriptions.
    Replay "retained_scan",
    /// Payloads while they are transcoded to another format.
    Contract "transcoding",
    /// Work that spans several turns, such as long SUBSCRIBE packets.
    Job "deferred_work",
    /// Sessions: client identifiers, packet identifiers and the slots of sessions.
    Session "session",
    /// Connections, including those before CONNECT.
    Connection "connection",
    /// TLS and WebSocket state of connections.
    Transport "transport",
    /// Copies of sessions and their messages while a snapshot of the log is written; sessions and topics while the log is read at startup.
    Snapshot "snapshot",
}

/// How many kinds there are.
pub(crate) const KINDS: usize = Kind::ALL.len();
