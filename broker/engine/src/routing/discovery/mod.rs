//! Discovery of contracts by clients: retained messages below `$SYS/contracts/`, and responses to requests.

mod steps;

use std::collections::BTreeSet;

use tautwire_contracts::discovery::Documents;
use tautwire_protocol::PropertyId;

/// The topic for requests for pages of contracts.
const REQUEST: &str = "$SYS/contracts/request";

/// The topic for requests in the format of ProtoMQ.
const SERVICE_REQUEST: &str = "$SYS/discovery/request";

/// The contracts that have been published. Shard 0 publishes for all shards.
#[derive(Debug, Default)]
pub(crate) struct PublishedContracts {
    /// The number of the config that introduced these contracts.
    since: u64,
    /// Whether discovery is enabled.
    is_enabled: bool,
    /// The published documents, by topic without the prefix.
    names: BTreeSet<String>,
    /// The publication in progress.
    publication: Option<ContractPublication>,
}

/// Contracts that are being published.
#[derive(Debug)]
struct ContractPublication {
    /// `None` if discovery is disabled.
    documents: Option<Documents>,
    /// Published earlier and not found among `documents` yet; the rest at the end is removed.
    stale: BTreeSet<String>,
}

impl PublishedContracts {
    /// Nothing published yet.
    pub(crate) fn new(is_enabled: bool) -> PublishedContracts {
        PublishedContracts { is_enabled, ..PublishedContracts::default() }
    }
}

/// Whether a message to `topic` is a request that [`Shard::answer_discovery`](crate::Shard::answer_discovery) answers.
pub(crate) fn is_request(topic: &str) -> bool {
    matches!(topic, REQUEST | SERVICE_REQUEST)
}

/// A property with a length of two bytes.
pub(crate) fn push(properties: &mut Vec<u8>, id: PropertyId, value: &[u8]) {
    let length = value.len().min(usize::from(u16::MAX));
    properties.push(id as u8);
    properties.extend_from_slice(&(length as u16).to_be_bytes());
    properties.extend_from_slice(&value[..length]);
}
