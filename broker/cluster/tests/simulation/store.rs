//! A model of the store: what a key-value store with revisions and a replicated log do when an operation arrives.

use std::collections::{BTreeMap, VecDeque};

use tautwire_cluster::names::{Key, LogSubject, Partition};
use tautwire_cluster::{Answer, Operation, Revision, Sequence};

#[derive(Default)]
pub(crate) struct Store {
    last: u64,
    keys: BTreeMap<Key, (Revision, Vec<u8>)>,
    subjects: BTreeMap<LogSubject, (Sequence, Vec<u8>)>,
    streams: BTreeMap<Partition, Stream>,
}

/// One partition of the log.
#[derive(Default)]
struct Stream {
    /// Groups that are gone by age.
    gone: u64,
    groups: VecDeque<Vec<u8>>,
}

/// What an operation has changed.
pub(crate) enum Change {
    Nothing,
    Key(Key, Revision, Vec<u8>),
    Group(Partition, Sequence, Vec<u8>),
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
                let stream = self.streams.entry(subject.partition).or_default();
                let sequence = stream.end();
                stream.groups.push_back(group.clone());
                self.subjects.insert(subject, (sequence, group.clone()));
                (Answer::Appended(sequence), Change::Group(subject.partition, sequence, group))
            }
            Operation::End(partition) => (Answer::End(self.end(partition)), Change::Nothing),
            Operation::Read { partition, from, max_bytes } | Operation::Follow { partition, from, max_bytes } => {
                (self.read(partition, from, max_bytes), Change::Nothing)
            }
        }
    }

    pub(crate) fn end(&self, partition: Partition) -> Sequence {
        self.streams.get(&partition).map_or(Sequence(1), Stream::end)
    }

    fn read(&self, partition: Partition, from: Sequence, max_bytes: usize) -> Answer {
        let Some(stream) = self.streams.get(&partition) else {
            return Answer::Groups { first: from, groups: Vec::new() };
        };
        let first = from.0.max(stream.gone + 1);
        let (mut groups, mut bytes) = (Vec::new(), 0);
        for (group, sequence) in stream.groups.iter().skip((first - stream.gone - 1) as usize).zip(first..) {
            if !groups.is_empty() && bytes + group.len() > max_bytes {
                break;
            }
            bytes += group.len();
            groups.push((Sequence(sequence), group.clone()));
        }
        Answer::Groups { first: Sequence(first), groups }
    }
}

impl Stream {
    fn end(&self) -> Sequence {
        Sequence(self.gone + self.groups.len() as u64 + 1)
    }
}
