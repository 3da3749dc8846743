//! Why a broker did not start.

use std::fmt;
use std::io;

use crate::data::DataError;
use crate::listener_config::ListenAddress;

/// Why a broker did not start.
#[derive(Debug)]
pub enum StartError {
    /// A listener cannot be bound.
    ListenerConfig(ListenAddress, io::Error),
    /// [`AcceptOptions::on_bound`](crate::AcceptOptions::on_bound) has failed, with this reason.
    AfterBind(String),
    /// A thread or a resource of it cannot be created.
    Thread(io::Error),
    /// The data directory cannot be used.
    Data(DataError),
    /// The broker is part of a cluster, whose store has the sessions, but a data directory is configured.
    DataInCluster,
    /// The broker is configured for a cluster, but was built without the feature `cluster`.
    NoCluster,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::ListenerConfig(ListenAddress::Network(address), error)
                if error.kind() == io::ErrorKind::AddrInUse =>
            {
                write!(
                    f,
                    "cannot listen on {address}: the port is in use; stop the other server or choose another port with --listen"
                )
            }
            StartError::ListenerConfig(place, error) => write!(f, "cannot listen on {place}: {error}"),
            StartError::AfterBind(why) => f.write_str(why),
            StartError::Thread(error) => write!(f, "cannot start a thread: {error}"),
            StartError::Data(error) => error.fmt(f),
            StartError::DataInCluster => f.write_str(
                "a cluster node stores no state locally; set data.path to an empty string [cluster_with_data]",
            ),
            StartError::NoCluster => f.write_str(
                "this broker was built without cluster support; build it with the feature `cluster` [cluster_not_built]",
            ),
        }
    }
}

impl std::error::Error for StartError {}
