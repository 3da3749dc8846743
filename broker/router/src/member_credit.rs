//! The credit of a member of a shared subscription: how many messages it can take.
//!
//! All shards know it. The shard that owns the session grants credit, as a TCP receiver grants a window: `granted` and `taken` only grow,
//! and a member has credit while `taken` is smaller. A shard that picks the member takes one credit at once, so two shards never use the
//! same slot of its window. The owner counts messages as they arrive, and grants that count plus the free slots: messages in transit stay
//! reserved.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The credit of one session for messages of its shared subscriptions.
///
/// All accesses are sequentially consistent: a shard that finds no credit leaves a request and checks again, while the owner grants credit
/// and then checks for requests. One of the two always sees the other.
#[derive(Debug, Default)]
pub struct MemberCredit {
    is_online: AtomicBool,
    granted: AtomicU64,
    taken: AtomicU64,
    /// Written by the owner only.
    arrived: AtomicU64,
    has_requests: AtomicBool,
    /// Shared subscriptions with messages for which the session had no credit.
    requests: Mutex<BTreeSet<Arc<str>>>,
}

impl MemberCredit {
    /// Creates the credit of a session, with the state of its client.
    pub fn new(is_online: bool) -> MemberCredit {
        MemberCredit { is_online: AtomicBool::new(is_online), ..MemberCredit::default() }
    }

    /// Whether the client is connected.
    #[inline]
    pub fn is_online(&self) -> bool {
        self.is_online.load(Ordering::SeqCst)
    }

    /// Whether the session can take one more message of QoS 1 or 2.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.is_online() && self.taken.load(Ordering::SeqCst) < self.granted.load(Ordering::SeqCst)
    }

    /// Reserves credit for one message. Returns false if there is none.
    pub fn take(&self) -> bool {
        let fits = |taken| (taken < self.granted.load(Ordering::SeqCst)).then_some(taken + 1);
        self.is_online() && self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_ok()
    }

    /// Returns the credit of a message that is not sent.
    pub fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
    }

    /// Requests a notification for a shared subscription as soon as the session has credit.
    pub fn request(&self, share: &Arc<str>) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.insert(share.clone());
        self.has_requests.store(true, Ordering::SeqCst);
    }

    // For the owner of the session.

    /// Records that the client has connected or disconnected.
    pub fn set_online(&self, is_online: bool) {
        self.is_online.store(is_online, Ordering::SeqCst);
    }

    /// Records that a message for which credit was taken has reached the owner.
    pub fn record_arrival(&self) {
        let arrived = self.arrived.load(Ordering::Relaxed);
        self.arrived.store(arrived + 1, Ordering::Relaxed);
    }

    /// Grants credit for `free` messages, including those in transit. Returns whether there is credit and a request for it.
    pub fn grant(&self, free: usize) -> bool {
        let granted = self.arrived.load(Ordering::Relaxed) + free as u64;
        self.granted.store(granted, Ordering::SeqCst);
        self.has_requests.load(Ordering::SeqCst) && self.has_room()
    }

    /// Removes up to `most` requests. Also returns whether more are left.
    pub fn take_requests(&self, most: usize) -> (Vec<Arc<str>>, bool) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = (0..most).map_while(|_| requests.pop_first()).collect();
        let are_left = !requests.is_empty();
        self.has_requests.store(are_left, Ordering::SeqCst);
        (taken, are_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_in_flight_never_exceeds_the_grant() {
        let room = MemberCredit::new(true);
        assert!(!room.take());
        room.grant(2);
        assert!(room.take() && room.take() && !room.take());
        // One has arrived and fills one of the two slots; the other is still in transit.
        room.record_arrival();
        room.grant(1);
        assert!(!room.has_room() && !room.take());
        room.record_arrival();
        room.grant(1);
        assert!(room.take());
        room.give_back();
        assert!(room.has_room());
        room.set_online(false);
        assert!(!room.has_room() && !room.take());
    }

    #[test]
    fn a_credit_request_is_answered_once_there_is_credit() {
        let room = MemberCredit::new(true);
        let shares: Vec<Arc<str>> = ["$share/g/a", "$share/g/b", "$share/g/c"].map(Arc::from).into();
        assert!(!room.grant(1), "there is no request");
        shares.iter().chain(&shares).for_each(|share| room.request(share));
        assert!(!room.grant(0), "there is no room");
        assert!(room.grant(1));
        assert_eq!(room.take_requests(2), (shares[..2].to_vec(), true));
        assert!(room.grant(1));
        assert_eq!(room.take_requests(2), (shares[2..].to_vec(), false));
        assert!(!room.grant(1));
    }
}
