//! The shared configuration: each revision is based on the previous one, so accepted changes are kept.

use std::collections::BTreeMap;

use tautwire_cluster::ProposalOutcome;
use tautwire_cluster::record::{ConfigPart, ConfigRecord};

#[derive(Default)]
pub(crate) struct Configurations {
    /// The proposals, and whether they were accepted.
    proposed: BTreeMap<u64, bool>,
    last: u64,
    /// The content of the store.
    pub(crate) held: Vec<u64>,
    pub(crate) number: u64,
}

/// A configuration is the list of the proposals that led to it.
pub(crate) fn parts_of(list: &[u64]) -> Vec<ConfigPart> {
    vec![ConfigPart { name: "list".to_owned(), bytes: list.iter().flat_map(|one| one.to_le_bytes()).collect() }]
}

pub(crate) fn list_of(parts: &[ConfigPart]) -> Vec<u64> {
    let bytes = parts.iter().flat_map(|part| part.bytes.chunks_exact(8));
    bytes.map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes"))).collect()
}

impl Configurations {
    pub(crate) fn propose(&mut self) -> u64 {
        self.last += 1;
        self.proposed.insert(self.last, false);
        self.last
    }

    pub(crate) fn written(&mut self, value: &[u8]) {
        let record = ConfigRecord::decode(value).expect("a configuration");
        let list = list_of(&record.parts);
        assert_eq!(record.number, self.number + 1, "a revision is missing");
        assert_eq!(
            list.split_last().map(|(_, before)| before),
            Some(&self.held[..]),
            "a revision is not made on the last"
        );
        (self.held, self.number) = (list, record.number);
    }

    pub(crate) fn decided(&mut self, ticket: u64, outcome: ProposalOutcome) {
        let is_there = self.held.contains(&ticket);
        match outcome {
            ProposalOutcome::Accepted(_) => {
                assert!(is_there, "proposal {ticket} was accepted but is missing");
                self.proposed.insert(ticket, true);
            }
            ProposalOutcome::Outdated(_) | ProposalOutcome::TooLarge => {
                assert!(!is_there, "proposal {ticket} was rejected but exists: {outcome:?}");
            }
            ProposalOutcome::Overtaken(_) | ProposalOutcome::Unavailable => {}
        }
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.proposed.values().filter(|is_accepted| **is_accepted).count() as u64
    }
}
