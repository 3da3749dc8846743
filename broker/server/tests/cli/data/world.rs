//! A data directory for one test, written by a broker, or frame by frame with small segments.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tautwire_durable::FrameWriter;
use tautwire_journal::{Directory, Epoch, Log, LogId, Position, SEGMENT_MIN_BYTES, Settings, ShardNumber, TurnNumber};
use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::{QoS, SubscriptionOptions};
use tautwire_session::{
    Change, PendingMessage, Record, RetainedChange, SessionNumber, SubscriptionIds, SubscriptionRecord,
};

use crate::process::{Broker, Ended, run};

/// Messages for "first"; every second one is also for "second".
pub(crate) const MESSAGES: u64 = 40;
/// The session "late" begins before this message.
const LATE: u64 = 20;

/// A data directory and its parent folder, removed when this is dropped.
pub(crate) struct World {
    folder: PathBuf,
    /// The frame of each message.
    positions: Vec<Position>,
}

impl World {
    /// Creates the folder without a data directory.
    pub(crate) fn empty() -> World {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tautwire-data-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        World { folder, positions: Vec::new() }
    }

    /// With a log of several segments that was not closed cleanly.
    pub(crate) fn written(payload_bytes: usize) -> World {
        let mut world = World::empty();
        let log = world.write(payload_bytes);
        drop(log);
        world
    }

    /// Like `written`, with a seal: the broker was killed some time after it wrote the last frame.
    pub(crate) fn sealed(payload_bytes: usize) -> World {
        let mut world = World::empty();
        world.write(payload_bytes).seal().expect("has space");
        world
    }

    /// Like `written`, but closed cleanly.
    pub(crate) fn closed(payload_bytes: usize) -> World {
        let mut world = World::empty();
        world.write(payload_bytes).close().expect("has space");
        world
    }

    fn write(&mut self, payload_bytes: usize) -> Log<Directory> {
        let disk = Directory::open(self.folder.join("data")).expect("can be made");
        let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, ..Settings::default() };
        let epoch = Epoch::new(0x1234_5678).expect("not 0");
        let opened = Log::open(&disk, settings, Position::START, epoch, LogId(0xABCD), 1_700_000_000_000, |_| Ok(()));
        let (mut log, _) = opened.expect("is new");
        let mut turn = 0;
        let mut write = |records: &[Record<'_>]| {
            let mut frame = FrameWriter::default();
            records.iter().for_each(|record| frame.add(record));
            turn += 1;
            log.append(ShardNumber(0), TurnNumber(turn), &frame.take(Vec::new())).expect("fits");
            log.commit().expect("has space")
        };
        session(&mut write, 1, "first");
        session(&mut write, 2, "second");
        for number in 0..MESSAGES {
            if number == LATE {
                session(&mut write, 3, "late");
            }
            let payload = format!("{number} ").repeat(payload_bytes).into_bytes();
            let topic = format!("t/{number}");
            let message = MessageRef {
                id: MessageId { run: 0x5EED, number: number + 1 },
                topic: &topic,
                properties: &[],
                payload: &payload[..payload_bytes],
                qos: QoS::AtLeastOnce,
                retain: false,
                expires_at_ms: None,
            };
            let queued = Change::Queued(PendingMessage {
                message: message.to_message().into(),
                qos: QoS::AtLeastOnce,
                retain: false,
                subscription_ids: SubscriptionIds::None,
                share: None,
            });
            let queue = |session| Record::Changed { session: SessionNumber(session), change: &queued, packet_id: None };
            let is_for_both = number.is_multiple_of(2);
            let position = if is_for_both { write(&[queue(1), queue(2)]) } else { write(&[queue(1)]) };
            self.positions.push(position);
        }
        let kept = MessageRef {
            id: MessageId { run: 0x5EED, number: 1_000 },
            topic: "kept",
            properties: &[],
            payload: b"a secret",
            qos: QoS::AtLeastOnce,
            retain: true,
            expires_at_ms: None,
        };
        write(&[Record::Retained { sequence: 1, change: &RetainedChange::Set(kept.to_message()) }]);
        write(&[Record::Changed {
            session: SessionNumber(3),
            change: &Change::ExpiryInterval(1_000_000),
            packet_id: None,
        }]);
        log
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// A path next to the data directory.
    pub(crate) fn beside(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(crate) fn setting(&self) -> String {
        format!("data.path={}", self.path().display())
    }

    /// Runs `tautwire data COMMAND --data DIR …`.
    pub(crate) fn data(&self, command: &str, arguments: &[&str]) -> Ended {
        let path = self.path().display().to_string();
        run(&[&["data", command, "--data", &path], arguments].concat())
    }

    /// Starts a broker on the directory.
    pub(crate) fn serve(&self, options: &[&str]) -> Broker {
        Broker::with_options(options, &[&self.setting()])
    }

    /// Starts a broker that must not start.
    pub(crate) fn refused(&self, options: &[&str]) -> String {
        let setting = self.setting();
        let arguments = [&["serve", "--listen", "127.0.0.1:0", "--threads", "1", "--set", &setting][..], options];
        let ended = run(&arguments.concat()).expect(1);
        assert_eq!(ended.text(), "", "it listened before it failed");
        ended.stderr
    }

    /// Flips a bit in the payload of a message. The part of its frame before it can still be decoded.
    pub(crate) fn flip_message(&self, number: u64) -> u64 {
        let Position(position) = self.positions[number as usize];
        let segment = position / SEGMENT_MIN_BYTES + 1;
        self.flip(&segment_name(segment), position % SEGMENT_MIN_BYTES + 48 + 200);
        segment
    }

    pub(crate) fn flip(&self, file: &str, offset: u64) {
        let path = self.path().join(file);
        let mut bytes = fs::read(&path).expect("is there");
        bytes[offset as usize] ^= 4;
        fs::write(&path, bytes).expect("can be written");
    }

    /// The names and contents of the files, except for the lock file.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = files(&self.path());
        files.remove("LOCK");
        files
    }
}

/// The names and contents of the files of a directory.
pub(crate) fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(path).expect("is there").map(|entry| entry.expect("can be read").path());
    let name = |path: &Path| path.file_name().expect("has a name").to_string_lossy().into_owned();
    // Subdirectories contain nothing persistent.
    entries.filter(|path| path.is_file()).map(|path| (name(&path), fs::read(&path).expect("can be read"))).collect()
}

pub(crate) fn segment_name(number: u64) -> String {
    format!("segment-{number:016x}")
}

fn session(write: &mut impl FnMut(&[Record<'_>]) -> Position, number: u64, client_id: &str) {
    let session = SessionNumber(number);
    let options = SubscriptionOptions { qos: QoS::AtLeastOnce, ..SubscriptionOptions::default() };
    let made = SubscriptionRecord { options, identifier: None, format: None };
    let changes = [Change::ExpiryInterval(u32::MAX), Change::Subscribed("t/#".into(), made)];
    let changed = |change| Record::Changed { session, change, packet_id: None };
    write(&[Record::Opened { session, client_id, at_ms: 1 }, changed(&changes[0]), changed(&changes[1])]);
}

/// Receives `count` messages for a client with a session; returns their topics.
pub(crate) fn receive(broker: &Broker, client_id: &str, count: usize) -> Vec<String> {
    let count = count.to_string();
    let arguments = ["-i", client_id, "-c", "-q", "1", "t/#", "-C", &count, "-W", "20", "-F", "%t"];
    broker.subscribe_to_end(&arguments).expect(0).text().lines().map(str::to_owned).collect()
}

/// The topics of messages.
pub(crate) fn topics(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("t/{number}")).collect()
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
