//! The machine on which a simulated broker runs: a disk that lies, and a log that is written when the simulation says so.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tautwire_durable::{NoSpillStore, Recovery, SessionNumbers, ShardLog, SnapshotHead, compact, read_snapshot};
use tautwire_journal::disk::{Faults, FaultyDisk};
use tautwire_journal::{Epoch, Log, LogError, LogId, SEGMENT_MIN_BYTES, Settings, ShardNumber, SteppedWriter};
use tautwire_memory::MemoryLedger;
use tautwire_session::Replay;

use crate::support::{Choices, Random};

/// How a broker comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// It is stopped in order.
    Stopped,
    /// The process is killed; what the system has stays.
    Killed,
    /// The power is gone, perhaps in the midst of a write or of a snapshot.
    WithoutPower,
}

pub(crate) struct Machine {
    disk: FaultyDisk,
    random: Random,
    running: Option<Running>,
}

/// The log of one life of the broker.
struct Running {
    writer: SteppedWriter<FaultyDisk>,
    log: LogId,
    now_ms: Arc<AtomicU64>,
    /// Shards that the writer has woken.
    woken: Arc<Mutex<BTreeSet<usize>>>,
    /// A snapshot that has been begun, while the log goes on.
    snapshot: Option<SnapshotHead>,
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Machine {
        Machine { disk: FaultyDisk::new(seed), random: Random::new(!seed), running: None }
    }

    /// Opens the log. Gives the journals of so many shards, and what they are to go on with.
    pub(crate) fn start(
        &mut self,
        shards: usize,
        now_ms: u64,
        ledger: Option<&Arc<MemoryLedger>>,
    ) -> (Vec<ShardLog>, Replay) {
        if self.random.chance(20) {
            self.lose_power_within(30);
        }
        let (log, replay) = self.open(now_ms, ledger).unwrap_or_else(|_| {
            self.disk.crash();
            self.open(now_ms, ledger).unwrap_or_else(|error| panic!("the log cannot be opened: {error}"))
        });
        self.disk.set_faults(Faults::default());
        let id = log.id();
        let woken = Arc::<Mutex<BTreeSet<usize>>>::default();
        let wakes = woken.clone();
        let wake = move |shard: ShardNumber| {
            wakes.lock().expect("nobody panics with it").insert(usize::from(shard.0));
        };
        let now_ms = Arc::new(AtomicU64::new(now_ms));
        let clock = now_ms.clone();
        let ring_frames = self.random.pick(&[1, 2, 4, 64]);
        let clock = move || clock.load(Ordering::Relaxed);
        let (writer, ports) = SteppedWriter::start(log, shards as u16, ring_frames, wake, clock);
        self.running = Some(Running { writer, log: id, now_ms, woken, snapshot: None });
        let last = replay.last_session();
        let journal = |(index, port)| ShardLog::new(port, SessionNumbers::above(last, index, shards));
        (ports.into_iter().enumerate().map(journal).collect(), replay)
    }

    fn open(&mut self, now_ms: u64, ledger: Option<&Arc<MemoryLedger>>) -> Result<(Log<FaultyDisk>, Replay), LogError> {
        let settings = Settings {
            segment_bytes: SEGMENT_MIN_BYTES,
            write_before_sync: self.random.chance(50),
            ..Settings::default()
        };
        let mut recovery = Recovery::new(ledger.cloned());
        let snapshot = read_snapshot(&self.disk, &mut recovery)?;
        let (epoch, id) = (self.epoch(), LogId(self.random.below(1 << 40) as u64));
        let (log, found) = Log::open(&self.disk, settings, snapshot.covered, epoch, id, now_ms, |frame| {
            recovery.frame(frame.body).map_err(|error| error.to_string().into())
        })?;
        assert!(snapshot.damaged.is_empty() && found.damage.is_empty(), "{:?} {:?}", snapshot.damaged, found.damage);
        Ok((log, recovery.finish()))
    }

    fn epoch(&mut self) -> Epoch {
        Epoch::new(1 + self.random.below(1 << 40) as u64).expect("it is not 0")
    }

    fn lose_power_within(&mut self, operations: usize) {
        let power_lost_at = Some(self.disk.operations() + self.random.below(operations) as u64);
        self.disk.set_faults(Faults { power_lost_at, ..Faults::default() });
    }

    /// Time passes for the log as well.
    pub(crate) fn set_time(&self, now_ms: u64) {
        if let Some(running) = &self.running {
            running.now_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Makes durable what waits; false where nothing does.
    pub(crate) fn write(&mut self) -> bool {
        let Some(running) = &mut self.running else { return false };
        let wrote = running.writer.step();
        if !wrote {
            running.writer.seal();
        }
        wrote
    }

    /// Makes the next segment ready, if one was ordered.
    pub(crate) fn prepare(&mut self) {
        if let Some(running) = &mut self.running {
            running.writer.prepare();
        }
    }

    /// Shards that have been woken since this was last asked.
    pub(crate) fn woken(&self) -> BTreeSet<usize> {
        let take = |running: &Running| std::mem::take(&mut *running.woken.lock().expect("nobody panics with it"));
        self.running.as_ref().map(take).unwrap_or_default()
    }

    /// Begins a snapshot of all that is durable now.
    pub(crate) fn begin_snapshot(&mut self) {
        let epoch = self.epoch();
        let Some(running) = &mut self.running else { return };
        let (covered, now_ms) = (running.writer.handle().durable(), running.now_ms.load(Ordering::Relaxed));
        running.snapshot.get_or_insert(SnapshotHead { log: running.log, epoch, covered, now_ms });
    }

    /// Makes the snapshot that was begun, and lets go of what it covers. Without power, it goes as far as it goes.
    pub(crate) fn make_snapshot(&mut self) {
        let Some(running) = &mut self.running else { return };
        let Some(head) = running.snapshot.take() else { return };
        let handle = running.writer.handle();
        if let Ok(Some(bytes)) = compact(&self.disk, head, &mut NoSpillStore, || true) {
            handle.set_snapshot_bytes(bytes);
            handle.release(head.covered);
        }
    }

    /// The broker is no more.
    pub(crate) fn end(&mut self, crash: Crash) {
        if crash == Crash::WithoutPower {
            match self.random.below(3) {
                0 => {}
                1 => {
                    self.lose_power_within(4);
                    self.write();
                }
                _ => {
                    self.begin_snapshot();
                    self.lose_power_within(30);
                    self.make_snapshot();
                    self.write();
                }
            }
        }
        let Some(running) = self.running.take() else { return };
        match crash {
            Crash::Stopped => running.writer.close().unwrap_or_else(|error| panic!("{error}")),
            Crash::Killed | Crash::WithoutPower => drop(running),
        }
        match crash {
            Crash::Stopped | Crash::Killed => self.disk.end_process(),
            Crash::WithoutPower => self.disk.crash(),
        }
    }
}
