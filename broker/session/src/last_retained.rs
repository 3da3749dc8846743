//! What topics retain, as far as a log has been read.

use std::hash::{BuildHasher, RandomState};

use tautwire_message::{Body, Spilled};

/// The last change of each topic. There may be millions: a block of memory for each of them would take time, and leave holes between what stays
/// when the start is over. So all of them together have a few large ones.
#[derive(Debug, Default)]
pub struct LastRetained {
    /// Their texts, one behind the other.
    topics: String,
    changes: Vec<LastChange>,
    /// A change is at the place that the hash of its topic names, or behind it. A power of two of places, and half of them at least are vacant.
    slots: Vec<TableSlot>,
    /// The change that was noted last.
    last_recorded_index: usize,
    hasher: RandomState,
}

#[derive(Debug)]
struct LastChange {
    /// Where the topic begins and ends.
    topic: (usize, usize),
    sequence: u64,
    /// `None` where the topic was cleared, since an older change may follow.
    body: Option<Body>,
}

/// The index of a change and 1, and above it the upper bits of the hash of its topic: most other topics need not be looked at, which lie far
/// apart in memory. 0 is vacant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TableSlot(u64);

impl TableSlot {
    const VACANT: TableSlot = TableSlot(0);
    const INDEX_BITS: u32 = 40;

    fn new(index: usize, hash: u64) -> TableSlot {
        TableSlot(hash >> TableSlot::INDEX_BITS << TableSlot::INDEX_BITS | (index as u64 + 1))
    }

    fn is_of(self, hash: u64) -> bool {
        self.0 >> TableSlot::INDEX_BITS == hash >> TableSlot::INDEX_BITS
    }

    /// `None` where it is vacant.
    fn index(self) -> Option<usize> {
        ((self.0 & ((1 << TableSlot::INDEX_BITS) - 1)) as usize).checked_sub(1)
    }
}

/// Places that there are at first.
const SLOTS_MIN: usize = 64;

impl LastRetained {
    /// A change of what `topic` retains; one with a lower number than another one is of no account.
    pub(crate) fn record(&mut self, topic: &str, sequence: u64, body: Option<Body>) {
        if self.slots.len() < 2 * (self.changes.len() + 1) {
            self.grow_slots();
        }
        let hash = self.hasher.hash_one(topic);
        match self.find(topic, hash) {
            Ok(index) => {
                let last = &mut self.changes[index];
                if sequence > last.sequence {
                    (last.sequence, last.body) = (sequence, body);
                }
                self.last_recorded_index = index;
            }
            Err(place) => {
                let (start, index) = (self.topics.len(), self.changes.len());
                self.topics.push_str(topic);
                self.changes.push(LastChange { topic: (start, self.topics.len()), sequence, body });
                self.slots[place] = TableSlot::new(index, hash);
                self.last_recorded_index = index;
            }
        }
    }

    /// The change that was noted last, or the one of its topic that it was of no account beside.
    pub(crate) fn last_recorded(&self) -> usize {
        self.last_recorded_index
    }

    /// A message that a change brought, see [`LastRetained::last_recorded`], is not in memory any more.
    pub(crate) fn spill(&mut self, index: usize, cold: &Spilled) {
        if let Some(LastChange { body: Some(body @ Body::Loaded(_)), .. }) = self.changes.get_mut(index)
            && body.id() == cold.id()
        {
            *body = Body::Spilled(cold.clone());
        }
    }

    /// About how many bytes they take, without messages.
    pub(crate) fn held_bytes(&self) -> usize {
        self.topics.len() + size_of_val(&*self.changes) + size_of_val(&*self.slots)
    }

    /// All changes by topic, each with its number.
    pub(crate) fn by_topic(&self) -> impl Iterator<Item = (&str, u64, Option<&Body>)> {
        let mut changes: Vec<_> = self.changes.iter().collect();
        changes.sort_unstable_by_key(|change| self.topic(change));
        changes.into_iter().map(move |change| (self.topic(change), change.sequence, change.body.as_ref()))
    }

    /// What topics retain, in the order in which the log first spoke of them: topic, number of the change, and message.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64, &Body)> {
        self.changes.iter().filter_map(move |change| Some((self.topic(change), change.sequence, change.body.as_ref()?)))
    }

    /// Gives topics and messages away, in the same order, until `take` fails.
    ///
    /// # Errors
    /// That of `take`.
    pub fn into_entries<E>(self, mut take: impl FnMut(&str, Body) -> Result<(), E>) -> Result<(), E> {
        let LastRetained { topics, changes, .. } = self;
        for LastChange { topic: (start, end), body, .. } in changes {
            if let Some(body) = body {
                take(&topics[start..end], body)?;
            }
        }
        Ok(())
    }

    fn topic(&self, change: &LastChange) -> &str {
        let (start, end) = change.topic;
        &self.topics[start..end]
    }

    /// The index of a topic's change, or the place for one.
    fn find(&self, topic: &str, hash: u64) -> Result<usize, usize> {
        let Some(mask) = self.slots.len().checked_sub(1) else { return Err(0) };
        let mut at = hash as usize & mask;
        loop {
            let place = self.slots[at];
            match place.index() {
                None => return Err(at),
                Some(index) if place.is_of(hash) && self.topic(&self.changes[index]) == topic => return Ok(index),
                Some(_) => at = (at + 1) & mask,
            }
        }
    }

    /// Twice as many places.
    #[cold]
    fn grow_slots(&mut self) {
        let count = (2 * self.slots.len()).max(SLOTS_MIN);
        self.slots = vec![TableSlot::VACANT; count];
        for (index, change) in self.changes.iter().enumerate() {
            let hash = self.hasher.hash_one(self.topic(change));
            let mut at = hash as usize & (count - 1);
            while self.slots[at] != TableSlot::VACANT {
                at = (at + 1) & (count - 1);
            }
            self.slots[at] = TableSlot::new(index, hash);
        }
    }
}

impl PartialEq for LastRetained {
    fn eq(&self, other: &LastRetained) -> bool {
        self.by_topic().eq(other.by_topic())
    }
}

#[cfg(test)]
mod tests {
    use tautwire_message::{MessageId, MessageRef};
    use tautwire_protocol::QoS;

    use super::*;

    fn body(number: u64) -> Option<Body> {
        let id = MessageId { run: 1, number };
        let (topic, properties, payload) = ("", &[][..], &[][..]);
        let message =
            MessageRef { id, topic, properties, payload, qos: QoS::AtMostOnce, retain: true, expires_at_ms: None };
        Some(message.to_message().into())
    }

    #[test]
    fn of_many_topics_the_last_changes_are_there() {
        const TOPICS: u64 = 5_000;
        let mut last = LastRetained::default();
        let topic = |number: u64| format!("{}/{number}", number % 7);
        for sequence in 1..=TOPICS {
            last.record(&topic(sequence), sequence, body(sequence));
        }
        for number in 1..=TOPICS {
            let (earlier, later) = (number - 1, TOPICS + number);
            match number % 4 {
                0 => last.record(&topic(number), later, body(later)),
                1 => last.record(&topic(number), later, None),
                _ => last.record(&topic(number), earlier, None),
            }
        }
        let expected = (1..=TOPICS).filter(|number| number % 4 != 1).map(|number| {
            let sequence = if number % 4 == 0 { TOPICS + number } else { number };
            (topic(number), sequence)
        });
        let expected: Vec<_> = expected.collect();
        let found: Vec<_> = last.iter().map(|(topic, sequence, _)| (topic.to_owned(), sequence)).collect();
        assert_eq!(found, expected);
        assert!(last.by_topic().map(|(topic, ..)| topic).is_sorted() && last.by_topic().count() == TOPICS as usize);
        let mut given = Vec::new();
        let gave = last.into_entries(|topic, body| {
            given.push((topic.to_owned(), body.id().number));
            if given.len() < 100 { Ok(()) } else { Err("enough") }
        });
        assert_eq!((gave, &given[..]), (Err("enough"), &expected[..100]));
    }

    #[test]
    fn nothing_is_found_where_there_is_nothing() {
        let last = LastRetained::default();
        assert_eq!((last.iter().count(), last.held_bytes()), (0, 0));
        assert_eq!(last.into_entries(|_, _| Err(())), Ok(()));
    }
}
