//! Why a node cannot join the cluster.

use std::fmt;
use std::path::PathBuf;

/// Why a node cannot join the cluster, at least not now. Each message ends with a stable code, and none contains a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A server address is invalid.
    Address {
        /// The number of the address, from 1. The text itself may contain a secret.
        number: usize,
        /// The problem.
        why: &'static str,
    },
    /// A file that the configuration names cannot be used.
    File {
        /// The expected content.
        what: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// Why it cannot be used.
        why: String,
    },
    /// No server accepts this node.
    Connection {
        /// The error of the last server.
        why: String,
    },
    /// The servers do not meet the requirements.
    Server {
        /// What is missing.
        why: String,
    },
    /// A stream cannot be created or read.
    Stream {
        /// The name of the stream.
        name: String,
        /// The error of the servers.
        why: String,
        /// Whether the condition may be temporary.
        is_transient: bool,
    },
    /// A stream exists with settings that this broker cannot use.
    Differs {
        /// The name of the stream.
        name: String,
        /// The actual and the required value of each setting that differs.
        differences: Vec<String>,
    },
    /// Acknowledged data could be lost in a power failure.
    Unsynced {
        /// What is known about which server, and what to do.
        why: String,
    },
    /// The cluster's seed is missing, although data that depends on it exists.
    SeedLost,
    /// The new servers belong to another cluster, or to none.
    OtherCluster,
    /// The cluster's seed was written by a newer broker, or is damaged.
    SeedUnreadable,
    /// The system cannot provide a thread, random numbers or a timer.
    System {
        /// The system's error.
        why: String,
    },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Address { .. } => "cluster_address",
            Error::File { .. } => "cluster_file",
            Error::Connection { .. } => "cluster_connection",
            Error::Server { .. } => "cluster_server",
            Error::Stream { .. } => "cluster_stream",
            Error::Differs { .. } => "cluster_stream_differs",
            Error::Unsynced { .. } => "cluster_unsynced",
            Error::SeedLost => "cluster_seed_lost",
            Error::OtherCluster => "cluster_other",
            Error::SeedUnreadable => "cluster_seed_unreadable",
            Error::System { .. } => "cluster_system",
        }
    }

    /// Whether the condition may pass without a change of settings, so that the node retries.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Connection { .. } | Error::Stream { is_transient: true, .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Address { number, why } => {
                write!(f, "NATS server address {number} {why}; the format is nats://host:4222")
            }
            Error::File { what, path, why } => write!(f, "{}, which must contain {what}: {why}", path.display()),
            Error::Connection { why } => write!(f, "cannot connect to a NATS server: {why}"),
            Error::Server { why } => f.write_str(why),
            Error::Stream { name, why, .. } => write!(f, "stream {name}: {why}"),
            Error::Differs { name, differences } => {
                let differs = differences.join("; ");
                write!(f, "stream {name} has unsuitable settings: {differs}; change them with `nats stream edit {name}`")?;
                if differs.contains("num_replicas") {
                    f.write_str(", or lower cluster.replicas")?;
                }
                Ok(())
            }
            Error::Unsynced { why } => f.write_str(why),
            Error::SeedLost => f.write_str(
                "key `seed` of bucket tw_config is missing, but other streams hold data that depends on it; restore the bucket from a backup, or remove all streams of the cluster to start over",
            ),
            Error::OtherCluster => f.write_str(
                "these NATS servers belong to another cluster, or to none; restart the node to change its cluster",
            ),
            Error::SeedUnreadable => f.write_str(
                "key `seed` of bucket tw_config is damaged or has a newer version; upgrade this node, or restore the bucket from a backup",
            ),
            Error::System { why } => write!(f, "system error: {why}"),
        }?;
        write!(f, " [{}]", self.code())
    }
}

impl std::error::Error for Error {}
