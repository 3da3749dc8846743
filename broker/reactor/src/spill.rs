//! The spill store in the data directory, during recovery and at runtime.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tautwire_durable::SpillStore;
use tautwire_engine::Mode;
use tautwire_engine::{Counter, Counters, Shard, Shared};
use tautwire_memory::{DetachedLedger, Kind, Memory, MemoryLedger};
use tautwire_message::{FreedSlots, Message, SpillAccount, SpillSlot, Spilled};
use tautwire_spill::{Folder, Settings, SpillThread, Stats, Store};

use crate::waker::Waker;

/// The spill directory within the data directory.
const FOLDER: &str = "spill";

/// Removes the spill directory if it is empty.
pub(crate) fn remove_folder(data: &Path) {
    // A directory that does not exist or is not empty is left alone.
    let _ = std::fs::remove_dir(data.join(FOLDER));
}

/// The spill store during recovery.
pub(crate) struct RecoverySpill {
    store: Store<Folder>,
    freed: Arc<FreedSlots>,
    spill_account: Arc<SpillAccount>,
    memory: Arc<Memory>,
    /// Memory of sessions and topics, until shards own them.
    detached: DetachedMemory,
    loaded_max_bytes: u64,
}

impl RecoverySpill {
    /// Opens the store and empties its directory.
    ///
    /// # Errors
    /// Disk errors.
    pub(crate) fn open(data: &Path, shared: &Shared) -> io::Result<RecoverySpill> {
        let folder = Folder::emptied(&data.join(FOLDER))?;
        let freed = Arc::new(FreedSlots::default());
        let settings = shared.config_cell.current().settings.clone();
        Ok(RecoverySpill {
            store: Store::new(folder, Settings::with_limit(settings.spill_bytes)),
            spill_account: Arc::new(SpillAccount::new(shared.memory.ledger(0).clone(), freed.clone())),
            freed,
            memory: shared.memory.clone(),
            detached: DetachedMemory::of(shared.memory.detached()),
            loaded_max_bytes: settings.loaded_max_bytes(),
        })
    }

    /// Starts the thread of the store, and connects the shards to it.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start<M: Mode>(
        self,
        shared: &Shared,
        shards: &mut [Shard<M>],
        wakers: &[Arc<Waker>],
    ) -> io::Result<SpillThread> {
        let spill_account =
            |index| Arc::new(SpillAccount::new(shared.memory.ledger(index).clone(), self.freed.clone()));
        let spill_accounts = (0..shards.len()).map(spill_account).collect();
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
        let (thread, ports) = SpillThread::start(self.store, self.freed, spill_accounts, wake, report)?;
        for (shard, port) in shards.iter_mut().zip(ports) {
            shard.connect_spill_store(Box::new(port));
        }
        Ok(thread)
    }

    /// Reads one message.
    pub(crate) fn read(&mut self, spilled: &Spilled) -> Option<Message> {
        read(&mut self.store, spilled)
    }
}

fn write(
    store: &mut Store<Folder>,
    freed: &FreedSlots,
    spill_account: &Arc<SpillAccount>,
    messages: &[Message],
) -> Vec<Option<Spilled>> {
    freed.take(Vec::new()).into_iter().for_each(|slot: SpillSlot| store.free(slot));
    let slots = store.write(messages);
    let spilled = |(message, slot): (&Message, Option<SpillSlot>)| Some(Spilled::new(message, slot?, spill_account));
    messages.iter().zip(slots).map(spilled).collect()
}

fn read(store: &mut Store<Folder>, spilled: &Spilled) -> Option<Message> {
    let mut bytes = Vec::new();
    let range = store.read(&[spilled.slot()], &mut bytes).pop().flatten()?;
    Some(spilled.read(bytes.get(range)?)?.to_message())
}

/// The spill directory within the data directory for a snapshot in progress.
const SNAPSHOT_SPILL_FOLDER: &str = "spill-snapshot";
/// With more of a snapshot in memory than this, messages are spilled.
const SNAPSHOT_LOADED_MAX_BYTES: u64 = 32 << 20;

/// The spill store of one snapshot, on the thread that makes it.
pub(crate) struct SnapshotSpill {
    store: Store<Folder>,
    freed: Arc<FreedSlots>,
    spill_account: Arc<SpillAccount>,
    ledger: Arc<MemoryLedger>,
    /// All memory of the snapshot.
    detached: DetachedMemory,
    path: PathBuf,
}

impl SnapshotSpill {
    /// Opens the store and empties its directory. Memory of the snapshot is charged to `account`, which has no other user.
    ///
    /// # Errors
    /// Disk errors.
    pub(crate) fn open(data: &Path, limit_bytes: u64, account: &Arc<DetachedLedger>) -> io::Result<SnapshotSpill> {
        let path = data.join(SNAPSHOT_SPILL_FOLDER);
        let folder = Folder::emptied(&path)?;
        let (freed, ledger) = (Arc::new(FreedSlots::default()), Arc::new(MemoryLedger::default()));
        let spill_account = Arc::new(SpillAccount::new(ledger.clone(), freed.clone()));
        let store = Store::new(folder, Settings::with_limit(limit_bytes));
        Ok(SnapshotSpill { store, freed, spill_account, ledger, detached: DetachedMemory::of(account), path })
    }
}

impl Drop for SnapshotSpill {
    fn drop(&mut self) {
        // The next snapshot removes what remains.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl SpillStore for SnapshotSpill {
    fn write(&mut self, messages: &[Message]) -> Vec<Option<Spilled>> {
        write(&mut self.store, &self.freed, &self.spill_account, messages)
    }

    fn read(&mut self, spilled: &Spilled) -> Option<Message> {
        read(&mut self.store, spilled)
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
        write(&mut self.store, &self.freed, &self.spill_account, messages)
    }

    fn read(&mut self, spilled: &Spilled) -> Option<Message> {
        RecoverySpill::read(self, spilled)
    }

    fn should_spill(&self) -> bool {
        self.memory.held(Kind::Message) > self.loaded_max_bytes
    }

    fn set_held_bytes(&mut self, bytes: usize) {
        self.detached.set(bytes);
    }
}

/// Memory that no shard owns, charged until this is dropped. The ledger has no other user meanwhile.
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

/// Copies the store's statistics to the counters, which only the store's thread writes.
fn report(stats: &Stats, counters: &Counters) {
    let set = |counter: &Counter, value: u64| counter.add(value.wrapping_sub(counter.get()));
    set(&counters.spilled_messages, stats.messages);
    set(&counters.spilled_bytes, stats.live_bytes);
    set(&counters.spill_file_bytes, stats.file_bytes);
    set(&counters.spill_writes, stats.written);
    set(&counters.spill_reads, stats.read);
    set(&counters.spill_write_failures, stats.write_failures);
    set(&counters.spill_limit_reached, stats.refused);
    set(&counters.spill_read_failures, stats.read_failures);
    set(&counters.spill_unreadable, stats.unreadable);
}
