use std::collections::HashMap;

use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::QoS;

use super::*;
use crate::files::{Faults, FaultyFiles};

const FILE_BYTES: u32 = 4 << 10;

fn message(number: u64, payload_bytes: usize) -> Message {
    let payload = vec![number as u8; payload_bytes];
    MessageRef {
        id: MessageId { run: 1, number },
        topic: "a/b",
        properties: &[],
        payload: &payload,
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at_ms: None,
    }
    .to_message()
}

fn store(files: &FaultyFiles, limit_bytes: u64) -> Store<FaultyFiles> {
    Store::new(files.clone(), Settings { limit_bytes, file_bytes: FILE_BYTES })
}

/// Reads one message.
fn read(store: &mut Store<FaultyFiles>, slot: SpillSlot) -> Option<Message> {
    let mut bytes = Vec::new();
    let range = store.read(&[slot], &mut bytes).pop().flatten()?;
    MessageRef::read_stored(&bytes[range]).map(|found| found.to_message())
}

/// A deterministic generator of pseudorandom numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Messages are added and freed in random order, writes and reads fail now and then, and files are compacted meanwhile.
#[test]
fn live_messages_are_readable_and_files_stay_within_twice_their_size() {
    for seed in 0..20 {
        let files = FaultyFiles::default();
        let mut store = store(&files, 1 << 30);
        let mut numbers = Numbers(seed);
        let mut held: HashMap<SpillSlot, Message> = HashMap::new();
        for round in 0..400u64 {
            let fails = numbers.below(10) == 0;
            files.set_faults(Faults { writing: fails, creating: fails && numbers.below(2) == 0, ..Faults::default() });
            let size = if numbers.below(20) == 0 { 3 * FILE_BYTES as usize } else { 300 };
            let new: Vec<Message> =
                (0..1 + numbers.below(20) as u64).map(|n| message(100 * round + n, numbers.below(size))).collect();
            let slots = store.write(&new);
            assert_eq!(slots.len(), new.len());
            for (slot, message) in slots.into_iter().zip(new) {
                if let Some(slot) = slot {
                    assert_eq!(held.insert(slot, message), None, "the slot is taken");
                }
            }
            // Half of the time more messages are freed than added.
            let freed = if round / 50 % 2 == 0 { numbers.below(10) } else { numbers.below(40) };
            for _ in 0..freed.min(held.len()) {
                let mut slots: Vec<SpillSlot> = held.keys().copied().collect();
                slots.sort_unstable();
                let slot = slots[numbers.below(slots.len())];
                held.remove(&slot);
                store.free(slot);
            }
            let _ = store.compact_step();
            files.set_faults(Faults::default());
            while store.compact_step().expect("the disk works") {}
            let stats = store.stats();
            assert_eq!((stats.messages, stats.file_bytes <= files.count_and_bytes().1), (held.len() as u64, true));
            let allowed = 2 * stats.live_bytes + 3 * u64::from(FILE_BYTES) + u64::from(4 * FILE_BYTES);
            assert!(stats.file_bytes <= allowed, "{stats:?}");
        }
        let slots: Vec<SpillSlot> = held.keys().copied().collect();
        let mut bytes = Vec::new();
        for (slot, range) in slots.iter().zip(store.read(&slots, &mut bytes)) {
            let range = range.expect("readable");
            assert_eq!(MessageRef::read_stored(&bytes[range]), Some(held[slot].as_ref()));
        }
        slots.into_iter().for_each(|slot| store.free(slot));
        store.remove_dead_files();
        assert_eq!((files.count_and_bytes(), store.stats().live_bytes, store.stats().file_bytes), ((0, 0), 0, 0));
    }
}

#[test]
fn writes_stop_at_the_limit_until_a_message_is_freed() {
    let files = FaultyFiles::default();
    let mut store = store(&files, 3 * u64::from(FILE_BYTES));
    let messages: Vec<Message> = (0..20).map(|n| message(n, 1_000)).collect();
    let slots = store.write(&messages);
    let written: Vec<SpillSlot> = slots.iter().copied().flatten().collect();
    assert!((9..=11).contains(&written.len()), "{} are written", written.len());
    assert_eq!(store.stats().refused, 20 - written.len() as u64);
    for slot in &written[..written.len() - 1] {
        store.free(*slot);
    }
    while store.compact_step().expect("the disk works") {}
    assert!(store.write(&messages[..2]).iter().all(Option::is_some));
    assert_eq!(read(&mut store, written[written.len() - 1]), Some(messages[written.len() - 1].clone()));
}

#[test]
fn a_damaged_record_affects_no_other_and_is_not_moved() {
    let files = FaultyFiles::default();
    let mut store = store(&files, 1 << 30);
    let messages: Vec<Message> = (0..8).map(|n| message(n, 900)).collect();
    let slots: Vec<SpillSlot> = store.write(&messages).into_iter().flatten().collect();
    for (number, slot) in slots.iter().enumerate() {
        if number % 4 > 0 {
            store.free(*slot);
        }
    }
    // With this fault, compaction reads wrong bits.
    files.set_faults(Faults { flipping: true, ..Faults::default() });
    while store.compact_step().expect("writing works") {}
    files.set_faults(Faults::default());
    while store.compact_step().expect("the disk works") {}
    assert_eq!(read(&mut store, slots[0]), Some(messages[0].clone()));
    assert_eq!(read(&mut store, slots[4]), Some(messages[4].clone()));
}

#[test]
fn unreadable_messages_are_counted_until_readable_or_freed() {
    let files = FaultyFiles::default();
    let mut store = store(&files, 1 << 30);
    let slots: Vec<SpillSlot> = store.write(&[message(0, 900), message(1, 900)]).into_iter().flatten().collect();
    for faults in [Faults { reading: true, ..Faults::default() }, Faults { flipping: true, ..Faults::default() }] {
        files.set_faults(faults);
        for _ in 0..3 {
            assert!(slots.iter().all(|slot| read(&mut store, *slot).is_none()));
            assert_eq!(store.stats().unreadable, 2, "each one counts once");
        }
        files.set_faults(Faults::default());
        assert!(read(&mut store, slots[0]).is_some());
        assert_eq!(store.stats().unreadable, 1);
        assert!(read(&mut store, slots[1]).is_some());
        assert_eq!(store.stats().unreadable, 0);
    }
    files.set_faults(Faults { reading: true, ..Faults::default() });
    assert!(slots.iter().all(|slot| read(&mut store, *slot).is_none()));
    slots.into_iter().for_each(|slot| store.free(slot));
    assert_eq!((store.stats().unreadable, store.stats().messages), (0, 0));
}

#[test]
fn adjacent_messages_are_read_together() {
    let files = FaultyFiles::default();
    let mut store = Store::new(files, Settings::with_limit(1 << 30));
    let messages: Vec<Message> = (0..100).map(|n| message(n, 500)).collect();
    let slots: Vec<SpillSlot> = store.write(&messages).into_iter().flatten().collect();
    let mut bytes = Vec::new();
    let ranges = store.read(&slots, &mut bytes);
    assert!(ranges.iter().all(Option::is_some));
    let recorded: usize = messages.iter().map(|message| HEADER_BYTES + message.as_ref().stored_bytes()).sum();
    assert_eq!(bytes.len(), recorded, "one run without gaps");
}
