//! Where a shard has what it knows of its cluster, when there is no cluster.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A place for a `T` that there is not: an `Option` of it has no size and is always `None`.
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

// It is what makes the feature `cluster` cost a broker without one nothing.
const _: () = assert!(size_of::<Option<NoClusterBox<u64>>>() == 0);
