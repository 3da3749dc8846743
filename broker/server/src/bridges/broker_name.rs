//! How this broker, or its cluster, is known to others.

use crate::cluster::Node;
use crate::identity::random;
use crate::time::since_epoch;

/// The names under which bridges connect.
#[derive(Debug, Clone)]
pub(super) struct BrokerName {
    /// Identifies the broker or the cluster in the hops of messages.
    pub(super) id: String,
    /// The beginning of default client identifiers. It must stay the same, because they name sessions at other brokers.
    client_id_prefix: String,
}

impl BrokerName {
    pub(super) fn new(node: Option<&Node>) -> BrokerName {
        match node {
            Some(node) => {
                let id = node.cluster_id();
                BrokerName { client_id_prefix: format!("tautwire-{id}"), id }
            }
            None => BrokerName {
                id: random_id(),
                client_id_prefix: format!("tautwire-{}", rustix::system::uname().nodename().to_string_lossy()),
            },
        }
    }

    /// The client identifier of a bridge that has none in the configuration.
    pub(super) fn client_id(&self, bridge: &str) -> String {
        format!("{}-{bridge}", self.client_id_prefix)
    }
}

/// A random number, because a name that two brokers have by accident would drop messages. It is of this process: messages do not circulate
/// for longer.
fn random_id() -> String {
    let mut bytes = [0; 8];
    // Without random numbers, the time and the process make a number that is unlikely to repeat.
    if random(&mut bytes).is_err() {
        bytes = (since_epoch().as_nanos() as u64 ^ u64::from(std::process::id())).to_le_bytes();
    }
    format!("{:016x}", u64::from_le_bytes(bytes))
}
