//! Nodes that paused searches refer to, in a tree that changes meanwhile; see [`CursorPins`].

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::level_tree::NodeId;

/// Nodes that are pinned by paused searches. A pinned node must not be freed, as its number would be reused.
///
/// Searches pin and unpin nodes with only shared access to the tree, so the pins have their own lock, held for one map lookup. Only a
/// holder of exclusive access frees nodes, and takes those that searches have [unpinned](CursorPins::take_unpinned).
#[derive(Debug, Default)]
pub(crate) struct CursorPins {
    table: Mutex<PinTable>,
    /// Entries of both lists. While it is 0, which is almost always, the lock is not taken.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct PinTable {
    pinned: HashMap<NodeId, PinCount, RandomState>,
    /// Nodes that would have been freed while they were pinned, and that are no longer pinned.
    left: Vec<NodeId>,
}

#[derive(Debug, Default)]
struct PinCount {
    /// The number of searches.
    searches: u32,
    /// Whether the node would have been freed.
    is_prunable: bool,
}

impl CursorPins {
    /// Moves the pin of a search from one node to another; `None` and the root are not pinned.
    pub(crate) fn change(&self, from: Option<NodeId>, to: Option<NodeId>) {
        let inner = |node: &NodeId| *node != NodeId::ROOT;
        let (from, to) = (from.filter(inner), to.filter(inner));
        if from == to {
            return;
        }
        let mut table = self.lock();
        if let Some(to) = to {
            table.pinned.entry(to).or_default().searches += 1;
        }
        if let Some(from) = from {
            table.leave(from);
        }
        self.update_count(&table);
    }

    /// Whether `node`, which is to be freed, is pinned. If so, it is deferred until it is unpinned.
    pub(crate) fn is_pinned(&self, node: NodeId) -> bool {
        if self.is_empty() {
            return false;
        }
        match self.lock().pinned.get_mut(&node) {
            Some(rest) => {
                rest.is_prunable = true;
                true
            }
            None => false,
        }
    }

    /// Returns the deferred nodes, to be freed if they are still unused.
    pub(crate) fn take_unpinned(&self) -> Vec<NodeId> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut table = self.lock();
        let left = core::mem::take(&mut table.left);
        self.update_count(&table);
        left
    }

    /// Whether there are deferred nodes.
    pub(crate) fn has_unpinned(&self) -> bool {
        !self.is_empty() && !self.lock().left.is_empty()
    }

    /// Heap bytes in use.
    pub(crate) fn memory_bytes(&self) -> usize {
        let table = self.lock();
        table.pinned.allocation_size() + table.left.capacity() * size_of::<NodeId>()
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn update_count(&self, table: &PinTable) {
        self.count.store(table.pinned.len() + table.left.len(), Ordering::Release);
    }

    /// The lists are consistent even after a panic: every change is a single call.
    fn lock(&self) -> MutexGuard<'_, PinTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PinTable {
    fn leave(&mut self, node: NodeId) {
        let Some(rest) = self.pinned.get_mut(&node) else { return };
        rest.searches -= 1;
        if rest.searches == 0 {
            if rest.is_prunable {
                self.left.push(node);
            }
            self.pinned.remove(&node);
        }
    }
}
