//! The settings of a node for its connection to NATS.

use std::path::PathBuf;

use crate::connection::Address;

/// How a node reaches the NATS servers, and what it requires of them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The servers and the credentials.
    pub access: Access,
    /// The name of the node.
    pub node_name: String,
    /// The settings of the cluster member.
    pub member: tautwire_cluster::Settings,
    /// The storage guarantees required of the servers.
    pub storage: Storage,
    /// Times.
    pub times: Times,
    /// Limits.
    pub limits: Limits,
}

/// The servers and the credentials. Can be changed at runtime.
#[derive(Debug, Clone)]
pub struct Access {
    /// Some servers of the NATS cluster. The others are discovered.
    pub servers: Vec<Address>,
    /// The credentials of this node.
    pub credentials: Credentials,
    /// The TLS settings.
    pub tls: Tls,
}

/// The credentials of a node. Files are read again for each connection, so a replaced secret applies to the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// No authentication.
    None,
    /// A file with a JWT and the seed of an NKey, as `nsc` writes it.
    File(PathBuf),
    /// A file with the seed of an NKey.
    NKey(PathBuf),
    /// A user name, and a file with the password.
    Password {
        /// The user name.
        user: String,
        /// The file.
        file: PathBuf,
    },
    /// A file with a token.
    Token(PathBuf),
}

/// TLS settings for the servers. Files are read again for each connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Refuses connections without TLS, whatever the server offers.
    pub is_required: bool,
    /// The certificate authorities that are trusted; the system's if `None`.
    pub authorities: Option<PathBuf>,
    /// The certificate and the key of this node.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// The storage guarantees required of the servers, so that no acknowledged data is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// The number of servers that store each message. Fewer than 3 is weaker than the broker's default guarantee.
    pub replicas: u8,
    /// How to verify that servers write to disk before they confirm.
    pub syncing: Syncing,
    /// The retention time of the log in seconds. Applies when streams are created; an operator may change it later.
    pub log_max_age_s: u64,
    /// The size limit of the log of one partition in bytes. Applies when streams are created; an operator may change it later.
    pub log_max_bytes: u64,
}

/// How to verify that servers write to disk before they confirm (`sync_interval: always`). The NATS protocol does not tell clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Syncing {
    /// Ask the monitoring addresses of all servers: `host:port`, over HTTP.
    Monitored(Vec<String>),
    /// The operator guarantees it.
    Promised,
    /// Servers do not, and the operator accepts that a power failure may lose acknowledged data.
    Weaker,
}

/// Timeouts and intervals, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// The interval of pings to a silent server. After three without an answer, the connection is closed.
    pub ping_ms: u64,
    /// The timeout of connecting to a server.
    pub connect_ms: u64,
    /// The longest pause between two attempts to connect.
    pub reconnect_max_ms: u64,
    /// The timeout after which the outcome of an operation is unknown.
    pub operation_ms: u64,
    /// The delay before the immediate failure of an operation is reported, so that it is not retried in a tight loop.
    pub failure_pause_ms: u64,
    /// How long a stopping node waits for pending work.
    pub stop_ms: u64,
}

/// Limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The number of pending requests of the shards.
    pub commands_max: usize,
    /// The bytes of pending requests of the shards.
    pub commands_max_bytes: usize,
    /// The bytes of deferred commands, whose messages wait for their partition. Above the limit, no commands are accepted.
    pub deferred_max_bytes: usize,
    /// The number of pending QoS 0 messages to the bus.
    pub bus_max: usize,
    /// The bytes of pending QoS 0 messages to the bus.
    pub bus_max_bytes: usize,
    /// The number of received and unprocessed messages of one subscription.
    pub subscription_max: usize,
    /// The number of messages that the NATS client buffers before they are written to the socket.
    pub outgoing_max: usize,
}

impl Default for Storage {
    fn default() -> Storage {
        Storage {
            replicas: 3,
            syncing: Syncing::Monitored(Vec::new()),
            log_max_age_s: 7 * 24 * 60 * 60,
            log_max_bytes: 1024 * 1024 * 1024,
        }
    }
}

impl Default for Times {
    fn default() -> Times {
        Times {
            ping_ms: 1500,
            connect_ms: 2000,
            reconnect_max_ms: 1000,
            operation_ms: 1000,
            failure_pause_ms: 50,
            stop_ms: 2000,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            commands_max: 8192,
            commands_max_bytes: 32 * 1024 * 1024,
            deferred_max_bytes: 64 * 1024 * 1024,
            bus_max: 16_384,
            bus_max_bytes: 16 * 1024 * 1024,
            subscription_max: 65_536,
            outgoing_max: 4096,
        }
    }
}
