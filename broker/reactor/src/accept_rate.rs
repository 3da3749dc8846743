//! Limits the number and the rate of connections per address, before any work is done for them.
//!
//! An address is an IPv4 address, or the first 64 bits of an IPv6 address, the smallest network that one customer has.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of addresses whose connect rate is tracked. Takes 512 KiB, if such a limit is configured.
pub const TRACKED_ADDRESSES_MAX: usize = SETS * WAYS;
/// An address belongs to the set that its hash selects, in any slot of it.
const SETS: usize = 4096;
const WAYS: usize = 4;
/// Levels are counted in thousandths: a rate of `n` per second adds `n` of them each millisecond.
const THOUSANDTHS: u64 = 1_000;

/// Limits on new connections. None by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AcceptLimits {
    /// Open connections from one address.
    pub connections_per_address: Option<usize>,
    /// The rate of connections from all addresses.
    pub rate: Option<ConnectRate>,
    /// The rate of connections from one address.
    pub rate_per_address: Option<ConnectRate>,
}

/// Connections per second, and the burst that is allowed after an idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectRate {
    per_s: NonZeroU32,
    burst: NonZeroU32,
}

impl ConnectRate {
    /// Creates a rate; `None` if there is no limit. A burst of 0 means the connections of one second.
    pub fn new(per_s: u32, burst: u32) -> Option<ConnectRate> {
        let per_s = NonZeroU32::new(per_s)?;
        Some(ConnectRate { per_s, burst: NonZeroU32::new(burst).unwrap_or(per_s) })
    }

    fn full(self) -> u64 {
        u64::from(self.burst.get()) * THOUSANDTHS
    }
}

/// Why a connection is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcceptLimitExceeded {
    /// The connection limit of its address is reached.
    ConnectionsPerAddress,
    /// The rate limit of its address is reached.
    RatePerAddress,
    /// The rate limit of all addresses is reached.
    Rate,
}

impl AcceptLimitExceeded {
    /// Returns the configuration key of the limit.
    pub(crate) fn key(self) -> &'static str {
        match self {
            AcceptLimitExceeded::ConnectionsPerAddress => "limits.connections_per_address",
            AcceptLimitExceeded::RatePerAddress => "limits.connect_rate_per_address",
            AcceptLimitExceeded::Rate => "limits.connect_rate",
        }
    }
}

/// The accept limits with their state, of one listener or of all together.
#[derive(Debug)]
pub(crate) struct AcceptRate {
    limits: AcceptLimits,
    open: Arc<Mutex<HashMap<Address, usize>>>,
    rate: Option<Arc<Mutex<(ConnectRate, TokenBucket)>>>,
    rate_per_address: Option<Arc<Mutex<AddressRates>>>,
}

impl AcceptRate {
    pub(crate) fn new(limits: AcceptLimits) -> AcceptRate {
        AcceptRate {
            limits,
            open: Arc::default(),
            rate: limits.rate.map(|rate| Arc::new(Mutex::new((rate, TokenBucket::full(rate, 0))))),
            rate_per_address: limits.rate_per_address.map(|rate| Arc::new(Mutex::new(AddressRates::new(rate)))),
        }
    }

    /// Creates a copy with other limits. Connections of addresses stay counted if they were; an unchanged rate keeps its state.
    pub(crate) fn next(&self, limits: AcceptLimits) -> AcceptRate {
        let mut next = AcceptRate::new(limits);
        if self.tracks_addresses() && next.tracks_addresses() {
            next.open = self.open.clone();
        }
        if limits.rate == self.limits.rate {
            next.rate = self.rate.clone();
        }
        if limits.rate_per_address == self.limits.rate_per_address {
            next.rate_per_address = self.rate_per_address.clone();
        }
        next
    }

    /// Whether connections must be reported when they are opened and closed.
    pub(crate) fn tracks_addresses(&self) -> bool {
        self.limits.connections_per_address.is_some()
    }

    /// Checks the rate of all connections, and counts one more.
    ///
    /// # Errors
    /// The limit is reached.
    pub(crate) fn check_rate(&self, now_ms: u64) -> Result<(), AcceptLimitExceeded> {
        let Some(rate) = &self.rate else { return Ok(()) };
        let (rate, bucket) = &mut *lock(rate);
        if bucket.take(*rate, now_ms) { Ok(()) } else { Err(AcceptLimitExceeded::Rate) }
    }

    /// Checks the limits of an address, and counts one more connection. Returns whether the rate of another address was evicted.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn check_address(&self, ip: IpAddr, now_ms: u64) -> Result<bool, AcceptLimitExceeded> {
        let address = Address::of(ip);
        if let Some(max) = self.limits.connections_per_address
            && lock(&self.open).get(&address).is_some_and(|open| *open >= max)
        {
            return Err(AcceptLimitExceeded::ConnectionsPerAddress);
        }
        let Some(rated) = &self.rate_per_address else { return Ok(false) };
        let RateCheck { is_granted, has_evicted } = lock(rated).take(address, now_ms);
        if is_granted { Ok(has_evicted) } else { Err(AcceptLimitExceeded::RatePerAddress) }
    }

    /// Counts an open connection of this address.
    pub(crate) fn add_connection(&self, ip: IpAddr) {
        if self.tracks_addresses() {
            *lock(&self.open).entry(Address::of(ip)).or_default() += 1;
        }
    }

    /// Uncounts a closed connection of this address.
    pub(crate) fn remove_connection(&self, ip: IpAddr) {
        if self.tracks_addresses()
            && let Entry::Occupied(mut open) = lock(&self.open).entry(Address::of(ip))
        {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What counts as one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Address {
    V4(u32),
    V6(u64),
}

impl Address {
    fn of(ip: IpAddr) -> Address {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Address::V4(ip.to_bits()),
            IpAddr::V6(ip) => Address::V6((ip.to_bits() >> 64) as u64),
        }
    }
}

/// A token bucket for connections.
#[derive(Debug, Clone, Copy)]
struct TokenBucket {
    level: u64,
    filled_at_ms: u64,
}

impl TokenBucket {
    fn full(rate: ConnectRate, now_ms: u64) -> TokenBucket {
        TokenBucket { level: rate.full(), filled_at_ms: now_ms }
    }

    fn level(&self, rate: ConnectRate, now_ms: u64) -> u64 {
        let elapsed_ms = now_ms.saturating_sub(self.filled_at_ms);
        self.level.saturating_add(elapsed_ms.saturating_mul(u64::from(rate.per_s.get()))).min(rate.full())
    }

    /// Takes a token for one connection. Returns false if there is none.
    fn take(&mut self, rate: ConnectRate, now_ms: u64) -> bool {
        let level = self.level(rate, now_ms);
        let is_granted = level >= THOUSANDTHS;
        let level = if is_granted { level - THOUSANDTHS } else { level };
        *self = TokenBucket { level, filled_at_ms: now_ms.max(self.filled_at_ms) };
        is_granted
    }
}

/// The rates of recently connecting addresses, up to the number of slots. An address with a full bucket needs no slot.
#[derive(Debug)]
struct AddressRates {
    rate: ConnectRate,
    sets: Box<[[AddressSlot; WAYS]]>,
    /// Seeded, so that attackers cannot target the set of another address.
    hasher: RandomState,
}

type AddressSlot = Option<(Address, TokenBucket)>;

struct RateCheck {
    is_granted: bool,
    has_evicted: bool,
}

impl AddressRates {
    fn new(rate: ConnectRate) -> AddressRates {
        AddressRates { rate, sets: vec![[None; WAYS]; SETS].into(), hasher: RandomState::new() }
    }

    fn take(&mut self, address: Address, now_ms: u64) -> RateCheck {
        let rate = self.rate;
        let set = &mut self.sets[self.hasher.hash_one(address) as usize % SETS];
        let known = |place: &&mut AddressSlot| place.is_some_and(|(other, _)| other == address);
        if let Some((_, bucket)) = set.iter_mut().find(known).and_then(Option::as_mut) {
            return RateCheck { is_granted: bucket.take(rate, now_ms), has_evicted: false };
        }
        // A full bucket holds no information. If no bucket is full, evict the fullest one.
        let level = |place: &AddressSlot| place.map_or(u64::MAX, |(_, bucket)| bucket.level(rate, now_ms));
        let at = (0..WAYS).max_by_key(|at| level(&set[*at])).unwrap_or(0);
        let has_evicted = level(&set[at]) < rate.full();
        let mut bucket = TokenBucket::full(rate, now_ms);
        let is_granted = bucket.take(rate, now_ms);
        set[at] = Some((address, bucket));
        RateCheck { is_granted, has_evicted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn accept_rate(connections: Option<usize>, rate: (u32, u32), rate_per_address: (u32, u32)) -> AcceptRate {
        AcceptRate::new(AcceptLimits {
            connections_per_address: connections,
            rate: ConnectRate::new(rate.0, rate.1),
            rate_per_address: ConnectRate::new(rate_per_address.0, rate_per_address.1),
        })
    }

    #[test]
    fn a_burst_is_accepted_at_once_and_then_the_rate_applies() {
        let accept_rate = accept_rate(None, (2, 5), (0, 0));
        let granted = |now_ms, tries| (0..tries).filter(|_| accept_rate.check_rate(now_ms).is_ok()).count();
        assert_eq!(granted(10_000, 20), 5);
        assert_eq!(granted(10_499, 20), 0);
        assert_eq!(granted(10_500, 20), 1, "half a second adds one");
        assert_eq!(granted(12_000, 20), 3);
        assert_eq!(granted(60_000, 20), 5, "no more than the burst, however long the idle time");
        assert_eq!(granted(59_000, 20), 0, "a clock that goes back adds nothing");
        assert_eq!(accept_rate.check_rate(60_000), Err(AcceptLimitExceeded::Rate));
    }

    #[test]
    fn each_address_has_its_own_rate() {
        let accept_rate = accept_rate(None, (0, 0), (1, 2));
        let granted = |address: &str| (0..5).filter(|_| accept_rate.check_address(ip(address), 1_000).is_ok()).count();
        assert_eq!(granted("192.0.2.1"), 2);
        assert_eq!(granted("::ffff:192.0.2.1"), 0, "it is the same address");
        assert_eq!(granted("192.0.2.2"), 2);
        assert_eq!(granted("2001:db8:0:1::1"), 2);
        assert_eq!(granted("2001:db8:0:1:ffff::9"), 0, "the first 64 bits are one address");
        assert_eq!(granted("2001:db8:0:2::1"), 2);
        assert_eq!(accept_rate.check_address(ip("192.0.2.1"), 1_000), Err(AcceptLimitExceeded::RatePerAddress));
    }

    #[test]
    fn the_address_table_is_bounded_and_evicts_the_least_relevant() {
        let accept_rate = accept_rate(None, (0, 0), (1, 2));
        let from = |number: usize| IpAddr::from(std::net::Ipv4Addr::from_bits(number as u32));
        let mut forgotten = 0;
        for number in 0..4 * TRACKED_ADDRESSES_MAX {
            forgotten += usize::from(accept_rate.check_address(from(number), 0).expect("a new address"));
        }
        assert!((3 * TRACKED_ADDRESSES_MAX..4 * TRACKED_ADDRESSES_MAX).contains(&forgotten), "{forgotten}");
        // By now all buckets are full again.
        for number in 0..64 {
            assert_eq!(accept_rate.check_address(from(4 * TRACKED_ADDRESSES_MAX + number), 2_000), Ok(false));
        }
        // An address that has used up its rate stays tracked while others connect once.
        let busy = ip("203.0.113.1");
        while accept_rate.check_address(busy, 10_000).is_ok() {}
        for number in 0..TRACKED_ADDRESSES_MAX {
            let _ = accept_rate.check_address(from(number), 10_000);
        }
        assert_eq!(accept_rate.check_address(busy, 10_000), Err(AcceptLimitExceeded::RatePerAddress));
    }

    #[test]
    fn connections_stay_counted_when_limits_change() {
        let before = accept_rate(Some(2), (1, 1), (0, 0));
        let one = ip("192.0.2.1");
        before.add_connection(one);
        assert_eq!(before.check_rate(0), Ok(()));
        let one_per_address = AcceptLimits { connections_per_address: Some(1), ..before.limits };
        let after = before.next(one_per_address);
        assert_eq!(after.check_address(one, 0), Err(AcceptLimitExceeded::ConnectionsPerAddress));
        assert_eq!(after.check_rate(0), Err(AcceptLimitExceeded::Rate), "the rate is unchanged, and used up");
        before.remove_connection(one);
        assert_eq!(after.check_address(one, 0), Ok(false));
        // A connection that was not counted when it was opened is not uncounted when it is closed.
        let (none, again) = (after.next(AcceptLimits::default()), after.next(one_per_address));
        none.add_connection(one);
        again.add_connection(one);
        none.remove_connection(one);
        assert_eq!(again.check_address(one, 0), Err(AcceptLimitExceeded::ConnectionsPerAddress));
    }

    #[test]
    fn open_connections_per_address_are_limited() {
        let accept_rate = accept_rate(Some(2), (0, 0), (0, 0));
        let (one, other) = (ip("2001:db8::1"), ip("2001:db8::2"));
        for address in [one, other] {
            assert_eq!(accept_rate.check_address(address, 0), Ok(false));
            accept_rate.add_connection(address);
        }
        assert_eq!(accept_rate.check_address(one, 0), Err(AcceptLimitExceeded::ConnectionsPerAddress));
        assert_eq!(accept_rate.check_address(ip("192.0.2.1"), 0), Ok(false));
        accept_rate.remove_connection(other);
        assert_eq!(accept_rate.check_address(one, 0), Ok(false));
        accept_rate.remove_connection(one);
        assert!(lock(&accept_rate.open).is_empty(), "closed connections leave no entry");
    }
}
