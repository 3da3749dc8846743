use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tautwire-file-store-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("session")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

fn queued(sequence: u64, packet: &[u8]) -> Record<'_> {
    Record::Queued { sequence, version: ProtocolVersion::V5, packet }
}

/// Sequence, packet identifier and packet.
type Message = (u64, Option<u16>, Option<Vec<u8>>);

/// The content of a store, for comparison.
fn state(store: &mut FileStore) -> (Option<String>, Vec<Message>, Vec<u16>) {
    let restored = store.take_restored().unwrap();
    let outgoing = restored.outgoing.into_iter().map(|message| {
        let packet = message.packet.map(|(_, packet)| packet);
        (message.sequence, message.packet_id.map(PacketId::get), packet)
    });
    (restored.client_id, outgoing.collect(), restored.received.into_iter().map(PacketId::get).collect())
}

fn some_records(store: &FileStore) {
    store.record(&Record::Began { client_id: "c" });
    for sequence in 1..=4 {
        store.record(&queued(sequence, &[sequence as u8; 3]));
    }
    for sequence in 1..=3 {
        store.record(&Record::Sent { sequence, packet_id: id(sequence as u16) });
    }
    store.record(&Record::Done { sequence: 1 });
    store.record(&Record::Released { sequence: 2 });
    store.record(&Record::Received { packet_id: id(7) });
    store.record(&Record::Received { packet_id: id(8) });
    store.record(&Record::Completed { packet_id: id(7) });
}

#[test]
fn recorded_changes_are_restored() {
    let folder = Folder::new();
    some_records(&FileStore::open(folder.file()).unwrap());
    let mut store = FileStore::open(folder.file()).unwrap();
    let outgoing = vec![(2, Some(2), None), (3, Some(3), Some(vec![3; 3])), (4, None, Some(vec![4; 3]))];
    assert_eq!(state(&mut store), (Some("c".to_owned()), outgoing, vec![8]));
    assert_eq!(store.dropped_bytes(), 0);
}

/// A crash may leave the end of a file in any state.
#[test]
fn a_torn_end_is_dropped_at_any_byte() {
    let folder = Folder::new();
    some_records(&FileStore::open(folder.file()).unwrap());
    let whole = fs::read(folder.file()).unwrap();
    let mut states = Vec::new();
    for garbage in [&[][..], &[0; 40], &[0xFF; 40]] {
        // A file that is cut off within its header starts empty.
        let least = if garbage.is_empty() { 0 } else { record::HEADER_BYTES };
        for cut in least..=whole.len() {
            fs::write(folder.file(), [&whole[..cut], garbage].concat()).unwrap();
            let mut store = FileStore::open(folder.file()).unwrap();
            let found = state(&mut store);
            // Zeros may equal the bytes that were to be written.
            let whole_bytes = cut + whole[cut..].iter().zip(garbage).take_while(|(one, other)| one == other).count();
            if garbage.is_empty() {
                states.push(found.clone());
            }
            assert_eq!(found, states[whole_bytes], "bytes after {cut} must not matter");
            if cut % 11 != 0 {
                continue;
            }
            // Appending continues after the last complete record.
            store.record(&queued(9, b"new"));
            drop(store);
            let again = state(&mut FileStore::open(folder.file()).unwrap());
            assert_eq!(again.1.last(), Some(&(9, None, Some(b"new".to_vec()))));
            assert_eq!(again.1.len(), found.1.len() + 1);
        }
    }
}

#[test]
fn a_file_that_is_not_a_session_store_is_unchanged() {
    let folder = Folder::new();
    let text = b"this is the only copy of a letter";
    fs::write(folder.file(), text).unwrap();
    let error = FileStore::open(folder.file()).unwrap_err();
    assert_eq!(error.code(), "store_failed");
    assert_eq!(fs::read(folder.file()).unwrap(), text);
}

#[test]
fn a_file_that_is_mostly_garbage_is_compacted() {
    let folder = Folder::new();
    let large = vec![7; 100_000];
    let mut store = FileStore::open(folder.file()).unwrap();
    store.record(&Record::Began { client_id: "c" });
    store.record(&queued(1, &large));
    store.record(&queued(2, b"released"));
    store.record(&Record::Sent { sequence: 2, packet_id: id(2) });
    store.record(&Record::Released { sequence: 2 });
    store.record(&Record::Received { packet_id: id(9) });
    for sequence in 3..100 {
        store.record(&queued(sequence, &large));
        store.record(&Record::Done { sequence });
        // Each is written before the next one.
        store.inner.sync(&mut lock(&store.inner.disk));
    }
    store.record(&queued(100, b"last"));
    let expected = (
        Some("c".to_owned()),
        vec![(1, None, Some(large.clone())), (2, Some(2), None), (100, None, Some(b"last".to_vec()))],
        vec![9],
    );
    drop(store);
    let bytes = fs::metadata(folder.file()).unwrap().len();
    assert!(bytes < 3 * COMPACT_BYTES, "{bytes} bytes");
    store = FileStore::open(folder.file()).unwrap();
    assert_eq!(state(&mut store), expected);
    // The leftover of an interrupted compaction does not matter.
    drop(store);
    fs::write(folder.0.join("session.new"), b"half").unwrap();
    assert_eq!(state(&mut FileStore::open(folder.file()).unwrap()), expected);
    assert!(!folder.0.join("session.new").exists());
}

#[test]
fn output_waits_until_its_record_is_written() {
    let folder = Folder::new();
    let store = FileStore::open(folder.file()).unwrap();
    let watch = store.watch();
    assert_eq!(watch.ticket(), None);
    store.record(&queued(1, b"x"));
    if let Some(ticket) = watch.ticket() {
        let synced = crate::blocking::block_on(std::future::poll_fn(|cx| watch.poll_synced(ticket, cx)), None);
        synced.unwrap().unwrap();
    }
    assert!(fs::read(folder.file()).unwrap().len() > record::HEADER_BYTES);
    // No packet depends on `Done`.
    store.record(&Record::Done { sequence: 1 });
    assert_eq!(watch.ticket(), None);
    // PUBCOMP depends on `Completed`, which cannot be written meanwhile.
    let _disk = lock(&store.inner.disk);
    store.record(&Record::Received { packet_id: id(7) });
    store.record(&Record::Completed { packet_id: id(7) });
    assert_eq!(watch.ticket(), Some(4));
}

#[test]
fn independent_records_are_written_later() {
    let folder = Folder::new();
    let store = FileStore::open(folder.file()).unwrap();
    let watch = store.watch();
    store.record(&queued(1, b"x"));
    for record in [None, Some(Record::Done { sequence: 1 })] {
        record.iter().for_each(|record| store.record(record));
        let ticket = lock(&store.inner.state).recorded;
        let synced = crate::blocking::block_on(
            std::future::poll_fn(|cx| watch.poll_synced(ticket, cx)),
            Some(Instant::now() + Duration::from_secs(30)),
        );
        synced.unwrap().unwrap();
    }
    let content = fs::read(folder.file()).unwrap();
    let (_, queued_bytes) = Record::read(&content[record::HEADER_BYTES..]).unwrap();
    let (last, _) = Record::read(&content[record::HEADER_BYTES + queued_bytes..]).unwrap();
    assert_eq!(last, Record::Done { sequence: 1 });
}

/// `tests/data/session-of-go` was written by `clients/go/client/store`.
#[test]
fn a_file_of_the_go_client_is_readable() {
    let folder = Folder::new();
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/session-of-go"), folder.file()).unwrap();
    let mut store = FileStore::open(folder.file()).unwrap();
    assert_eq!(store.dropped_bytes(), 0);
    let outgoing = vec![
        (2, Some(2), None),
        (3, Some(3), Some(b"\x32\x09\x00\x01t\x00\x01\x00abc".to_vec())),
        (4, None, Some(b"\x34\x08\x00\x01t\x00\x01abc".to_vec())),
    ];
    assert_eq!(state(&mut store), (Some("from-go".to_owned()), outgoing, vec![8]));
}
