//! Where searches rest in a tree that changes meanwhile; see [`Rests`].

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::level_tree::NodeId;

/// The nodes on which searches rest. Such a node must not be freed: its number would come to stand for another.
///
/// Searches come to rest and leave while they share the tree with others, so this has a lock of its own, held for one
/// look into a map. Only who has the tree alone frees nodes, and takes what searches have [left](Rests::take_left).
#[derive(Debug, Default)]
pub(crate) struct Rests {
    places: Mutex<Places>,
    /// Entries of both lists. While it is 0, which is almost always, nobody takes the lock.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Places {
    occupied: HashMap<NodeId, Rest, RandomState>,
    /// Nodes that would have been freed while somebody rested there, and that everybody has left.
    left: Vec<NodeId>,
}

#[derive(Debug, Default)]
struct Rest {
    /// How many searches.
    searches: u32,
    /// The node would have been freed.
    is_unwanted: bool,
}

impl Rests {
    /// A search goes from one node to another; `None` and the root are no places to rest.
    pub(crate) fn change(&self, from: Option<NodeId>, to: Option<NodeId>) {
        let inner = |node: &NodeId| *node != NodeId::ROOT;
        let (from, to) = (from.filter(inner), to.filter(inner));
        if from == to {
            return;
        }
        let mut places = self.lock();
        if let Some(to) = to {
            places.occupied.entry(to).or_default().searches += 1;
        }
        if let Some(from) = from {
            places.leave(from);
        }
        self.note_count(&places);
    }

    /// Whether somebody rests on `node`, which is to be freed. If so, it is among what is left when they go.
    pub(crate) fn keeps(&self, node: NodeId) -> bool {
        if self.is_empty() {
            return false;
        }
        match self.lock().occupied.get_mut(&node) {
            Some(rest) => {
                rest.is_unwanted = true;
                true
            }
            None => false,
        }
    }

    /// The nodes that are to be freed if nothing else has come to need them.
    pub(crate) fn take_left(&self) -> Vec<NodeId> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut places = self.lock();
        let left = core::mem::take(&mut places.left);
        self.note_count(&places);
        left
    }

    /// Whether there are such.
    pub(crate) fn has_left(&self) -> bool {
        !self.is_empty() && !self.lock().left.is_empty()
    }

    /// Heap bytes in use.
    pub(crate) fn memory_bytes(&self) -> usize {
        let places = self.lock();
        places.occupied.allocation_size() + places.left.capacity() * size_of::<NodeId>()
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn note_count(&self, places: &Places) {
        self.count.store(places.occupied.len() + places.left.len(), Ordering::Release);
    }

    /// A thread that panicked has left the lists whole: every change is a single call.
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn leave(&mut self, node: NodeId) {
        let Some(rest) = self.occupied.get_mut(&node) else { return };
        rest.searches -= 1;
        if rest.searches == 0 {
            if rest.is_unwanted {
                self.left.push(node);
            }
            self.occupied.remove(&node);
        }
    }
}
