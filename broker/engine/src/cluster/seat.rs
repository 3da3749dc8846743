//! Where a shard has what it knows of its cluster.

use super::Room;

/// Whether a shard can be one of a cluster: with the feature `cluster`.
pub const HAS_CLUSTER: bool = cfg!(feature = "cluster");

/// What a shard knows of its cluster, where the broker is one of several.
#[cfg(feature = "cluster")]
pub(crate) type Seat = Option<Box<Room>>;

/// Always `None` and of no size: what is asked of it on the way of each packet costs nothing.
#[cfg(not(feature = "cluster"))]
pub(crate) type Seat = Option<NoRoom>;

#[cfg(feature = "cluster")]
pub(super) fn take(room: Room) -> Seat {
    Some(Box::new(room))
}

#[cfg(not(feature = "cluster"))]
pub(super) fn take(_: Room) -> Seat {
    None
}

/// A room that there is not.
#[cfg(not(feature = "cluster"))]
pub(crate) enum NoRoom {}

#[cfg(not(feature = "cluster"))]
impl std::ops::Deref for NoRoom {
    type Target = Room;

    fn deref(&self) -> &Room {
        match *self {}
    }
}

#[cfg(not(feature = "cluster"))]
impl std::ops::DerefMut for NoRoom {
    fn deref_mut(&mut self) -> &mut Room {
        match *self {}
    }
}
