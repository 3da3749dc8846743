//! Clients are told of the contracts: by retained messages below `$SYS/contracts/`, and on request.

mod steps;

use std::collections::BTreeSet;

use tautwire_contracts::discovery::Documents;
use tautwire_protocol::PropertyId;

/// Requests for pages of contracts, and where they are answered if they do not say.
const REQUEST: &str = "$SYS/contracts/request";

/// The same as ProtoMQ has them.
const SERVICE_REQUEST: &str = "$SYS/discovery/request";

/// What has been published of the contracts. Shard 0 publishes for all.
#[derive(Debug, Default)]
pub(crate) struct PublishedContracts {
    /// The number of the config with which these contracts came.
    since: u64,
    /// Whether clients are told at all.
    is_enabled: bool,
    /// The documents that are there, by what comes behind the prefix in their topics.
    names: BTreeSet<String>,
    /// What is still to be said of the contracts that hold.
    publication: Option<ContractPublication>,
}

/// Contracts that are being published.
#[derive(Debug)]
struct ContractPublication {
    /// `None` where clients are not to be told.
    documents: Option<Documents>,
    /// Published before and not met among `documents` yet; what is left at the end is gone.
    stale: BTreeSet<String>,
}

impl PublishedContracts {
    /// Nothing yet.
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
