//! Messages that leave memory: the store in the data directory, before there are threads and after.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tautwire_cold::{Folder, Settings, SpillThread, Stats, Store};
use tautwire_durable::SpillStore;
use tautwire_engine::Mode;
use tautwire_engine::{Counter, Counters, Shard, Shared};
use tautwire_memory::{DetachedLedger, Kind, Memory, MemoryLedger};
use tautwire_message::{FreedSlots, Message, SpillAccount, SpillSlot, Spilled};

use crate::waker::Waker;

/// The folder within the data directory.
const FOLDER: &str = "cold";

/// Removes the folder if it is empty.
pub(crate) fn remove_folder(data: &Path) {
    // One that is not there, or that holds something, stays as it is.
    let _ = std::fs::remove_dir(data.join(FOLDER));
}

/// The store while the log is read.
pub(crate) struct RecoverySpill {
    store: Store<Folder>,
    freed: Arc<FreedSlots>,
    shelf: Arc<SpillAccount>,
    memory: Arc<Memory>,
    /// Sessions and topics, until shards have them.
    detached: DetachedMemory,
    loaded_max_bytes: u64,
}

impl RecoverySpill {
    /// Empties the folder.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn open(data: &Path, shared: &Shared) -> io::Result<RecoverySpill> {
        let folder = Folder::emptied(&data.join(FOLDER))?;
        let freed = Arc::new(FreedSlots::default());
        let settings = shared.config_cell.current().settings.clone();
        Ok(RecoverySpill {
            store: Store::new(folder, Settings::with_limit(settings.cold_bytes)),
            shelf: Arc::new(SpillAccount::new(shared.memory.ledger(0).clone(), freed.clone())),
            freed,
            memory: shared.memory.clone(),
            detached: DetachedMemory::of(shared.memory.detached()),
            loaded_max_bytes: settings.loaded_max_bytes(),
        })
    }

    /// Starts the thread that reads and writes from now on, and connects the shards with it.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start<M: Mode>(
        self,
        shared: &Shared,
        shards: &mut [Shard<M>],
        wakers: &[Arc<Waker>],
    ) -> io::Result<SpillThread> {
        let shelf = |index| Arc::new(SpillAccount::new(shared.memory.ledger(index).clone(), self.freed.clone()));
        let shelves = (0..shards.len()).map(shelf).collect();
        let wakers = wakers.to_vec();
        let wake = move |shard: usize| {
            if let Some(waker) = wakers.get(shard) {
                waker.wake();
            }
        };
        let counters = shared.counters.clone();
        let report = move |stats: &Stats| {
            if let Some(counters) = counters.last() {
                report(stats, counters);
            }
        };
        let (thread, ports) = SpillThread::start(self.store, self.freed, shelves, wake, report)?;
        for (shard, port) in shards.iter_mut().zip(ports) {
            shard.connect_spill_store(Box::new(port));
        }
        Ok(thread)
    }

    /// Reads one message.
    pub(crate) fn read(&mut self, cold: &Spilled) -> Option<Message> {
        read(&mut self.store, cold)
    }
}

fn write(
    store: &mut Store<Folder>,
    freed: &FreedSlots,
    shelf: &Arc<SpillAccount>,
    messages: &[Message],
) -> Vec<Option<Spilled>> {
    freed.take(Vec::new()).into_iter().for_each(|slot: SpillSlot| store.free(slot));
    let slots = store.write(messages);
    let cold = |(message, slot): (&Message, Option<SpillSlot>)| Some(Spilled::new(message, slot?, shelf));
    messages.iter().zip(slots).map(cold).collect()
}

fn read(store: &mut Store<Folder>, cold: &Spilled) -> Option<Message> {
    let mut bytes = Vec::new();
    let range = store.read(&[cold.slot()], &mut bytes).pop().flatten()?;
    Some(cold.read(bytes.get(range)?)?.to_message())
}

/// The folder within the data directory for the messages of a snapshot that is being made.
const SNAPSHOT_SPILL_FOLDER: &str = "cold-snapshot";
/// With so much of a snapshot in memory, more leaves it.
const SNAPSHOT_LOADED_MAX_BYTES: u64 = 32 << 20;

/// The store for the messages of one snapshot, on the thread that makes it.
pub(crate) struct SnapshotSpill {
    store: Store<Folder>,
    freed: Arc<FreedSlots>,
    shelf: Arc<SpillAccount>,
    ledger: Arc<MemoryLedger>,
    /// All of it.
    detached: DetachedMemory,
    path: PathBuf,
}

impl SnapshotSpill {
    /// Empties the folder. What is in memory for the snapshot is entered in `account`, which nobody else enters in.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn open(data: &Path, limit_bytes: u64, account: &Arc<DetachedLedger>) -> io::Result<SnapshotSpill> {
        let path = data.join(SNAPSHOT_SPILL_FOLDER);
        let folder = Folder::emptied(&path)?;
        let (freed, ledger) = (Arc::new(FreedSlots::default()), Arc::new(MemoryLedger::default()));
        let shelf = Arc::new(SpillAccount::new(ledger.clone(), freed.clone()));
        let store = Store::new(folder, Settings::with_limit(limit_bytes));
        Ok(SnapshotSpill { store, freed, shelf, ledger, detached: DetachedMemory::of(account), path })
    }
}

impl Drop for SnapshotSpill {
    fn drop(&mut self) {
        // What is left is emptied by the next one.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl SpillStore for SnapshotSpill {
    fn write(&mut self, messages: &[Message]) -> Vec<Option<Spilled>> {
        write(&mut self.store, &self.freed, &self.shelf, messages)
    }

    fn read(&mut self, cold: &Spilled) -> Option<Message> {
        read(&mut self.store, cold)
    }

    fn should_spill(&self) -> bool {
        self.ledger.held(Kind::Message) > SNAPSHOT_LOADED_MAX_BYTES
    }

    fn ledger(&self) -> Option<Arc<MemoryLedger>> {
        Some(self.ledger.clone())
    }

    fn set_held_bytes(&mut self, bytes: usize) {
        self.detached.set(bytes + self.ledger.all() as usize);
    }
}

impl SpillStore for RecoverySpill {
    fn write(&mut self, messages: &[Message]) -> Vec<Option<Spilled>> {
        write(&mut self.store, &self.freed, &self.shelf, messages)
    }

    fn read(&mut self, cold: &Spilled) -> Option<Message> {
        RecoverySpill::read(self, cold)
    }

    fn should_spill(&self) -> bool {
        self.memory.held(Kind::Message) > self.loaded_max_bytes
    }

    fn set_held_bytes(&mut self, bytes: usize) {
        self.detached.set(bytes);
    }
}

/// What no shard holds, as it stands in the account until this is dropped. Nobody else enters there meanwhile.
struct DetachedMemory {
    account: Arc<DetachedLedger>,
    bytes: usize,
}

impl DetachedMemory {
    fn of(account: &Arc<DetachedLedger>) -> DetachedMemory {
        DetachedMemory { account: account.clone(), bytes: 0 }
    }

    fn set(&mut self, bytes: usize) {
        self.account.settle(Kind::Snapshot, self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for DetachedMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The store's thread is the only one that writes these counters.
fn report(stats: &Stats, counters: &Counters) {
    let set = |counter: &Counter, value: u64| counter.add(value.wrapping_sub(counter.get()));
    set(&counters.cold_messages, stats.messages);
    set(&counters.cold_bytes, stats.live_bytes);
    set(&counters.cold_file_bytes, stats.file_bytes);
    set(&counters.cold_writes, stats.written);
    set(&counters.cold_reads, stats.read);
    set(&counters.cold_write_failures, stats.write_failures);
    set(&counters.cold_refused, stats.refused);
    set(&counters.cold_read_failures, stats.read_failures);
    set(&counters.cold_unreadable, stats.unreadable);
}
