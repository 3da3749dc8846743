//! What memory is held for.

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:literal,)*) => {
        /// What memory is held for. The sum of all kinds is what clients make the broker hold.
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

            /// What it is, for those who read the gauge.
            pub const fn meaning(self) -> &'static str {
                match self { $(Kind::$kind => concat!($($doc),+).trim_ascii(),)* }
            }
        }
    };
}

kinds! {
    /// Messages that somebody keeps: each counts once, however many queues, windows and outputs refer to it.
    Message "message",
    /// Records of messages that are on disk.
    Spilled "cold",
    /// Bytes of packets that are not complete yet, and of whole packets that wait to be let through.
    Input "input",
    /// Bytes that wait to be written to connections, without messages that are only referred to.
    Output "output",
    /// Entries of session queues.
    Queue "queue",
    /// Entries of the windows of messages that have been sent and not acknowledged.
    Window "window",
    /// Wills.
    Will "will",
    /// Topic filters, wherever they stand.
    Subscription "subscription",
    /// Topic aliases.
    Alias "alias",
    /// Batches of messages on their way between threads.
    Transit "transit",
    /// Searches for retained messages that a new subscription is owed.
    Replay "replay",
    /// Payloads while they are turned into another format.
    Contract "contract",
    /// Work that goes on over several turns, such as long SUBSCRIBE packets.
    Job "job",
    /// Sessions: client identifiers, packet identifiers and the places of sessions.
    Session "session",
    /// Connections, those before CONNECT included.
    Connection "connection",
    /// What TLS and WebSocket hold for connections.
    Transport "transport",
    /// Sessions and their messages a second time, while a snapshot of the log is made; sessions and topics while the log is read at the start.
    Snapshot "snapshot",
}

/// How many kinds there are.
pub(crate) const KINDS: usize = Kind::ALL.len();
