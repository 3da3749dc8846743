//! Counts and recent samples of contract violations, for operators. They never contain payload data.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tautwire_contracts::{Catalogue, Violation};

use crate::text::truncated;

/// The maximum number of samples of one contract.
const SAMPLES_MAX: usize = 8;
/// The maximum length of each text.
const TEXT_MAX_BYTES: usize = 128;

/// A violation of a contract, once or several times in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViolationSample {
    /// The stable code of the rule.
    pub rule: &'static str,
    /// The path of the field; empty for the payload itself.
    pub path: Box<str>,
    /// The expected value.
    pub expected: Box<str>,
    /// The topic of the last message.
    pub topic: Box<str>,
    /// How many in a row.
    pub count: u64,
    /// When the last one occurred, in milliseconds since the Unix epoch.
    pub last_ms: u64,
}

/// The violations of one contract.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContractViolations {
    /// Violations since the contract was added, or since the start.
    pub count: u64,
    /// The last violations, in order of time.
    pub samples: VecDeque<ViolationSample>,
}

impl ContractViolations {
    fn note(&mut self, topic: &str, violation: &Violation, now_ms: u64) {
        self.count += 1;
        let path = violation.path();
        let topic = truncated(topic, TEXT_MAX_BYTES);
        let (rule, path, expected) =
            (violation.rule.code(), truncated(&path, TEXT_MAX_BYTES), truncated(violation.expected(), TEXT_MAX_BYTES));
        if let Some(last) = self.samples.back_mut()
            && (last.rule, &*last.path, &*last.expected) == (rule, path, expected)
        {
            last.count += 1;
            last.last_ms = now_ms;
            if &*last.topic != topic {
                last.topic = topic.into();
            }
            return;
        }
        self.push(ViolationSample {
            rule,
            path: path.into(),
            expected: expected.into(),
            topic: topic.into(),
            count: 1,
            last_ms: now_ms,
        });
    }

    fn push(&mut self, sample: ViolationSample) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    fn add(&mut self, other: &ContractViolations) {
        self.count += other.count;
        let mut samples: Vec<ViolationSample> = self.samples.drain(..).chain(other.samples.iter().cloned()).collect();
        samples.sort_by_key(|sample| sample.last_ms);
        samples.into_iter().for_each(|sample| self.push(sample));
    }
}

/// Violations by contract name. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ViolationReport(BTreeMap<Arc<str>, Arc<ContractViolations>>);

impl ViolationReport {
    /// The violations of a contract; `None` if there are none.
    pub fn of(&self, contract: &str) -> Option<&ContractViolations> {
        self.0.get(contract).map(|violations| &**violations)
    }

    /// Merges the reports of several shards.
    pub fn merge(reports: impl IntoIterator<Item = ViolationReport>) -> ViolationReport {
        let mut all = ViolationReport::default();
        for (name, violations) in reports.into_iter().flat_map(|report| report.0) {
            Arc::make_mut(all.0.entry(name).or_default()).add(&violations);
        }
        all
    }

    pub(crate) fn note(&mut self, contract: &str, topic: &str, violation: &Violation, now_ms: u64) {
        if !self.0.contains_key(contract) {
            self.0.insert(contract.into(), Arc::default());
        }
        if let Some(violations) = self.0.get_mut(contract) {
            Arc::make_mut(violations).note(topic, violation, now_ms);
        }
    }

    /// Removes contracts that no longer exist.
    pub(crate) fn retain_contracts(&mut self, contracts: &Catalogue) {
        self.0.retain(|name, _| contracts.named(name).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(path: &str, last_ms: u64) -> ViolationSample {
        let topic = "t".into();
        ViolationSample { rule: "type", path: path.into(), expected: "a number".into(), topic, count: 1, last_ms }
    }

    fn report(samples: impl IntoIterator<Item = ViolationSample>) -> ViolationReport {
        let samples: VecDeque<_> = samples.into_iter().collect();
        let violations = ContractViolations { count: 100, samples };
        ViolationReport([("c".into(), Arc::new(violations))].into())
    }

    #[test]
    fn violations_of_all_shards_are_merged_in_time_order() {
        let first = report((0..8).map(|at| sample("a", 2 * at)));
        let second = report((0..8).map(|at| sample("b", 2 * at + 1)));
        let merged = ViolationReport::merge([first, second, ViolationReport::default()]);
        let found = merged.of("c").expect("the contract was violated");
        assert_eq!(found.count, 200);
        assert_eq!(found.samples.iter().map(|sample| sample.last_ms).collect::<Vec<_>>(), (8..16).collect::<Vec<_>>());
        assert_eq!(merged.of("d"), None);
    }
}
