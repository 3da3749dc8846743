//! How many connections may come from one address, and how fast they may come: asked for each before anything is done for it.
//!
//! An address is one of IPv4, or the first 64 bits of one of IPv6, which is what one customer of a network has at least.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Addresses of which it is remembered how fast they connect. What is needed for that is 512 KiB, where there is such a limit at all.
pub const RATED_ADDRESSES_MAX: usize = SETS * WAYS;
/// Any address may be in the places of one set, whose number its hash gives.
const SETS: usize = 4096;
const WAYS: usize = 4;
/// Levels are counted in thousandths: a rate of `n` a second brings `n` of them each millisecond.
const THOUSANDTHS: u64 = 1_000;

/// Limits on connections as they come. By default there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArrivalLimits {
    /// Connections open at once from one address.
    pub connections_per_address: Option<usize>,
    /// How fast connections may come, from whatever address.
    pub rate: Option<ConnectRate>,
    /// How fast they may come from one address.
    pub rate_per_address: Option<ConnectRate>,
}

/// So many in a second, and so many at once after a time in which there were few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectRate {
    per_s: NonZeroU32,
    burst: NonZeroU32,
}

impl ConnectRate {
    /// `None` where there is no bound. A burst of 0 is what one second brings.
    pub fn new(per_s: u32, burst: u32) -> Option<ConnectRate> {
        let per_s = NonZeroU32::new(per_s)?;
        Some(ConnectRate { per_s, burst: NonZeroU32::new(burst).unwrap_or(per_s) })
    }

    fn full(self) -> u64 {
        u64::from(self.burst.get()) * THOUSANDTHS
    }
}

/// Why a connection is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// As many from its address are open as may be.
    OfAddress,
    /// They come too fast from its address.
    RateOfAddress,
    /// They come too fast.
    Rate,
}

impl Excess {
    /// The key that says so.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Excess::OfAddress => "limits.connections_per_address",
            Excess::RateOfAddress => "limits.connect_rate_per_address",
            Excess::Rate => "limits.connect_rate",
        }
    }
}

/// What one listener knows of those who come, or all together.
#[derive(Debug)]
pub(crate) struct Arrivals {
    limits: ArrivalLimits,
    open: Arc<Mutex<HashMap<Address, usize>>>,
    rate: Option<Arc<Mutex<(ConnectRate, Bucket)>>>,
    rate_per_address: Option<Arc<Mutex<Rated>>>,
}

impl Arrivals {
    pub(crate) fn new(limits: ArrivalLimits) -> Arrivals {
        Arrivals {
            limits,
            open: Arc::default(),
            rate: limits.rate.map(|rate| Arc::new(Mutex::new((rate, Bucket::full(rate, 0))))),
            rate_per_address: limits.rate_per_address.map(|rate| Arc::new(Mutex::new(Rated::new(rate)))),
        }
    }

    /// By other limits. Those of an address are counted on where they were counted; a rate that stays the same is kept to.
    pub(crate) fn next(&self, limits: ArrivalLimits) -> Arrivals {
        let mut next = Arrivals::new(limits);
        if self.counts_addresses() && next.counts_addresses() {
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

    /// Whether it must be told who comes and goes.
    pub(crate) fn counts_addresses(&self) -> bool {
        self.limits.connections_per_address.is_some()
    }

    /// One more is about to come in, whoever it is.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn knock(&self, now_ms: u64) -> Result<(), Excess> {
        let Some(rate) = &self.rate else { return Ok(()) };
        let (rate, bucket) = &mut *lock(rate);
        if bucket.take(*rate, now_ms) { Ok(()) } else { Err(Excess::Rate) }
    }

    /// One more is about to come in from this address. Gives whether another one's rate was forgotten for it.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn knock_from(&self, ip: IpAddr, now_ms: u64) -> Result<bool, Excess> {
        let address = Address::of(ip);
        if let Some(max) = self.limits.connections_per_address
            && lock(&self.open).get(&address).is_some_and(|open| *open >= max)
        {
            return Err(Excess::OfAddress);
        }
        let Some(rated) = &self.rate_per_address else { return Ok(false) };
        let Taken { is_granted, has_forgotten } = lock(rated).take(address, now_ms);
        if is_granted { Ok(has_forgotten) } else { Err(Excess::RateOfAddress) }
    }

    /// One from this address is open.
    pub(crate) fn entered(&self, ip: IpAddr) {
        if self.counts_addresses() {
            *lock(&self.open).entry(Address::of(ip)).or_default() += 1;
        }
    }

    /// One from this address is not open any more.
    pub(crate) fn left(&self, ip: IpAddr) {
        if self.counts_addresses()
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

/// What is left to one who connects.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    level: u64,
    filled_at_ms: u64,
}

impl Bucket {
    fn full(rate: ConnectRate, now_ms: u64) -> Bucket {
        Bucket { level: rate.full(), filled_at_ms: now_ms }
    }

    fn level(&self, rate: ConnectRate, now_ms: u64) -> u64 {
        let elapsed_ms = now_ms.saturating_sub(self.filled_at_ms);
        self.level.saturating_add(elapsed_ms.saturating_mul(u64::from(rate.per_s.get()))).min(rate.full())
    }

    /// Takes one connection, if there is one.
    fn take(&mut self, rate: ConnectRate, now_ms: u64) -> bool {
        let level = self.level(rate, now_ms);
        let is_granted = level >= THOUSANDTHS;
        let level = if is_granted { level - THOUSANDTHS } else { level };
        *self = Bucket { level, filled_at_ms: now_ms.max(self.filled_at_ms) };
        is_granted
    }
}

/// How fast addresses connect, as many as there are places for. One that has not connected for long needs none.
#[derive(Debug)]
struct Rated {
    rate: ConnectRate,
    sets: Box<[[Place; WAYS]]>,
    /// Seeded, so that nobody can aim at the set of another.
    hasher: RandomState,
}

type Place = Option<(Address, Bucket)>;

struct Taken {
    is_granted: bool,
    has_forgotten: bool,
}

impl Rated {
    fn new(rate: ConnectRate) -> Rated {
        Rated { rate, sets: vec![[None; WAYS]; SETS].into(), hasher: RandomState::new() }
    }

    fn take(&mut self, address: Address, now_ms: u64) -> Taken {
        let rate = self.rate;
        let set = &mut self.sets[self.hasher.hash_one(address) as usize % SETS];
        let known = |place: &&mut Place| place.is_some_and(|(other, _)| other == address);
        if let Some((_, bucket)) = set.iter_mut().find(known).and_then(Option::as_mut) {
            return Taken { is_granted: bucket.take(rate, now_ms), has_forgotten: false };
        }
        // A bucket that is full again says as much as none. Where all say something, the one goes that says least.
        let level = |place: &Place| place.map_or(u64::MAX, |(_, bucket)| bucket.level(rate, now_ms));
        let at = (0..WAYS).max_by_key(|at| level(&set[*at])).unwrap_or(0);
        let has_forgotten = level(&set[at]) < rate.full();
        let mut bucket = Bucket::full(rate, now_ms);
        let is_granted = bucket.take(rate, now_ms);
        set[at] = Some((address, bucket));
        Taken { is_granted, has_forgotten }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn arrivals(connections: Option<usize>, rate: (u32, u32), rate_per_address: (u32, u32)) -> Arrivals {
        Arrivals::new(ArrivalLimits {
            connections_per_address: connections,
            rate: ConnectRate::new(rate.0, rate.1),
            rate_per_address: ConnectRate::new(rate_per_address.0, rate_per_address.1),
        })
    }

    #[test]
    fn a_burst_may_come_at_once_and_then_as_many_as_the_rate_brings() {
        let arrivals = arrivals(None, (2, 5), (0, 0));
        let granted = |now_ms, tries| (0..tries).filter(|_| arrivals.knock(now_ms).is_ok()).count();
        assert_eq!(granted(10_000, 20), 5);
        assert_eq!(granted(10_499, 20), 0);
        assert_eq!(granted(10_500, 20), 1, "half a second brings one");
        assert_eq!(granted(12_000, 20), 3);
        assert_eq!(granted(60_000, 20), 5, "no more than the burst, however long nobody came");
        assert_eq!(granted(59_000, 20), 0, "a clock that goes back brings nothing");
        assert_eq!(arrivals.knock(60_000), Err(Excess::Rate));
    }

    #[test]
    fn each_address_has_a_rate_of_its_own() {
        let arrivals = arrivals(None, (0, 0), (1, 2));
        let granted = |address: &str| (0..5).filter(|_| arrivals.knock_from(ip(address), 1_000).is_ok()).count();
        assert_eq!(granted("192.0.2.1"), 2);
        assert_eq!(granted("::ffff:192.0.2.1"), 0, "it is the same address");
        assert_eq!(granted("192.0.2.2"), 2);
        assert_eq!(granted("2001:db8:0:1::1"), 2);
        assert_eq!(granted("2001:db8:0:1:ffff::9"), 0, "64 bits are one customer's");
        assert_eq!(granted("2001:db8:0:2::1"), 2);
        assert_eq!(arrivals.knock_from(ip("192.0.2.1"), 1_000), Err(Excess::RateOfAddress));
    }

    #[test]
    fn what_is_remembered_of_addresses_is_bounded_and_forgotten_first_where_it_says_least() {
        let arrivals = arrivals(None, (0, 0), (1, 2));
        let from = |number: usize| IpAddr::from(std::net::Ipv4Addr::from_bits(number as u32));
        let mut forgotten = 0;
        for number in 0..4 * RATED_ADDRESSES_MAX {
            forgotten += usize::from(arrivals.knock_from(from(number), 0).expect("it has not come before"));
        }
        assert!((3 * RATED_ADDRESSES_MAX..4 * RATED_ADDRESSES_MAX).contains(&forgotten), "{forgotten}");
        // By now all buckets are full again, and say nothing.
        for number in 0..64 {
            assert_eq!(arrivals.knock_from(from(4 * RATED_ADDRESSES_MAX + number), 2_000), Ok(false));
        }
        // One that has used up what it may is remembered while others come once.
        let greedy = ip("203.0.113.1");
        while arrivals.knock_from(greedy, 10_000).is_ok() {}
        for number in 0..RATED_ADDRESSES_MAX {
            let _ = arrivals.knock_from(from(number), 10_000);
        }
        assert_eq!(arrivals.knock_from(greedy, 10_000), Err(Excess::RateOfAddress));
    }

    #[test]
    fn by_other_limits_those_who_are_counted_stay_counted() {
        let before = arrivals(Some(2), (1, 1), (0, 0));
        let one = ip("192.0.2.1");
        before.entered(one);
        assert_eq!(before.knock(0), Ok(()));
        let of_one = ArrivalLimits { connections_per_address: Some(1), ..before.limits };
        let after = before.next(of_one);
        assert_eq!(after.knock_from(one, 0), Err(Excess::OfAddress));
        assert_eq!(after.knock(0), Err(Excess::Rate), "the rate is the same, and used up");
        before.left(one);
        assert_eq!(after.knock_from(one, 0), Ok(false));
        // Who came when nobody was counted takes nothing away when it leaves.
        let (none, again) = (after.next(ArrivalLimits::default()), after.next(of_one));
        none.entered(one);
        again.entered(one);
        none.left(one);
        assert_eq!(again.knock_from(one, 0), Err(Excess::OfAddress));
    }

    #[test]
    fn so_many_of_one_address_may_be_open() {
        let arrivals = arrivals(Some(2), (0, 0), (0, 0));
        let (one, other) = (ip("2001:db8::1"), ip("2001:db8::2"));
        for address in [one, other] {
            assert_eq!(arrivals.knock_from(address, 0), Ok(false));
            arrivals.entered(address);
        }
        assert_eq!(arrivals.knock_from(one, 0), Err(Excess::OfAddress));
        assert_eq!(arrivals.knock_from(ip("192.0.2.1"), 0), Ok(false));
        arrivals.left(other);
        assert_eq!(arrivals.knock_from(one, 0), Ok(false));
        arrivals.left(one);
        assert!(lock(&arrivals.open).is_empty(), "nothing is kept of those who are gone");
    }
}
