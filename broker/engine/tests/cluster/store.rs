//! A model of the store: keys with revisions, a log in partitions, and a stream with one message for each subject.

use std::collections::BTreeMap;

use tautwire_cluster::names::{Incarnation, Key, LogSubject, PARTITIONS, Partition};
use tautwire_cluster::{Answer, Operation, RetainedEntry, Revision, Scanned, ScannedGroup, Sequence};

use crate::node::SEED;

#[derive(Default)]
pub(crate) struct Store {
    now_ms: u64,
    last_revision: u64,
    keys: BTreeMap<Key, Value>,
    subjects: BTreeMap<LogSubject, BTreeMap<Sequence, Vec<u8>>>,
    /// The groups of each partition; the first has sequence 1.
    log: [Vec<Vec<u8>>; PARTITIONS as usize],
    /// The number of groups of each partition that have aged out.
    aged_out: [u64; PARTITIONS as usize],
    retained: BTreeMap<String, (Sequence, Value)>,
    retained_end: Sequence,
    /// Appends to the log are lost.
    pub(crate) is_log_closed: bool,
}

#[derive(Clone)]
struct Value {
    revision: Revision,
    bytes: Vec<u8>,
    written_at_ms: u64,
    expires_at_ms: Option<u64>,
}

/// The change that an operation made.
pub(crate) enum Change {
    Nothing,
    Key(Key, Revision, Vec<u8>),
    Log(Partition),
}

impl Store {
    /// Advances the clock and removes expired values.
    pub(crate) fn pass_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let is_valid = |value: &Value| value.expires_at_ms.is_none_or(|at_ms| now_ms < at_ms);
        self.keys.retain(|_, value| is_valid(value));
        self.retained.retain(|_, (_, value)| is_valid(value));
    }

    /// Applies an operation. A read returns at most `most` groups.
    pub(crate) fn apply(&mut self, operation: Operation, is_busy: bool, most: usize) -> (Answer, Change) {
        match operation {
            Operation::Put { .. }
            | Operation::PutFor { .. }
            | Operation::Append { .. }
            | Operation::Retain { .. }
            | Operation::Remove { .. }
                if is_busy =>
            {
                (Answer::Conflict, Change::Nothing)
            }
            Operation::End(partition) => (Answer::End(self.end(partition)), Change::Nothing),
            Operation::Read { partition, from, .. } | Operation::Follow { partition, from, .. } => {
                (self.read(partition, from, most), Change::Nothing)
            }
            Operation::Remove { key, expected } => {
                if self.keys.get(&key).map(|value| value.revision) != Some(expected) {
                    return (Answer::Conflict, Change::Nothing);
                }
                self.keys.remove(&key);
                (Answer::Removed, Change::Nothing)
            }
            Operation::Scan { after, max } => (self.scan(after, max), Change::Nothing),
            Operation::ScanGroups { after, .. } => (self.scan_groups(after), Change::Nothing),
            Operation::Nodes => (Answer::Nodes(self.nodes()), Change::Nothing),
            // This store has no shared configuration.
            Operation::ConfigHolds(expected) => {
                (if expected.is_none() { Answer::Holds } else { Answer::Conflict }, Change::Nothing)
            }
            Operation::Get(key) => {
                let found = self.keys.get(&key).map(|value| (value.revision, value.bytes.clone()));
                (Answer::Got(found), Change::Nothing)
            }
            Operation::Last(subject) => {
                let groups = self.subjects.get(&subject);
                (Answer::Last(groups.and_then(|groups| groups.last_key_value()).map(cloned)), Change::Nothing)
            }
            Operation::Next { subject, from } => {
                let groups = self.subjects.get(&subject);
                (Answer::Last(groups.and_then(|groups| groups.range(from..).next()).map(cloned)), Change::Nothing)
            }
            Operation::Put { key, expected, value } => self.put(key, expected, value, None),
            Operation::PutFor { key, expected, value, for_s } => self.put(key, Some(expected), value, Some(for_s)),
            Operation::Append { subject, expected, group } => {
                let groups = self.subjects.entry(subject).or_default();
                if groups.last_key_value().map(|(sequence, _)| *sequence) != expected {
                    return (Answer::Conflict, Change::Nothing);
                }
                let log = &mut self.log[subject.partition.index()];
                log.push(group.clone());
                let sequence = Sequence(log.len() as u64);
                groups.insert(sequence, group);
                (Answer::Appended(sequence), Change::Log(subject.partition))
            }
            Operation::LastRetained(subject) => {
                let found = self.retained.get(&subject).map(|(sequence, value)| (*sequence, value.bytes.clone()));
                (Answer::Last(found), Change::Nothing)
            }
            Operation::Retain { subject, expected, value, for_s } => {
                if self.retained.get(&subject).map(|(sequence, _)| *sequence) != expected {
                    return (Answer::Conflict, Change::Nothing);
                }
                let sequence = Sequence(self.retained_end.0 + 1);
                self.retained_end = sequence;
                let value = self.value(Revision(sequence.0), value, for_s);
                self.retained.insert(subject, (sequence, value));
                (Answer::Appended(sequence), Change::Nothing)
            }
            Operation::Mirror { after, max } => (self.mirror(after, max), Change::Nothing),
            Operation::EndOfRetained => {
                self.retained_end.0 += 1;
                (Answer::EndOfRetained(self.retained_end), Change::Nothing)
            }
        }
    }

    /// Computes the ages when an answer reaches a node, however long it took.
    pub(crate) fn compute_ages(&self, mut answer: Answer) -> Answer {
        if let Answer::Mirrored { kept, .. } = &mut answer {
            kept.iter_mut().for_each(|entry| entry.age_ms = self.now_ms.saturating_sub(entry.age_ms));
        }
        answer
    }

    fn value(&self, revision: Revision, bytes: Vec<u8>, for_s: Option<u32>) -> Value {
        let expires_at_ms = for_s.map(|seconds| self.now_ms + u64::from(seconds) * 1000);
        Value { revision, bytes, written_at_ms: self.now_ms, expires_at_ms }
    }

    fn put(&mut self, key: Key, expected: Option<Revision>, bytes: Vec<u8>, for_s: Option<u32>) -> (Answer, Change) {
        if self.keys.get(&key).map(|value| value.revision) != expected {
            return (Answer::Conflict, Change::Nothing);
        }
        self.last_revision += 1;
        let revision = Revision(self.last_revision);
        let value = self.value(revision, bytes.clone(), for_s);
        self.keys.insert(key, value);
        (Answer::Put(revision), Change::Key(key, revision, bytes))
    }

    /// The number of session records.
    pub(crate) fn sessions(&self) -> usize {
        self.keys.keys().filter(|key| matches!(key, Key::Session(_))).count()
    }

    /// The session records after a revision.
    fn scan(&self, after: Revision, max: usize) -> Answer {
        let of_session = |(key, value): (&Key, &Value)| match key {
            Key::Session(client) => Some(Scanned {
                client: *client,
                revision: value.revision,
                age_ms: self.now_ms.saturating_sub(value.written_at_ms),
                value: value.bytes.clone(),
            }),
            _ => None,
        };
        let mut records: Vec<_> = self.keys.iter().filter_map(of_session).collect();
        records.retain(|record| after < record.revision);
        records.sort_by_key(|record| record.revision);
        let is_end = records.len() <= max;
        records.truncate(max);
        let through = records.last().map_or(after, |last| last.revision);
        Answer::Scanned { records, through, is_end }
    }

    /// The group records after a revision.
    fn scan_groups(&self, after: Revision) -> Answer {
        let of_group = |(key, value): (&Key, &Value)| match key {
            Key::Group(group) => Some(ScannedGroup {
                group: *group,
                revision: value.revision,
                age_ms: self.now_ms.saturating_sub(value.written_at_ms),
                value: value.bytes.clone(),
            }),
            _ => None,
        };
        let mut records: Vec<_> = self.keys.iter().filter_map(of_group).collect();
        records.retain(|record| after < record.revision);
        records.sort_by_key(|record| record.revision);
        let through = records.last().map_or(after, |last| last.revision);
        Answer::ScannedGroups { records, through, is_end: true }
    }

    fn mirror(&self, after: Sequence, max: usize) -> Answer {
        let entries = self.retained.values().filter(|(sequence, _)| after < *sequence);
        let mut entries: Vec<_> = entries
            .map(|(sequence, value)| RetainedEntry {
                sequence: *sequence,
                // The time of writing, which `compute_ages` converts to an age.
                age_ms: value.written_at_ms,
                value: value.bytes.clone(),
            })
            .collect();
        entries.sort_by_key(|entry| entry.sequence);
        let is_end = entries.len() <= max;
        entries.truncate(max);
        let last = entries.last().map_or(after, |entry| entry.sequence);
        Answer::Mirrored { through: if is_end { self.retained_end.max(after) } else { last }, kept: entries, is_end }
    }

    fn nodes(&self) -> Vec<(Incarnation, Revision, Vec<u8>)> {
        let of_node = |(key, value): (&Key, &Value)| match key {
            Key::Node(node) => Some((*node, value.revision, value.bytes.clone())),
            _ => None,
        };
        self.keys.iter().filter_map(of_node).collect()
    }

    /// Damages the record of a group.
    pub(crate) fn damage_group(&mut self, share: &str) {
        self.last_revision += 1;
        let revision = Revision(self.last_revision);
        let value = self.value(revision, vec![u8::MAX], None);
        self.keys.insert(Key::Group(SEED.group(share)), value);
    }

    /// The sequence of the next group.
    pub(crate) fn end(&self, partition: Partition) -> Sequence {
        Sequence(self.log[partition.index()].len() as u64 + 1)
    }

    /// Makes all existing groups age out.
    pub(crate) fn age_out(&mut self) {
        for (aged_out, groups) in self.aged_out.iter_mut().zip(&self.log) {
            *aged_out = groups.len() as u64;
        }
    }

    /// Reads a part of the log, at most `most` groups.
    fn read(&self, partition: Partition, from: Sequence, most: usize) -> Answer {
        let first = from.0.max(self.aged_out[partition.index()] + 1);
        let log = self.log[partition.index()].iter().zip(1..);
        let groups = log.filter(|(_, sequence)| first <= *sequence).take(most);
        let groups = groups.map(|(group, sequence)| (Sequence(sequence), group.clone())).collect();
        Answer::Groups { first: Sequence(first), groups }
    }
}

fn cloned((sequence, group): (&Sequence, &Vec<u8>)) -> (Sequence, Vec<u8>) {
    (*sequence, group.clone())
}
