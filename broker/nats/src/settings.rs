//! What a node is set to, as far as its way to NATS goes.

use std::path::PathBuf;

use crate::connection::Address;

/// How a node reaches the NATS servers, and what it asks of them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the servers are, and who this node is to them.
    pub access: Access,
    /// What operators call this node.
    pub node_name: String,
    /// What the node decides by.
    pub member: tautwire_cluster::Settings,
    /// What the servers must promise.
    pub storage: Storage,
    /// Times.
    pub times: Times,
    /// Limits.
    pub limits: Limits,
}

/// Where the servers are, and who this node is to them. It can be changed while the node serves.
#[derive(Debug, Clone)]
pub struct Access {
    /// Servers, any of which will do. Others are learnt from them.
    pub servers: Vec<Address>,
    /// How this node says who it is.
    pub credentials: Credentials,
    /// How the servers say who they are.
    pub tls: Tls,
}

/// How a node says who it is. Files are read anew for each connection, so a secret that has been replaced holds for the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Not at all.
    None,
    /// A file with a JWT and the seed of an NKey, as `nsc` writes it.
    File(PathBuf),
    /// A file with the seed of an NKey.
    NKey(PathBuf),
    /// A name, and a file with the password.
    Password {
        /// The name.
        user: String,
        /// The file.
        file: PathBuf,
    },
    /// A file with a token.
    Token(PathBuf),
}

/// TLS towards the servers. Files are read anew for each connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Never without TLS, whatever the server says.
    pub is_required: bool,
    /// Authorities that may vouch for a server; without any, those of the system.
    pub authorities: Option<PathBuf>,
    /// A certificate of this node and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// What the servers must promise, so that nothing that was acknowledged is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// How many servers hold each message. Fewer than 3 is weaker than what the broker promises by default.
    pub replicas: u8,
    /// How it is known that servers write to disk before they confirm.
    pub syncing: Syncing,
    /// How long a message stays in the log, in seconds. For streams that are made; an operator may change it later.
    pub log_max_age_s: u64,
    /// How large the log of one partition becomes, in bytes. For streams that are made; an operator may change it later.
    pub log_max_bytes: u64,
}

/// How it is known that servers write to disk before they confirm (`sync_interval: always`). Clients are not told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Syncing {
    /// The monitoring addresses of all servers say it: `host:port`, by HTTP.
    Monitored(Vec<String>),
    /// The operator says it.
    Promised,
    /// They do not, and the operator accepts that a power cut may lose what was acknowledged.
    Weaker,
}

/// Times, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// After this time without a word, a server is asked whether it is there. After three it is given up.
    pub ping_ms: u64,
    /// How long a server may take to let this node in.
    pub connect_ms: u64,
    /// The longest pause between two attempts to connect.
    pub reconnect_max_ms: u64,
    /// After this time the fate of an operation is unknown.
    pub operation_ms: u64,
    /// An operation that fails at once is answered only after this time, so that nobody asks as fast as they can.
    pub failure_pause_ms: u64,
    /// How long a node that stops waits for what is under way.
    pub stop_ms: u64,
}

/// Limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Requests of the shards that wait for the node's thread.
    pub commands_max: usize,
    /// The same in bytes.
    pub commands_max_bytes: usize,
    /// Commands of clients whose messages find no room in their partition, in bytes. Beyond it, no commands are taken at all.
    pub deferred_max_bytes: usize,
    /// QoS 0 messages that wait to be given to the bus.
    pub bus_max: usize,
    /// The same in bytes.
    pub bus_max_bytes: usize,
    /// What has come by one subscription and was not taken.
    pub subscription_max: usize,
    /// What the client of NATS holds that was not yet written to the socket, in messages.
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
