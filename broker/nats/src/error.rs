//! Why a node cannot take part in the cluster.

use std::fmt;
use std::path::PathBuf;

/// Why a node cannot take part in the cluster, at least not now. Each has a stable code at the end of its text, and none tells a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A server's address cannot be read.
    Address {
        /// Which one, counted from 1: the text itself may hold a secret.
        number: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file that the configuration names cannot be used.
    File {
        /// What it should hold.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// Why it cannot be used.
        why: String,
    },
    /// No server lets this node in.
    Connection {
        /// What the last one said.
        why: String,
    },
    /// The servers are not made for this.
    Server {
        /// What they lack.
        why: String,
    },
    /// A stream cannot be made or read.
    Stream {
        /// Which.
        name: String,
        /// What the servers say.
        why: String,
        /// Whether it may be otherwise in a moment.
        is_passing: bool,
    },
    /// A stream is there and is not what this broker needs.
    Differs {
        /// Which.
        name: String,
        /// What it has and what it must have, for each setting that differs.
        differences: Vec<String>,
    },
    /// What is acknowledged could be lost in a power cut.
    Unsynced {
        /// What is known of which server, and what to do.
        why: String,
    },
    /// The cluster's seed is gone, and what it has written is still there.
    SeedLost,
    /// The servers that are to be used from now on have another cluster, or none.
    OtherCluster,
    /// The cluster's seed was written by a newer broker, or is damaged.
    SeedUnreadable,
    /// The system gives no thread, no random numbers or no timer.
    System {
        /// What it says.
        why: String,
    },
}

impl Error {
    /// The stable code.
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

    /// Whether it may be otherwise in a moment, without anybody changing a setting: then it is tried again.
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Connection { .. } | Error::Stream { is_passing: true, .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Address { number, why } => {
                write!(f, "address {number} of the NATS servers {why}; it looks like nats://host:4222")
            }
            Error::File { what, path, why } => write!(f, "{}, which should hold {what}: {why}", path.display()),
            Error::Connection { why } => write!(f, "no NATS server can be used: {why}"),
            Error::Server { why } => f.write_str(why),
            Error::Stream { name, why, .. } => write!(f, "stream {name}: {why}"),
            Error::Differs { name, differences } => {
                let differs = differences.join("; ");
                write!(f, "stream {name} is not what this broker needs: {differs}; change it with `nats stream edit {name}`")?;
                if differs.contains("num_replicas") {
                    f.write_str(", or say by cluster.replicas that fewer servers are enough")?;
                }
                Ok(())
            }
            Error::Unsynced { why } => f.write_str(why),
            Error::SeedLost => f.write_str(
                "key `seed` of bucket tw_config is gone, and other streams hold what was named by it; restore the bucket from a backup, or remove all streams of the cluster to begin anew",
            ),
            Error::OtherCluster => f.write_str(
                "these NATS servers have another cluster, or none; a node changes its cluster only by starting anew",
            ),
            Error::SeedUnreadable => f.write_str(
                "key `seed` of bucket tw_config is damaged or of a newer version; upgrade this node, or restore the bucket from a backup",
            ),
            Error::System { why } => write!(f, "the system refuses: {why}"),
        }?;
        write!(f, " [{}]", self.code())
    }
}

impl std::error::Error for Error {}
