//! A spill store that answers late.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tautwire_memory::Memory;
use tautwire_message::{FreedSlots, SpillAccount, SpillClient, SpillRequest, SpillResponse, Spilled};
use tautwire_spill::{Faults, FaultyFiles, Settings, Store};

use super::choices::Choices;

/// Small, so that files are compacted often.
const FILE_BYTES: u32 = 16 << 10;
/// The limit of pending requests of a shard.
const REQUESTS_MAX: usize = 256;

/// The spill store of one broker. Clones share it.
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
    requests: VecDeque<SpillRequest>,
    responses: VecDeque<SpillResponse>,
}

impl SlowStore {
    /// Creates a store for `shards` shards.
    pub(crate) fn new(shards: usize) -> SlowStore {
        let files = FaultyFiles::default();
        let settings = Settings { limit_bytes: 1 << 30, file_bytes: FILE_BYTES };
        let store = Store::new(files.clone(), settings);
        let channels = (0..shards).map(|_| StoreChannel::default()).collect();
        SlowStore { inner: Arc::new(Mutex::new(Inner { store, channels })), files, freed: Arc::default() }
    }

    /// The client of one shard.
    pub(crate) fn port(&self, shard: usize, memory: &Memory) -> Box<dyn SpillClient> {
        let account = Arc::new(SpillAccount::new(memory.ledger(shard).clone(), self.freed.clone()));
        Box::new(SlowPort { store: self.clone(), shard, account })
    }

    /// Replaces the faults of the disk.
    pub(crate) fn set_faults(&self, faults: Faults) {
        self.files.set_faults(faults);
    }

    /// Serves one request. Returns the shard to wake.
    pub(crate) fn serve(&self, choices: &mut impl Choices) -> Option<usize> {
        let mut inner = self.inner();
        let Inner { store, channels } = &mut *inner;
        self.freed.take(Vec::new()).into_iter().for_each(|slot| store.free(slot));
        let _ = store.compact_step();
        store.remove_dead_files();
        let waiting: Vec<usize> = (0..channels.len()).filter(|shard| !channels[*shard].requests.is_empty()).collect();
        let shard = *waiting.get(choices.below(waiting.len().max(1)))?;
        let request = channels[shard].requests.pop_front()?;
        let response = store.answer(request);
        channels[shard].responses.push_back(response);
        Some(shard)
    }

    /// The number of messages stored, written and read.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let stats = self.inner().store.stats();
        (stats.messages, stats.written, stats.read)
    }

    /// Clears all faults and reads the payload of a message.
    pub(crate) fn payload(&self, spilled: &Spilled) -> Vec<u8> {
        self.set_faults(Faults::default());
        let mut bytes = Vec::new();
        let range =
            self.inner().store.read(&[spilled.slot()], &mut bytes).pop().flatten().expect("the message is readable");
        spilled.read(&bytes[range]).expect("the slot holds this message").payload.to_vec()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("the lock is not poisoned")
    }
}

struct SlowPort {
    store: SlowStore,
    shard: usize,
    account: Arc<SpillAccount>,
}

impl SpillClient for SlowPort {
    fn post(&mut self, request: SpillRequest) -> Result<(), SpillRequest> {
        let mut inner = self.store.inner();
        let requests = &mut inner.channels[self.shard].requests;
        if requests.len() >= REQUESTS_MAX {
            return Err(request);
        }
        requests.push_back(request);
        Ok(())
    }

    fn has_answer(&self) -> bool {
        !self.store.inner().channels[self.shard].responses.is_empty()
    }

    fn next_answer(&mut self) -> Option<SpillResponse> {
        self.store.inner().channels[self.shard].responses.pop_front()
    }

    fn spill_account(&self) -> &Arc<SpillAccount> {
        &self.account
    }
}
