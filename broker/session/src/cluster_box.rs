//! The type of a shard's cluster state when there is no cluster.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A box that cannot exist: an `Option` of it has no size and is always `None`.
#[derive(Debug)]
pub struct NoClusterBox<T>(Infallible, PhantomData<T>);

impl<T> Deref for NoClusterBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self.0 {}
    }
}

impl<T> DerefMut for NoClusterBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        match self.0 {}
    }
}

// Because of this, the feature `cluster` costs a broker without a cluster nothing.
const _: () = assert!(size_of::<Option<NoClusterBox<u64>>>() == 0);
