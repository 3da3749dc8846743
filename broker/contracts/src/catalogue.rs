//! The set of a broker's contracts.

use std::sync::Arc;

use tautwire_topics::FilterTree;

use crate::contract::{Contract, OnViolation};

/// Contracts with disjoint topics. Immutable; a change creates a new catalogue.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// Sorted by name.
    contracts: Vec<Arc<Contract>>,
    by_topic: FilterTree<u32>,
}

impl Catalogue {
    /// Creates a catalogue of contracts with different names and disjoint topics.
    pub(crate) fn new(mut contracts: Vec<Arc<Contract>>) -> Catalogue {
        contracts.sort_by(|a, b| a.name().cmp(b.name()));
        let mut by_topic = FilterTree::new();
        for (place, contract) in contracts.iter().enumerate() {
            by_topic.insert(contract.topics().filter(), place as u32);
        }
        Catalogue { contracts, by_topic }
    }

    /// The contract for a topic. Walks a tree: cache the result while topics repeat.
    pub fn find(&self, topic: &str) -> Option<&Arc<Contract>> {
        let mut found = None;
        if !self.contracts.is_empty() {
            self.by_topic.matches(topic, &mut |_, places| found = places.first().copied().or(found));
        }
        self.contracts.get(found? as usize)
    }

    /// The contract with this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Contract>> {
        let place = self.contracts.binary_search_by(|contract| contract.name().cmp(name)).ok()?;
        Some(&self.contracts[place])
    }

    /// All contracts, sorted by name.
    pub fn contracts(&self) -> &[Arc<Contract>] {
        &self.contracts
    }

    /// The contracts that deliver payloads which violate them, sorted by name.
    pub fn observing(&self) -> impl Iterator<Item = &Contract> {
        self.contracts.iter().map(|contract| &**contract).filter(|it| it.on_violation() == OnViolation::Observe)
    }
}
