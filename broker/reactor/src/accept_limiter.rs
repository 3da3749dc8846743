//! What is counted of a listener, and whether one more may come in by it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tautwire_engine::{ConnectionListener, Counters, ListenerOverrides, MountPoint, Peer};
use tautwire_proxy::{Network, ProxyHeader};

use crate::accept_rate::{AcceptLimitExceeded, AcceptRate};
use crate::listener::{ListenerConfig, ProxyRequirements};

/// What a listener has let in. Its connections refer to it, whatever thread they are on.
#[derive(Debug)]
pub(crate) struct AcceptLimiter {
    counters_of_listener: Arc<ListenerCounters>,
    mount_point: Option<MountPoint>,
    offer: ListenerOverrides,
    connections_max: u64,
    /// Proxies that say for whom they speak.
    proxies: Option<Arc<[Network]>>,
    proxy_requirements: ProxyRequirements,
    /// What it knows of those who come by it, and what all listeners know together.
    listener_rate: AcceptRate,
    accept_rate: Arc<AcceptRate>,
}

/// What is counted of a listener, by whatever rules its connections have come.
#[derive(Debug)]
struct ListenerCounters {
    name: Arc<str>,
    connections: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    /// It has been taken away.
    is_closed: AtomicBool,
}

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcceptRejection {
    /// It is no proxy that is trusted.
    Untrusted,
    /// As many connections of the listener are open as may be.
    Full,
    AcceptLimitExceeded(AcceptLimitExceeded),
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

impl AcceptLimiter {
    /// A gate of a listener, beside others of which `accept_rate` knows, too.
    pub(crate) fn new(listen: &ListenerConfig, accept_rate: Arc<AcceptRate>) -> AcceptLimiter {
        let counters_of_listener = ListenerCounters {
            name: listen.name.clone(),
            connections: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        };
        AcceptLimiter::with_counters(
            Arc::new(counters_of_listener),
            listen,
            AcceptRate::new(listen.accept_rate),
            accept_rate,
        )
    }

    /// A gate of the same listener by other rules.
    pub(crate) fn with_config(&self, listen: &ListenerConfig, accept_rate: Arc<AcceptRate>) -> AcceptLimiter {
        AcceptLimiter::with_counters(
            self.counters_of_listener.clone(),
            listen,
            self.listener_rate.next(listen.accept_rate),
            accept_rate,
        )
    }

    fn with_counters(
        counters_of_listener: Arc<ListenerCounters>,
        listen: &ListenerConfig,
        listener_rate: AcceptRate,
        accept_rate: Arc<AcceptRate>,
    ) -> AcceptLimiter {
        AcceptLimiter {
            counters_of_listener,
            mount_point: listen.mount_point.clone(),
            offer: listen.offer.clone(),
            connections_max: listen.connections_max.map_or(u64::MAX, |max| max as u64),
            proxies: listen.proxies.clone(),
            proxy_requirements: listen.proxy_requirements,
            listener_rate,
            accept_rate,
        }
    }

    /// The listener is taken away. Who has come by it is to be sent away next.
    pub(crate) fn close(&self) {
        self.counters_of_listener.is_closed.store(true, Ordering::SeqCst);
    }

    /// Whether connections begin with the header of a proxy.
    pub(crate) fn expects_proxy_header(&self) -> bool {
        self.proxies.is_some()
    }

    /// Somebody has come. One thread asks, and lets in.
    ///
    /// # Errors
    /// They are not let in.
    pub(crate) fn accept(&self, peer: Peer, counters: &Counters, now_ms: u64) -> Result<(), AcceptRejection> {
        let admitted = self.admit(peer, counters, now_ms);
        match admitted {
            Ok(()) => {
                self.counters_of_listener.accepted.fetch_add(1, Ordering::Relaxed);
                counters.connections_accepted.add(1);
            }
            Err(refusal) => self.log_rejection(peer, refusal, counters),
        }
        admitted
    }

    /// Why the header of a proxy is refused, if it is.
    pub(crate) fn refuse_header(&self, header: &ProxyHeader) -> Option<&'static str> {
        self.proxy_requirements.refuse(header)
    }

    /// A proxy has said for whom it speaks.
    ///
    /// # Errors
    /// They are not let in.
    pub(crate) fn accept_proxied(&self, peer: Peer, counters: &Counters, now_ms: u64) -> Result<(), AcceptRejection> {
        let admitted = self.admit_address(peer, counters, now_ms);
        if let Err(refusal) = admitted {
            self.log_rejection(peer, refusal, counters);
        }
        admitted
    }

    fn admit(&self, peer: Peer, counters: &Counters, now_ms: u64) -> Result<(), AcceptRejection> {
        if self.expects_proxy_header() && !self.is_proxy(peer) {
            return Err(AcceptRejection::Untrusted);
        }
        if self.counters_of_listener.connections.load(Ordering::Relaxed) >= self.connections_max {
            return Err(AcceptRejection::Full);
        }
        // First what it has to itself, so that one who comes too fast takes nothing of what all have.
        self.admit_address(peer, counters, now_ms)?;
        self.listener_rate
            .check_rate(now_ms)
            .and_then(|()| self.accept_rate.check_rate(now_ms))
            .map_err(AcceptRejection::AcceptLimitExceeded)
    }

    fn admit_address(&self, peer: Peer, counters: &Counters, now_ms: u64) -> Result<(), AcceptRejection> {
        let Some(ip) = self.counted_address(peer) else { return Ok(()) };
        for accept_rate in [&self.listener_rate, &self.accept_rate] {
            let has_evicted = accept_rate.check_address(ip, now_ms).map_err(AcceptRejection::AcceptLimitExceeded)?;
            counters.connect_rates_forgotten.add(u64::from(has_evicted));
        }
        Ok(())
    }

    fn log_rejection(&self, peer: Peer, refusal: AcceptRejection, counters: &Counters) {
        self.counters_of_listener.refused.fetch_add(1, Ordering::Relaxed);
        match refusal {
            AcceptRejection::Untrusted => counters.proxy_peers_refused.add(1),
            AcceptRejection::Full => counters.connections_refused.add(1),
            AcceptRejection::AcceptLimitExceeded(AcceptLimitExceeded::ConnectionsPerAddress) => {
                counters.connections_refused_for_address.add(1)
            }
            AcceptRejection::AcceptLimitExceeded(AcceptLimitExceeded::Rate | AcceptLimitExceeded::RatePerAddress) => {
                counters.connections_refused_for_rate.add(1)
            }
        }
        log::warn!(listener = &*self.counters_of_listener.name, address = &*peer.to_string(); "refused connection: {refusal}");
    }

    fn is_proxy(&self, peer: Peer) -> bool {
        let Peer::Network { ip, .. } = peer else { return false };
        self.proxies.as_ref().is_some_and(|proxies| proxies.iter().any(|network| network.contains(ip)))
    }

    /// The address that a connection counts for. Those of proxies are many clients'.
    fn counted_address(&self, peer: Peer) -> Option<IpAddr> {
        match peer {
            Peer::Network { ip, .. } if !self.is_proxy(peer) => Some(ip),
            _ => None,
        }
    }

    pub(crate) fn state(&self) -> ListenerState {
        ListenerState {
            name: self.counters_of_listener.name.clone(),
            connections: self.counters_of_listener.connections.load(Ordering::Relaxed),
            accepted: self.counters_of_listener.accepted.load(Ordering::Relaxed),
            refused: self.counters_of_listener.refused.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Display for AcceptRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcceptRejection::Untrusted => f.write_str("proxy.trusted does not have its address"),
            AcceptRejection::Full => f.write_str("its limit on connections is reached"),
            AcceptRejection::AcceptLimitExceeded(excess) => write!(f, "{} is reached", excess.key()),
        }
    }
}

impl ConnectionListener for AcceptLimiter {
    fn is_closed(&self) -> bool {
        self.counters_of_listener.is_closed.load(Ordering::SeqCst)
    }

    fn name(&self) -> &Arc<str> {
        &self.counters_of_listener.name
    }

    fn overrides(&self) -> ListenerOverrides {
        self.offer.clone()
    }

    fn mount_point(&self) -> Option<&MountPoint> {
        self.mount_point.as_ref()
    }

    fn needs_peers(&self) -> bool {
        self.listener_rate.tracks_addresses() || self.accept_rate.tracks_addresses()
    }

    fn connection_opened(&self, peer: Option<Peer>) {
        if let Some(ip) = peer.and_then(|peer| self.counted_address(peer)) {
            self.listener_rate.add_connection(ip);
            self.accept_rate.add_connection(ip);
        }
        self.counters_of_listener.connections.fetch_add(1, Ordering::Relaxed);
    }

    fn connection_closed(&self, peer: Option<Peer>) {
        if let Some(ip) = peer.and_then(|peer| self.counted_address(peer)) {
            self.listener_rate.remove_connection(ip);
            self.accept_rate.remove_connection(ip);
        }
        self.counters_of_listener.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
