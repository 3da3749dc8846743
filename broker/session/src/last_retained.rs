//! The retained messages of the topics in a log.

use std::hash::{BuildHasher, RandomState};

use tautwire_message::{Body, Spilled};

/// The last change of each topic. There may be millions of topics; an allocation for each would take time and fragment the memory after the
/// start. So all of them share a few large allocations.
#[derive(Debug, Default)]
pub struct LastRetained {
    /// The topic names, concatenated.
    topics: String,
    changes: Vec<LastChange>,
    /// A hash table with open addressing: a change is at the slot of its topic's hash or after it. The number of slots is a power of two,
    /// and at least half of them are vacant.
    slots: Vec<TableSlot>,
    /// The index of the change recorded last.
    last_recorded_index: usize,
    hasher: RandomState,
}

#[derive(Debug)]
struct LastChange {
    /// The range of the topic in `topics`.
    topic: (usize, usize),
    sequence: u64,
    /// `None` if the topic was cleared. The entry stays, because an older change may follow.
    body: Option<Body>,
}

/// The index of a change plus 1, with the upper bits of its topic's hash above it. The hash avoids most lookups of other topics, which are
/// far apart in memory. 0 is vacant.
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

    /// Returns `None` if the slot is vacant.
    fn index(self) -> Option<usize> {
        ((self.0 & ((1 << TableSlot::INDEX_BITS) - 1)) as usize).checked_sub(1)
    }
}

/// The initial number of slots.
const SLOTS_MIN: usize = 64;

impl LastRetained {
    /// Records a change of the retained message of `topic`. Ignores it if a change with a higher sequence number is known.
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

    /// Returns the index of the change recorded last, or of the change that superseded it.
    pub(crate) fn last_recorded(&self) -> usize {
        self.last_recorded_index
    }

    /// Replaces the message of a change, see [`LastRetained::last_recorded`], by its spilled form.
    pub(crate) fn spill(&mut self, index: usize, spilled: &Spilled) {
        if let Some(LastChange { body: Some(body @ Body::Loaded(_)), .. }) = self.changes.get_mut(index)
            && body.id() == spilled.id()
        {
            *body = Body::Spilled(spilled.clone());
        }
    }

    /// Returns the approximate size in bytes, without messages.
    pub(crate) fn held_bytes(&self) -> usize {
        self.topics.len() + size_of_val(&*self.changes) + size_of_val(&*self.slots)
    }

    /// Returns all changes by topic, each with its sequence number.
    pub(crate) fn by_topic(&self) -> impl Iterator<Item = (&str, u64, Option<&Body>)> {
        let mut changes: Vec<_> = self.changes.iter().collect();
        changes.sort_unstable_by_key(|change| self.topic(change));
        changes.into_iter().map(move |change| (self.topic(change), change.sequence, change.body.as_ref()))
    }

    /// Returns the retained messages in the order in which the log first named their topics: topic, sequence number of the change, and
    /// message.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64, &Body)> {
        self.changes.iter().filter_map(move |change| Some((self.topic(change), change.sequence, change.body.as_ref()?)))
    }

    /// Passes topics and messages to `take`, in the same order, until it fails.
    ///
    /// # Errors
    /// The error of `take`.
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

    /// Returns the index of a topic's change as `Ok`, or a vacant slot as `Err`.
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

    /// Doubles the number of slots.
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
    fn the_last_changes_of_many_topics_are_found() {
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
    fn an_empty_index_finds_nothing() {
        let last = LastRetained::default();
        assert_eq!((last.iter().count(), last.held_bytes()), (0, 0));
        assert_eq!(last.into_entries(|_, _| Err(())), Ok(()));
    }
}
