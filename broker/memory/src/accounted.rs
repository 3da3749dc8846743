//! Values that hold memory of several kinds and change often.

use std::ops::Deref;
use std::sync::Arc;

use crate::kind::Kind;
use crate::ledger::MemoryLedger;

/// Bytes by kind.
pub type Footprint<const N: usize> = [(Kind, usize); N];

/// A value that can report its memory cheaply.
pub trait MemoryFootprint<const N: usize> {
    /// Bytes that the value holds, by kind. The kinds are the same each time.
    fn footprint(&self) -> Footprint<N>;
}

/// A value whose memory is in its shard's ledger until it is dropped. It can be read freely; it changes only through
/// [`TrackedValue::change`] and [`TrackedValue::update_part`], which keep the ledger up to date.
#[derive(Debug)]
pub struct TrackedValue<T: MemoryFootprint<N>, const N: usize> {
    value: T,
    ledger: Arc<MemoryLedger>,
}

impl<T: MemoryFootprint<N>, const N: usize> TrackedValue<T, N> {
    /// Adds the memory of `value` to the ledger.
    pub fn new(value: T, ledger: &Arc<MemoryLedger>) -> TrackedValue<T, N> {
        for (kind, bytes) in value.footprint() {
            ledger.enter(kind, bytes);
        }
        TrackedValue { value, ledger: ledger.clone() }
    }

    /// Changes the value.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let before = self.value.footprint();
        let result = change(&mut self.value);
        for ((kind, before), (_, after)) in before.into_iter().zip(self.value.footprint()) {
            if before != after {
                self.ledger.settle(kind, before, after);
            }
        }
        result
    }

    /// Changes only the part whose bytes `part` reports, which is cheaper than computing the whole footprint.
    #[inline]
    pub fn update_part<R, const P: usize>(
        &mut self,
        part: impl Fn(&T) -> Footprint<P>,
        change: impl FnOnce(&mut T) -> R,
    ) -> R {
        let before = part(&self.value);
        let result = change(&mut self.value);
        for ((kind, before), (_, after)) in before.into_iter().zip(part(&self.value)) {
            if before != after {
                self.ledger.settle(kind, before, after);
            }
        }
        result
    }

    /// For changes that do not affect the footprint, or are followed by [`TrackedValue::settle`].
    #[inline]
    pub fn untracked_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Records a change of the footprint that was made through [`TrackedValue::untracked_mut`].
    pub fn settle(&self, kind: Kind, before: usize, after: usize) {
        self.ledger.settle(kind, before, after);
    }
}

impl<T: MemoryFootprint<N>, const N: usize> Deref for TrackedValue<T, N> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: MemoryFootprint<N>, const N: usize> Drop for TrackedValue<T, N> {
    fn drop(&mut self) {
        for (kind, bytes) in self.value.footprint() {
            self.ledger.settle(kind, bytes, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Basket {
        apples: usize,
        pears: usize,
    }

    impl MemoryFootprint<2> for Basket {
        fn footprint(&self) -> Footprint<2> {
            [(Kind::Queue, self.apples), (Kind::Window, self.pears)]
        }
    }

    #[test]
    fn the_ledger_follows_the_value() {
        let ledger = Arc::new(MemoryLedger::default());
        let held = |ledger: &MemoryLedger| (ledger.held(Kind::Queue), ledger.held(Kind::Window), ledger.all());
        let mut basket = TrackedValue::new(Basket { apples: 5, pears: 0 }, &ledger);
        assert_eq!(held(&ledger), (5, 0, 5));
        basket.change(|basket| {
            basket.apples -= 2;
            basket.pears += 1;
        });
        assert_eq!(held(&ledger), (3, 1, 4));
        basket.update_part(|basket| [(Kind::Window, basket.pears)], |basket| basket.pears = 9);
        assert_eq!((held(&ledger), basket.pears), ((3, 9, 12), 9));
        drop(basket);
        assert_eq!(held(&ledger), (0, 0, 0));
    }
}
