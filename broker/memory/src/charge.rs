//! A charge to a ledger that is released on drop.

use std::sync::Arc;

use crate::kind::Kind;
use crate::ledger::MemoryLedger;

/// Bytes of one kind, charged to a ledger. They are released on drop, on any thread.
#[derive(Debug)]
pub struct Charge {
    ledger: Arc<MemoryLedger>,
    bytes: usize,
    kind: Kind,
}

impl Charge {
    /// An empty charge.
    pub fn new(ledger: &Arc<MemoryLedger>, kind: Kind) -> Charge {
        Charge { ledger: ledger.clone(), bytes: 0, kind }
    }

    /// The number of bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the total to `bytes`. Only the thread of the ledger's shard may call it.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            self.ledger.settle(self.kind, self.bytes, bytes);
            self.bytes = bytes;
        }
    }

    /// Adds `bytes` to the total. Only the thread of the ledger's shard may call it.
    #[inline]
    pub fn grow(&mut self, bytes: usize) {
        self.ledger.enter(self.kind, bytes);
        self.bytes += bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.ledger.give_back(self.kind, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_is_released_when_dropped() {
        let ledger = Arc::new(MemoryLedger::default());
        let mut charge = Charge::new(&ledger, Kind::Transit);
        charge.grow(10);
        charge.set(70);
        assert_eq!((charge.bytes(), ledger.held(Kind::Transit)), (70, 70));
        charge.set(30);
        assert_eq!(ledger.all(), 30);
        drop(charge);
        assert_eq!((ledger.held(Kind::Transit), ledger.all()), (0, 0));
    }
}
