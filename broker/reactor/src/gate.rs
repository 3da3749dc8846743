//! What is counted of a listener, and whether one more may come in by it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tautwire_engine::{ConnectionListener, Counters, ListenerOverrides, MountPoint, Peer};
use tautwire_proxy::{Header, Network};

use crate::arrivals::{Arrivals, Excess};
use crate::listener::{Listen, ProxyRequirements};

/// What a listener has let in. Its connections refer to it, whatever thread they are on.
#[derive(Debug)]
pub(crate) struct Gate {
    tally: Arc<Tally>,
    mount_point: Option<MountPoint>,
    offer: ListenerOverrides,
    connections_max: u64,
    /// Proxies that say for whom they speak.
    proxies: Option<Arc<[Network]>>,
    proxy_requirements: ProxyRequirements,
    /// What it knows of those who come by it, and what all listeners know together.
    own_arrivals: Arrivals,
    arrivals: Arc<Arrivals>,
}

/// What is counted of a listener, by whatever rules its connections have come.
#[derive(Debug)]
struct Tally {
    name: Arc<str>,
    connections: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    /// It has been taken away.
    is_closed: AtomicBool,
}

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnedAway {
    /// It is no proxy that is trusted.
    Untrusted,
    /// As many connections of the listener are open as may be.
    Full,
    Excess(Excess),
}

/// How a listener is doing.
#[derive(Debug, Clone)]
pub struct ListenerState {
    /// What it is called.
    pub name: Arc<str>,
    /// Connections open now.
    pub connections: u64,
    /// Connections let in so far.
    pub accepted: u64,
    /// Connections that were closed on arrival.
    pub refused: u64,
}

impl Gate {
    /// A gate of a listener, beside others of which `arrivals` knows, too.
    pub(crate) fn new(listen: &Listen, arrivals: Arc<Arrivals>) -> Gate {
        let tally = Tally {
            name: listen.name.clone(),
            connections: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        };
        Gate::counting(Arc::new(tally), listen, Arrivals::new(listen.arrivals), arrivals)
    }

    /// A gate of the same listener by other rules.
    pub(crate) fn again(&self, listen: &Listen, arrivals: Arc<Arrivals>) -> Gate {
        Gate::counting(self.tally.clone(), listen, self.own_arrivals.next(listen.arrivals), arrivals)
    }

    fn counting(tally: Arc<Tally>, listen: &Listen, own_arrivals: Arrivals, arrivals: Arc<Arrivals>) -> Gate {
        Gate {
            tally,
            mount_point: listen.mount_point.clone(),
            offer: listen.offer.clone(),
            connections_max: listen.connections_max.map_or(u64::MAX, |max| max as u64),
            proxies: listen.proxies.clone(),
            proxy_requirements: listen.proxy_requirements,
            own_arrivals,
            arrivals,
        }
    }

    /// The listener is taken away. Who has come by it is to be sent away next.
    pub(crate) fn shut(&self) {
        self.tally.is_closed.store(true, Ordering::SeqCst);
    }

    /// Whether connections begin with the header of a proxy.
    pub(crate) fn is_for_proxies(&self) -> bool {
        self.proxies.is_some()
    }

    /// Somebody has come. One thread asks, and lets in.
    ///
    /// # Errors
    /// They are not let in.
    pub(crate) fn arrive(&self, peer: Peer, counters: &Counters, now_ms: u64) -> Result<(), TurnedAway> {
        let admitted = self.admit(peer, counters, now_ms);
        match admitted {
            Ok(()) => {
                self.tally.accepted.fetch_add(1, Ordering::Relaxed);
                counters.connections_accepted.add(1);
            }
            Err(refusal) => self.note(peer, refusal, counters),
        }
        admitted
    }

    /// Why the header of a proxy is refused, if it is.
    pub(crate) fn refuse_header(&self, header: &Header) -> Option<&'static str> {
        self.proxy_requirements.refuse(header)
    }

    /// A proxy has said for whom it speaks.
    ///
    /// # Errors
    /// They are not let in.
    pub(crate) fn arrive_by_proxy(&self, peer: Peer, counters: &Counters, now_ms: u64) -> Result<(), TurnedAway> {
        let admitted = self.admit_address(peer, counters, now_ms);
        if let Err(refusal) = admitted {
            self.note(peer, refusal, counters);
        }
        admitted
    }

    fn admit(&self, peer: Peer, counters: &Counters, now_ms: u64) -> Result<(), TurnedAway> {
        if self.is_for_proxies() && !self.is_proxy(peer) {
            return Err(TurnedAway::Untrusted);
        }
        if self.tally.connections.load(Ordering::Relaxed) >= self.connections_max {
            return Err(TurnedAway::Full);
        }
        // First what it has to itself, so that one who comes too fast takes nothing of what all have.
        self.admit_address(peer, counters, now_ms)?;
        self.own_arrivals.knock(now_ms).and_then(|()| self.arrivals.knock(now_ms)).map_err(TurnedAway::Excess)
    }

    fn admit_address(&self, peer: Peer, counters: &Counters, now_ms: u64) -> Result<(), TurnedAway> {
        let Some(ip) = self.counted(peer) else { return Ok(()) };
        for arrivals in [&self.own_arrivals, &self.arrivals] {
            let has_forgotten = arrivals.knock_from(ip, now_ms).map_err(TurnedAway::Excess)?;
            counters.connect_rates_forgotten.add(u64::from(has_forgotten));
        }
        Ok(())
    }

    fn note(&self, peer: Peer, refusal: TurnedAway, counters: &Counters) {
        self.tally.refused.fetch_add(1, Ordering::Relaxed);
        match refusal {
            TurnedAway::Untrusted => counters.proxy_peers_refused.add(1),
            TurnedAway::Full => counters.connections_refused.add(1),
            TurnedAway::Excess(Excess::OfAddress) => counters.connections_refused_for_address.add(1),
            TurnedAway::Excess(Excess::Rate | Excess::RateOfAddress) => counters.connections_refused_for_rate.add(1),
        }
        log::warn!(listener = &*self.tally.name, address = &*peer.to_string(); "refused connection: {refusal}");
    }

    fn is_proxy(&self, peer: Peer) -> bool {
        let Peer::Network { ip, .. } = peer else { return false };
        self.proxies.as_ref().is_some_and(|proxies| proxies.iter().any(|network| network.contains(ip)))
    }

    /// The address that a connection counts for. Those of proxies are many clients'.
    fn counted(&self, peer: Peer) -> Option<IpAddr> {
        match peer {
            Peer::Network { ip, .. } if !self.is_proxy(peer) => Some(ip),
            _ => None,
        }
    }

    pub(crate) fn state(&self) -> ListenerState {
        ListenerState {
            name: self.tally.name.clone(),
            connections: self.tally.connections.load(Ordering::Relaxed),
            accepted: self.tally.accepted.load(Ordering::Relaxed),
            refused: self.tally.refused.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Display for TurnedAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TurnedAway::Untrusted => f.write_str("proxy.trusted does not have its address"),
            TurnedAway::Full => f.write_str("its limit on connections is reached"),
            TurnedAway::Excess(excess) => write!(f, "{} is reached", excess.key()),
        }
    }
}

impl ConnectionListener for Gate {
    fn is_closed(&self) -> bool {
        self.tally.is_closed.load(Ordering::SeqCst)
    }

    fn name(&self) -> &Arc<str> {
        &self.tally.name
    }

    fn overrides(&self) -> ListenerOverrides {
        self.offer.clone()
    }

    fn mount_point(&self) -> Option<&MountPoint> {
        self.mount_point.as_ref()
    }

    fn needs_peers(&self) -> bool {
        self.own_arrivals.counts_addresses() || self.arrivals.counts_addresses()
    }

    fn connection_opened(&self, peer: Option<Peer>) {
        if let Some(ip) = peer.and_then(|peer| self.counted(peer)) {
            self.own_arrivals.entered(ip);
            self.arrivals.entered(ip);
        }
        self.tally.connections.fetch_add(1, Ordering::Relaxed);
    }

    fn connection_closed(&self, peer: Option<Peer>) {
        if let Some(ip) = peer.and_then(|peer| self.counted(peer)) {
            self.own_arrivals.left(ip);
            self.arrivals.left(ip);
        }
        self.tally.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
