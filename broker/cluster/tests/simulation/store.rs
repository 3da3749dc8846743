//! A model of the store: what a key-value store with revisions and a replicated log do when an operation arrives.

use std::collections::BTreeMap;

use tautwire_cluster::names::{Key, LogSubject};
use tautwire_cluster::{Answer, Operation, Revision, Sequence};

#[derive(Default)]
pub(crate) struct Store {
    last: u64,
    keys: BTreeMap<Key, (Revision, Vec<u8>)>,
    subjects: BTreeMap<LogSubject, (Sequence, Vec<u8>)>,
}

/// What an operation has changed.
pub(crate) enum Change {
    Nothing,
    Key(Key, Revision, Vec<u8>),
    Group(Vec<u8>),
}

impl Store {
    /// While another write of the same key or subject is under way, a store may refuse one that it would take a moment later.
    pub(crate) fn apply(&mut self, operation: Operation, is_busy: bool) -> (Answer, Change) {
        match operation {
            Operation::Put { .. } | Operation::Append { .. } if is_busy => (Answer::Conflict, Change::Nothing),
            Operation::Get(key) => (Answer::Got(self.keys.get(&key).cloned()), Change::Nothing),
            Operation::Last(subject) => (Answer::Last(self.subjects.get(&subject).cloned()), Change::Nothing),
            Operation::Put { key, expected, value } => {
                if self.keys.get(&key).map(|(revision, _)| *revision) != expected {
                    return (Answer::Conflict, Change::Nothing);
                }
                self.last += 1;
                let revision = Revision(self.last);
                self.keys.insert(key, (revision, value.clone()));
                (Answer::Put(revision), Change::Key(key, revision, value))
            }
            Operation::Append { subject, expected, group } => {
                if self.subjects.get(&subject).map(|(sequence, _)| *sequence) != expected {
                    return (Answer::Conflict, Change::Nothing);
                }
                self.last += 1;
                let sequence = Sequence(self.last);
                self.subjects.insert(subject, (sequence, group.clone()));
                (Answer::Appended(sequence), Change::Group(group))
            }
        }
    }
}
