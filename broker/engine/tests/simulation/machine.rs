//! The machine of a simulated broker: a faulty disk, and a log that is written when the simulation decides.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tautwire_durable::{NoSpillStore, Recovery, SessionNumbers, ShardLog, SnapshotHead, compact, read_snapshot};
use tautwire_journal::disk::{Faults, FaultyDisk};
use tautwire_journal::{Epoch, Log, LogError, LogId, SEGMENT_MIN_BYTES, Settings, ShardNumber, SteppedWriter};
use tautwire_memory::MemoryLedger;
use tautwire_session::Replay;

use crate::support::{Choices, Random};

/// How a broker ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// A graceful stop.
    Stopped,
    /// The process is killed; data in the page cache survives.
    Killed,
    /// A power failure, perhaps during a write or a snapshot.
    PowerFailure,
}

pub(crate) struct Machine {
    disk: FaultyDisk,
    random: Random,
    running: Option<RunningLog>,
}

/// The log of one run of the broker.
struct RunningLog {
    writer: SteppedWriter<FaultyDisk>,
    log: LogId,
    now_ms: Arc<AtomicU64>,
    /// The shards that the writer has woken.
    woken: Arc<Mutex<BTreeSet<usize>>>,
    /// The snapshot in progress.
    snapshot: Option<SnapshotHead>,
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Machine {
        Machine { disk: FaultyDisk::new(seed), random: Random::new(!seed), running: None }
    }

    /// Opens the log. Returns the journals of the shards, and the state to restore.
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
            wakes.lock().expect("the lock is not poisoned").insert(usize::from(shard.0));
        };
        let now_ms = Arc::new(AtomicU64::new(now_ms));
        let clock = now_ms.clone();
        let ring_frames = self.random.pick(&[1, 2, 4, 64]);
        let clock = move || clock.load(Ordering::Relaxed);
        let (writer, ports) = SteppedWriter::start(log, shards as u16, ring_frames, wake, clock);
        self.running = Some(RunningLog { writer, log: id, now_ms, woken, snapshot: None });
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

    /// Sets the clock of the log.
    pub(crate) fn set_time(&self, now_ms: u64) {
        if let Some(running) = &self.running {
            running.now_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Makes pending frames durable. Returns false if there are none.
    pub(crate) fn write(&mut self) -> bool {
        let Some(running) = &mut self.running else { return false };
        let wrote = running.writer.step();
        if !wrote {
            running.writer.seal();
        }
        wrote
    }

    /// Prepares the next segment, if it was requested.
    pub(crate) fn prepare(&mut self) {
        if let Some(running) = &mut self.running {
            running.writer.prepare();
        }
    }

    /// Takes the set of woken shards.
    pub(crate) fn take_woken(&self) -> BTreeSet<usize> {
        let take = |running: &RunningLog| std::mem::take(&mut *running.woken.lock().expect("the lock is not poisoned"));
        self.running.as_ref().map(take).unwrap_or_default()
    }

    /// Begins a snapshot of the durable state.
    pub(crate) fn begin_snapshot(&mut self) {
        let epoch = self.epoch();
        let Some(running) = &mut self.running else { return };
        let (covered, now_ms) = (running.writer.handle().durable(), running.now_ms.load(Ordering::Relaxed));
        running.snapshot.get_or_insert(SnapshotHead { log: running.log, epoch, covered, now_ms });
    }

    /// Writes the snapshot that was begun, and truncates the log that it covers. A power failure can interrupt it.
    pub(crate) fn write_snapshot(&mut self) {
        let Some(running) = &mut self.running else { return };
        let Some(head) = running.snapshot.take() else { return };
        let handle = running.writer.handle();
        if let Ok(Some(bytes)) = compact(&self.disk, head, &mut NoSpillStore, || true) {
            handle.set_snapshot_bytes(bytes);
            handle.release(head.covered);
        }
    }

    /// Ends the run of the broker.
    pub(crate) fn end(&mut self, crash: Crash) {
        if crash == Crash::PowerFailure {
            match self.random.below(3) {
                0 => {}
                1 => {
                    self.lose_power_within(4);
                    self.write();
                }
                _ => {
                    self.begin_snapshot();
                    self.lose_power_within(30);
                    self.write_snapshot();
                    self.write();
                }
            }
        }
        let Some(running) = self.running.take() else { return };
        match crash {
            Crash::Stopped => running.writer.close().unwrap_or_else(|error| panic!("{error}")),
            Crash::Killed | Crash::PowerFailure => drop(running),
        }
        match crash {
            Crash::Stopped | Crash::Killed => self.disk.end_process(),
            Crash::PowerFailure => self.disk.crash(),
        }
    }
}
