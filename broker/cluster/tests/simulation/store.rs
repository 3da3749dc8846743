//! A model of the store: what a key-value store with revisions, a replicated log, and a stream with one message for each subject do when an
//! operation arrives.

use std::collections::{BTreeMap, VecDeque};

use tautwire_cluster::mutant::{Mutant, is};
use tautwire_cluster::names::{ClientKey, Incarnation, Key, LogSubject, Partition};
use tautwire_cluster::{Answer, Operation, RetainedEntry, Revision, Scanned, ScannedGroup, Sequence};

/// The time after which a replaced leader knows that it was replaced.
const REPLACED_LEADER_MS: u64 = 10_000;

#[derive(Default)]
pub(crate) struct Store {
    last: u64,
    /// The time of its own clock, which jumps when another server becomes the leader.
    pub(crate) now_ms: u64,
    keys: BTreeMap<Key, Value>,
    /// When each incarnation wrote its first record.
    first_beats: BTreeMap<Incarnation, u64>,
    /// The deletion markers of removed keys.
    markers: BTreeMap<Key, Revision>,
    subjects: BTreeMap<LogSubject, BTreeMap<Sequence, Vec<u8>>>,
    streams: BTreeMap<Partition, Stream>,
    retained: BTreeMap<String, (Sequence, Value)>,
    retained_end: Sequence,
    /// The end of the retained stream over time.
    retained_ends: Vec<(u64, Sequence)>,
    /// The history of sessions, groups and the configuration.
    past: BTreeMap<Key, Vec<(u64, Found)>>,
    /// The history of retained messages.
    retained_past: BTreeMap<String, Vec<(u64, Sequence, Vec<u8>)>>,
    /// The time when each group was appended to the log.
    appended_at_ms: BTreeMap<(Partition, Sequence), u64>,
}

/// A partition of the log.
#[derive(Default)]
struct Stream {
    /// The number of groups that have expired.
    gone: u64,
    groups: VecDeque<Vec<u8>>,
}

#[derive(Clone)]
struct Value {
    revision: Revision,
    bytes: Vec<u8>,
    written_at_ms: u64,
    expires_at_ms: Option<u64>,
}

/// The revision and value of a key, if it exists.
type Found = Option<(Revision, Vec<u8>)>;

/// The change made by an operation.
pub(crate) enum Change {
    Nothing,
    Key(Key, Revision, Vec<u8>),
    Removed(Key),
    Group(Partition, Sequence, Vec<u8>),
    Retained(Vec<u8>),
}

impl Store {
    /// Removes everything that has expired since the last call. Returns the expired sessions.
    pub(crate) fn expire(&mut self) -> Vec<ClientKey> {
        let now_ms = self.now_ms;
        let is_over = |value: &Value| value.expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        self.retained.retain(|_, (_, value)| !is_over(value));
        let gone: Vec<_> = self.keys.iter().filter(|(_, value)| is_over(value)).map(|(key, _)| *key).collect();
        gone.iter().for_each(|key| self.remove(*key));
        gone.iter().filter_map(|key| if let Key::Session(client) = key { Some(*client) } else { None }).collect()
    }

    /// Returns the answer of a leader that was replaced some time ago.
    pub(crate) fn outdated(&self, operation: &Operation) -> Option<Answer> {
        match operation {
            Operation::Get(Key::Node(node)) => {
                let since_ms = self.first_beats.get(node)?;
                (self.now_ms < since_ms + REPLACED_LEADER_MS).then_some(Answer::Got(None))
            }
            Operation::Get(key) => Some(Answer::Got(self.before(*key))),
            Operation::Last(subject) => {
                let is_known = |sequence: &Sequence| {
                    self.appended_at_ms[&(subject.partition, *sequence)] + REPLACED_LEADER_MS <= self.now_ms
                };
                let groups = self.subjects.get(subject)?;
                Some(Answer::Last(groups.iter().rev().find(|(sequence, _)| is_known(sequence)).map(own)))
            }
            Operation::LastRetained(subject) => {
                let past = self.retained_past.get(subject)?;
                let before = past.iter().rev().find(|(at_ms, ..)| at_ms + REPLACED_LEADER_MS <= self.now_ms);
                Some(Answer::Last(before.map(|(_, sequence, value)| (*sequence, value.clone()))))
            }
            // Marking the end is a write, which such a leader cannot do.
            Operation::EndOfRetained if is(Mutant::TrustsOneServersEnd) => {
                Some(Answer::EndOfRetained(self.retained_before()))
            }
            _ => None,
        }
    }

    /// Returns the end of the retained stream that such a leader knows.
    fn retained_before(&self) -> Sequence {
        let before = self.retained_ends.iter().rev().find(|(at_ms, _)| at_ms + REPLACED_LEADER_MS <= self.now_ms);
        before.map_or(Sequence(0), |(_, end)| *end)
    }

    /// Returns what such a leader knows of a key.
    fn before(&self, key: Key) -> Found {
        let past = self.past.get(&key)?;
        past.iter().rev().find(|(at_ms, _)| at_ms + REPLACED_LEADER_MS <= self.now_ms)?.1.clone()
    }

    fn remember(&mut self, key: Key, found: Found) {
        if !matches!(key, Key::Node(_)) {
            self.past.entry(key).or_default().push((self.now_ms, found));
        }
    }

    fn retain_one_more(&mut self) -> Sequence {
        self.retained_end.0 += 1;
        self.retained_ends.push((self.now_ms, self.retained_end));
        self.retained_end
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = (Key, Revision, &[u8])> {
        self.keys.iter().map(|(key, value)| (*key, value.revision, &value.bytes[..]))
    }

    /// While another write of the same key or subject is in progress, a store may reject one that it would accept a moment later.
    pub(crate) fn apply(&mut self, operation: Operation, is_busy: bool) -> (Answer, Change) {
        let is_write = !matches!(
            operation,
            Operation::Get(_)
                | Operation::Last(_)
                | Operation::End(_)
                | Operation::Read { .. }
                | Operation::Follow { .. }
                | Operation::Next { .. }
                | Operation::Scan { .. }
                | Operation::ScanGroups { .. }
                | Operation::Nodes
                | Operation::LastRetained(_)
                | Operation::Mirror { .. }
        );
        if is_busy && is_write {
            return (Answer::Conflict, Change::Nothing);
        }
        match operation {
            Operation::Get(key) => {
                let value = self.keys.get(&key).map(|value| (value.revision, value.bytes.clone()));
                (Answer::Got(value), Change::Nothing)
            }
            Operation::Put { key, expected, value } => self.put(key, expected, value, None),
            Operation::PutFor { key, expected, value, for_s } => self.put(key, Some(expected), value, Some(for_s)),
            Operation::Remove { key, expected } => {
                if self.keys.get(&key).map(|value| value.revision) != Some(expected) {
                    return (Answer::Conflict, Change::Nothing);
                }
                self.remove(key);
                (Answer::Removed, Change::Removed(key))
            }
            Operation::Nodes => {
                let node = |(key, value): (&Key, &Value)| match key {
                    Key::Node(node) => Some((*node, value.revision, value.bytes.clone())),
                    _ => None,
                };
                (Answer::Nodes(self.keys.iter().filter_map(node).collect()), Change::Nothing)
            }
            Operation::ConfigHolds(expected) => {
                let holds = self.keys.get(&Key::Config).map(|value| value.revision) == expected;
                (if holds { Answer::Holds } else { Answer::Conflict }, Change::Nothing)
            }
            Operation::Scan { after, max } => (self.scan(after, max), Change::Nothing),
            Operation::ScanGroups { after, max } => (self.scan_groups(after, max), Change::Nothing),
            Operation::Last(subject) => {
                let groups = self.subjects.get(&subject);
                (Answer::Last(groups.and_then(|groups| groups.last_key_value()).map(own)), Change::Nothing)
            }
            Operation::Next { subject, from } => {
                let groups = self.subjects.get(&subject);
                (Answer::Last(groups.and_then(|groups| groups.range(from..).next()).map(own)), Change::Nothing)
            }
            Operation::Append { subject, expected, group } => {
                let groups = self.subjects.entry(subject).or_default();
                if groups.last_key_value().map(|(sequence, _)| *sequence) != expected {
                    return (Answer::Conflict, Change::Nothing);
                }
                let stream = self.streams.entry(subject.partition).or_default();
                let sequence = stream.end();
                stream.groups.push_back(group.clone());
                groups.insert(sequence, group.clone());
                self.appended_at_ms.insert((subject.partition, sequence), self.now_ms);
                (Answer::Appended(sequence), Change::Group(subject.partition, sequence, group))
            }
            Operation::End(partition) => (Answer::End(self.end(partition)), Change::Nothing),
            Operation::Read { partition, from, max_bytes } | Operation::Follow { partition, from, max_bytes } => {
                (self.read(partition, from, max_bytes), Change::Nothing)
            }
            Operation::LastRetained(subject) => {
                let found = self.retained.get(&subject).map(|(sequence, value)| (*sequence, value.bytes.clone()));
                (Answer::Last(found), Change::Nothing)
            }
            Operation::Retain { subject, expected, value, for_s } => {
                if self.retained.get(&subject).map(|(sequence, _)| *sequence) != expected {
                    return (Answer::Conflict, Change::Nothing);
                }
                let sequence = self.retain_one_more();
                let past = self.retained_past.entry(subject.clone()).or_default();
                past.push((self.now_ms, sequence, value.clone()));
                let stored = self.value(Revision(sequence.0), value.clone(), for_s);
                self.retained.insert(subject, (sequence, stored));
                (Answer::Appended(sequence), Change::Retained(value))
            }
            Operation::Mirror { after, max } => {
                (mirror(&self.retained, after, max, self.retained_end), Change::Nothing)
            }
            Operation::EndOfRetained => (Answer::EndOfRetained(self.retain_one_more()), Change::Nothing),
        }
    }

    /// Computes ages as of the arrival of an answer, however long it has taken: timestamps do not age in transit.
    pub(crate) fn hand_over(&self, mut answer: Answer) -> Answer {
        if let Answer::Mirrored { kept, .. } = &mut answer {
            kept.iter_mut().for_each(|kept| kept.age_ms = self.now_ms.saturating_sub(kept.age_ms));
        }
        answer
    }

    fn value(&self, revision: Revision, bytes: Vec<u8>, for_s: Option<u32>) -> Value {
        let expires_at_ms = for_s.map(|seconds| self.now_ms + u64::from(seconds) * 1000);
        Value { revision, bytes, written_at_ms: self.now_ms, expires_at_ms }
    }

    fn remove(&mut self, key: Key) {
        self.last += 1;
        self.remember(key, None);
        self.keys.remove(&key);
        self.markers.insert(key, Revision(self.last));
    }

    fn put(&mut self, key: Key, expected: Option<Revision>, bytes: Vec<u8>, for_s: Option<u32>) -> (Answer, Change) {
        if self.keys.get(&key).map(|value| value.revision) != expected {
            return (Answer::Conflict, Change::Nothing);
        }
        self.last += 1;
        if let Key::Node(node) = key {
            self.first_beats.entry(node).or_insert(self.now_ms);
        }
        let revision = Revision(self.last);
        self.remember(key, Some((revision, bytes.clone())));
        let value = self.value(revision, bytes.clone(), for_s);
        self.keys.insert(key, value);
        self.markers.remove(&key);
        (Answer::Put(revision), Change::Key(key, revision, bytes))
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

    fn scan(&self, after: Revision, max: usize) -> Answer {
        let (page, through, is_end) = self.page(after, max, |key| matches!(key, Key::Session(_)));
        let records = page.into_iter().filter_map(|(key, value)| match key {
            Key::Session(client) => Some(Scanned {
                client,
                revision: value.revision,
                age_ms: self.now_ms.saturating_sub(value.written_at_ms),
                value: value.bytes.clone(),
            }),
            _ => None,
        });
        Answer::Scanned { records: records.collect(), through, is_end }
    }

    fn scan_groups(&self, after: Revision, max: usize) -> Answer {
        let (page, through, is_end) = self.page(after, max, |key| matches!(key, Key::Group(_)));
        let records = page.into_iter().filter_map(|(key, value)| match key {
            Key::Group(group) => Some(ScannedGroup {
                group,
                revision: value.revision,
                age_ms: self.now_ms.saturating_sub(value.written_at_ms),
                value: value.bytes.clone(),
            }),
            _ => None,
        });
        Answer::ScannedGroups { records: records.collect(), through, is_end }
    }

    /// Returns a page of a bucket, in which removed keys count as well: the records, the end of the page, and whether there is no more.
    fn page(&self, after: Revision, max: usize, is_of: fn(&Key) -> bool) -> (Vec<(Key, &Value)>, Revision, bool) {
        let values = self.keys.iter().map(|(key, value)| (value.revision, *key, Some(value)));
        let markers = self.markers.iter().map(|(key, revision)| (*revision, *key, None));
        let mut all: Vec<_> =
            values.chain(markers).filter(|(revision, key, _)| is_of(key) && after < *revision).collect();
        all.sort_by_key(|(revision, ..)| *revision);
        let is_end = all.len() <= max;
        all.truncate(max);
        let through = all.last().map_or(after, |(revision, ..)| *revision);
        let page = all.into_iter().filter_map(|(_, key, value)| value.map(|value| (key, value)));
        (page.collect(), through, is_end)
    }
}

/// Returns a page of the stream of retained messages, which has these entries and ends there.
fn mirror(retained: &BTreeMap<String, (Sequence, Value)>, after: Sequence, max: usize, end: Sequence) -> Answer {
    let mut kept: Vec<_> = retained
        .values()
        .filter(|(sequence, _)| after < *sequence)
        .map(|(sequence, value)| RetainedEntry {
            sequence: *sequence,
            // The write time. `hand_over` converts it to an age.
            age_ms: value.written_at_ms,
            value: value.bytes.clone(),
        })
        .collect();
    kept.sort_by_key(|kept| kept.sequence);
    let is_end = kept.len() <= max;
    kept.truncate(max);
    let last = kept.last().map_or(after, |kept| kept.sequence);
    Answer::Mirrored { through: if is_end { end.max(after) } else { last }, kept, is_end }
}

impl Stream {
    fn end(&self) -> Sequence {
        Sequence(self.gone + self.groups.len() as u64 + 1)
    }
}

fn own((sequence, group): (&Sequence, &Vec<u8>)) -> (Sequence, Vec<u8>) {
    (*sequence, group.clone())
}
