//! A store for cold messages whose answers come later.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tautwire_cold::{Faults, FaultyFiles, Settings, Store};
use tautwire_memory::Memory;
use tautwire_message::{FreedSlots, SpillAccount, SpillClient, SpillRequest, SpillResponse, Spilled};

use super::choices::Choices;

/// Small, so that files are rewritten all the time.
const FILE_BYTES: u32 = 16 << 10;
/// Orders of a shard that wait.
const ORDERS_MAX: usize = 256;

/// The store of one broker. Clones are the same store.
#[derive(Clone)]
pub(crate) struct SlowStore {
    inner: Arc<Mutex<Inner>>,
    files: FaultyFiles,
    freed: Arc<FreedSlots>,
}

struct Inner {
    store: Store<FaultyFiles>,
    channels: Vec<StoreChannel>,
}

#[derive(Default)]
struct StoreChannel {
    orders: VecDeque<SpillRequest>,
    answers: VecDeque<SpillResponse>,
}

impl SlowStore {
    /// A store for so many shards.
    pub(crate) fn new(shards: usize) -> SlowStore {
        let files = FaultyFiles::default();
        let settings = Settings { limit_bytes: 1 << 30, file_bytes: FILE_BYTES };
        let store = Store::new(files.clone(), settings);
        let channels = (0..shards).map(|_| StoreChannel::default()).collect();
        SlowStore { inner: Arc::new(Mutex::new(Inner { store, channels })), files, freed: Arc::default() }
    }

    /// The way of one shard.
    pub(crate) fn port(&self, shard: usize, memory: &Memory) -> Box<dyn SpillClient> {
        let shelf = Arc::new(SpillAccount::new(memory.ledger(shard).clone(), self.freed.clone()));
        Box::new(SlowPort { store: self.clone(), shard, shelf })
    }

    /// From now on these faults.
    pub(crate) fn set_faults(&self, faults: Faults) {
        self.files.set_faults(faults);
    }

    /// Serves one order; gives the shard that is to be woken.
    pub(crate) fn serve(&self, choices: &mut impl Choices) -> Option<usize> {
        let mut inner = self.inner();
        let Inner { store, channels } = &mut *inner;
        self.freed.take(Vec::new()).into_iter().for_each(|slot| store.free(slot));
        let _ = store.compact_step();
        store.remove_dead_files();
        let waiting: Vec<usize> = (0..channels.len()).filter(|shard| !channels[*shard].orders.is_empty()).collect();
        let shard = *waiting.get(choices.below(waiting.len().max(1)))?;
        let order = channels[shard].orders.pop_front()?;
        let answer = store.answer(order);
        channels[shard].answers.push_back(answer);
        Some(shard)
    }

    /// Messages that it has, has written and has read.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let stats = self.inner().store.stats();
        (stats.messages, stats.written, stats.read)
    }

    /// The payload of a message, whatever the faults.
    pub(crate) fn payload(&self, cold: &Spilled) -> Vec<u8> {
        self.set_faults(Faults::default());
        let mut bytes = Vec::new();
        let range = self.inner().store.read(&[cold.slot()], &mut bytes).pop().flatten().expect("it can be read");
        cold.read(&bytes[range]).expect("it is the one").payload.to_vec()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics with it")
    }
}

struct SlowPort {
    store: SlowStore,
    shard: usize,
    shelf: Arc<SpillAccount>,
}

impl SpillClient for SlowPort {
    fn post(&mut self, order: SpillRequest) -> Result<(), SpillRequest> {
        let mut inner = self.store.inner();
        let orders = &mut inner.channels[self.shard].orders;
        if orders.len() >= ORDERS_MAX {
            return Err(order);
        }
        orders.push_back(order);
        Ok(())
    }

    fn has_answer(&self) -> bool {
        !self.store.inner().channels[self.shard].answers.is_empty()
    }

    fn next_answer(&mut self) -> Option<SpillResponse> {
        self.store.inner().channels[self.shard].answers.pop_front()
    }

    fn spill_account(&self) -> &Arc<SpillAccount> {
        &self.shelf
    }
}
