//! A model of the store: keys with revisions, and a log in partitions.

use std::collections::BTreeMap;

use tautwire_cluster::delivery::Messages;
use tautwire_cluster::names::{Incarnation, Key, LogSubject, PARTITIONS, Partition};
use tautwire_cluster::record::Place;
use tautwire_cluster::{Answer, Operation, Revision, Scanned, Sequence};
use tautwire_engine::{LogMessage, LogSpan};

#[derive(Default)]
pub(crate) struct Store {
    last_revision: u64,
    keys: BTreeMap<Key, (Revision, Vec<u8>)>,
    subjects: BTreeMap<LogSubject, (Sequence, Vec<u8>)>,
    /// By partition; the first has the sequence 1.
    log: [Vec<Vec<u8>>; PARTITIONS as usize],
    /// Groups at the beginning of each partition that have aged out.
    aged_out: [u64; PARTITIONS as usize],
}

/// What an operation has changed.
pub(crate) enum Change {
    Nothing,
    Key(Key, Revision, Vec<u8>),
    Log(Partition),
}

impl Store {
    pub(crate) fn apply(&mut self, operation: Operation, is_busy: bool) -> (Answer, Change) {
        match operation {
            Operation::Put { .. } | Operation::Append { .. } if is_busy => (Answer::Conflict, Change::Nothing),
            // Nothing is retained, expires or is swept here, and the log is read by the test.
            Operation::EndOfRetained => (Answer::EndOfRetained(Sequence(0)), Change::Nothing),
            Operation::Mirror { after, .. } => {
                (Answer::Mirrored { kept: Vec::new(), through: after, is_end: true }, Change::Nothing)
            }
            Operation::End(partition) => (Answer::End(self.end(partition)), Change::Nothing),
            Operation::Remove { key, expected } => {
                if self.keys.get(&key).map(|(revision, _)| *revision) != Some(expected) {
                    return (Answer::Conflict, Change::Nothing);
                }
                self.keys.remove(&key);
                (Answer::Removed, Change::Nothing)
            }
            Operation::Scan { after, max } => (self.scan(after, max), Change::Nothing),
            Operation::Nodes => (Answer::Nodes(self.nodes()), Change::Nothing),
            Operation::PutFor { .. }
            | Operation::Read { .. }
            | Operation::Follow { .. }
            | Operation::Next { .. }
            | Operation::LastRetained(_)
            | Operation::Retain { .. } => unreachable!("nobody asks for that here"),
            Operation::Get(key) => (Answer::Got(self.keys.get(&key).cloned()), Change::Nothing),
            Operation::Last(subject) => (Answer::Last(self.subjects.get(&subject).cloned()), Change::Nothing),
            Operation::Put { key, expected, value } => {
                if self.keys.get(&key).map(|(revision, _)| *revision) != expected {
                    return (Answer::Conflict, Change::Nothing);
                }
                self.last_revision += 1;
                let revision = Revision(self.last_revision);
                self.keys.insert(key, (revision, value.clone()));
                (Answer::Put(revision), Change::Key(key, revision, value))
            }
            Operation::Append { subject, expected, group } => {
                if self.subjects.get(&subject).map(|(sequence, _)| *sequence) != expected {
                    return (Answer::Conflict, Change::Nothing);
                }
                let log = &mut self.log[subject.partition.index()];
                log.push(group.clone());
                let sequence = Sequence(log.len() as u64);
                self.subjects.insert(subject, (sequence, group));
                (Answer::Appended(sequence), Change::Log(subject.partition))
            }
        }
    }

    /// Records of sessions behind a revision. None of them is older than a moment.
    fn scan(&self, after: Revision, max: usize) -> Answer {
        let of_session = |(key, (revision, value)): (&Key, &(Revision, Vec<u8>))| match key {
            Key::Session(client) => {
                Some(Scanned { client: *client, revision: *revision, age_ms: 0, value: value.clone() })
            }
            _ => None,
        };
        let mut records: Vec<_> = self.keys.iter().filter_map(of_session).collect();
        records.retain(|record| after < record.revision);
        records.sort_by_key(|record| record.revision);
        let is_end = records.len() <= max;
        records.truncate(max);
        Answer::Scanned { records, is_end }
    }

    fn nodes(&self) -> Vec<(Incarnation, Revision, Vec<u8>)> {
        let of_node = |(key, (revision, value)): (&Key, &(Revision, Vec<u8>))| match key {
            Key::Node(node) => Some((*node, *revision, value.clone())),
            _ => None,
        };
        self.keys.iter().filter_map(of_node).collect()
    }

    /// The sequence of the next group.
    pub(crate) fn end(&self, partition: Partition) -> Sequence {
        Sequence(self.log[partition.index()].len() as u64 + 1)
    }

    /// All groups so far age out.
    pub(crate) fn age(&mut self) {
        for (aged_out, groups) in self.aged_out.iter_mut().zip(&self.log) {
            *aged_out = groups.len() as u64;
        }
    }

    /// A part of the log, of so many groups at most.
    pub(crate) fn read(&self, partition: Partition, from: Sequence, most: u64) -> LogSpan {
        let until = Sequence(self.end(partition).0.min(from.0.saturating_add(most)).max(from.0));
        let (mut messages, mut lost) = (Vec::new(), 0);
        for sequence in from.0..until.0 {
            if sequence <= self.aged_out[partition.index()] {
                lost += 1;
                continue;
            }
            let Some(group) = sequence.checked_sub(1).and_then(|at| self.log[partition.index()].get(at as usize))
            else {
                continue;
            };
            let group = Messages::new(group).expect("a group");
            messages.extend(group.iter().map(|message| LogMessage {
                place: Place { sequence: Sequence(sequence), index: message.index },
                publisher: message.publisher.client,
                stored: message.stored.into(),
            }));
        }
        LogSpan { partition, until, messages, lost }
    }
}
