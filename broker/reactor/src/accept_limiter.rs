//! The counters of a listener, and the decision whether it accepts one more connection.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tautwire_engine::{ConnectionListener, Counters, ListenerOverrides, MountPoint, Peer};
use tautwire_proxy::{Network, ProxyHeader};

use crate::accept_rate::{AcceptLimitExceeded, AcceptRate};
use crate::listener_config::{ListenerConfig, ProxyRequirements};

/// The limits and counters of a listener. Its connections refer to it, on any thread.
#[derive(Debug)]
pub(crate) struct AcceptLimiter {
    listener_counters: Arc<ListenerCounters>,
    mount_point: Option<MountPoint>,
    offer: ListenerOverrides,
    connections_max: u64,
    /// Trusted proxies, which send a PROXY header.
    proxies: Option<Arc<[Network]>>,
    proxy_requirements: ProxyRequirements,
    /// The accept rate of this listener, and the one that all listeners share.
    listener_rate: AcceptRate,
    accept_rate: Arc<AcceptRate>,
}

/// The counters of a listener, which survive changes of its configuration.
#[derive(Debug)]
struct ListenerCounters {
    name: Arc<str>,
    connections: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    /// The listener was removed.
    is_closed: AtomicBool,
}

/// Why a connection is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcceptRejection {
    /// The peer is not a trusted proxy.
    Untrusted,
    /// The listener's connection limit is reached.
    Full,
    AcceptLimitExceeded(AcceptLimitExceeded),
}

/// The state of a listener.
#[derive(Debug, Clone)]
pub struct ListenerState {
    /// The name of the listener.
    pub name: Arc<str>,
    /// Open connections.
    pub connections: u64,
    /// Connections accepted so far.
    pub accepted: u64,
    /// Connections closed on arrival.
    pub refused: u64,
}

impl AcceptLimiter {
    /// Creates the limiter of a new listener. All listeners share `accept_rate`.
    pub(crate) fn new(listen: &ListenerConfig, accept_rate: Arc<AcceptRate>) -> AcceptLimiter {
        let listener_counters = ListenerCounters {
            name: listen.name.clone(),
            connections: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        };
        AcceptLimiter::with_counters(
            Arc::new(listener_counters),
            listen,
            AcceptRate::new(listen.accept_rate),
            accept_rate,
        )
    }

    /// Creates a limiter with a new configuration and the counters of this one.
    pub(crate) fn with_config(&self, listen: &ListenerConfig, accept_rate: Arc<AcceptRate>) -> AcceptLimiter {
        AcceptLimiter::with_counters(
            self.listener_counters.clone(),
            listen,
            self.listener_rate.next(listen.accept_rate),
            accept_rate,
        )
    }

    fn with_counters(
        listener_counters: Arc<ListenerCounters>,
        listen: &ListenerConfig,
        listener_rate: AcceptRate,
        accept_rate: Arc<AcceptRate>,
    ) -> AcceptLimiter {
        AcceptLimiter {
            listener_counters,
            mount_point: listen.mount_point.clone(),
            offer: listen.offer.clone(),
            connections_max: listen.connections_max.map_or(u64::MAX, |max| max as u64),
            proxies: listen.proxies.clone(),
            proxy_requirements: listen.proxy_requirements,
            listener_rate,
            accept_rate,
        }
    }

    /// Marks the listener as removed. Its connections are closed next.
    pub(crate) fn close(&self) {
        self.listener_counters.is_closed.store(true, Ordering::SeqCst);
    }

    /// Whether connections begin with a PROXY header.
    pub(crate) fn expects_proxy_header(&self) -> bool {
        self.proxies.is_some()
    }

    /// Accepts or rejects a new connection. Called by one thread, which accepts.
    ///
    /// # Errors
    /// The connection is rejected.
    pub(crate) fn accept(&self, peer: Peer, counters: &Counters, now_ms: u64) -> Result<(), AcceptRejection> {
        let admitted = self.admit(peer, counters, now_ms);
        match admitted {
            Ok(()) => {
                self.listener_counters.accepted.fetch_add(1, Ordering::Relaxed);
                counters.connections_accepted.add(1);
            }
            Err(refusal) => self.log_rejection(peer, refusal, counters),
        }
        admitted
    }

    /// Returns why a PROXY header is rejected, or `None` if it is accepted.
    pub(crate) fn refuse_header(&self, header: &ProxyHeader) -> Option<&'static str> {
        self.proxy_requirements.refuse(header)
    }

    /// Accepts or rejects the client that a proxy has named.
    ///
    /// # Errors
    /// The client is rejected.
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
        if self.listener_counters.connections.load(Ordering::Relaxed) >= self.connections_max {
            return Err(AcceptRejection::Full);
        }
        // Check the listener's own limits first, so that an address that exceeds them takes nothing from the shared ones.
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
            counters.connect_rate_entries_evicted.add(u64::from(has_evicted));
        }
        Ok(())
    }

    fn log_rejection(&self, peer: Peer, refusal: AcceptRejection, counters: &Counters) {
        self.listener_counters.refused.fetch_add(1, Ordering::Relaxed);
        match refusal {
            AcceptRejection::Untrusted => counters.proxy_untrusted_connections_refused.add(1),
            AcceptRejection::Full => counters.connections_refused.add(1),
            AcceptRejection::AcceptLimitExceeded(AcceptLimitExceeded::ConnectionsPerAddress) => {
                counters.connections_refused_for_address.add(1)
            }
            AcceptRejection::AcceptLimitExceeded(AcceptLimitExceeded::Rate | AcceptLimitExceeded::RatePerAddress) => {
                counters.connections_refused_for_rate.add(1)
            }
        }
        log::warn!(listener = &*self.listener_counters.name, address = &*peer.to_string(); "refused connection: {refusal}");
    }

    fn is_proxy(&self, peer: Peer) -> bool {
        let Peer::Network { ip, .. } = peer else { return false };
        self.proxies.as_ref().is_some_and(|proxies| proxies.iter().any(|network| network.contains(ip)))
    }

    /// Returns the address for which a connection counts. Addresses of proxies do not count, because they stand for many clients.
    fn counted_address(&self, peer: Peer) -> Option<IpAddr> {
        match peer {
            Peer::Network { ip, .. } if !self.is_proxy(peer) => Some(ip),
            _ => None,
        }
    }

    pub(crate) fn state(&self) -> ListenerState {
        ListenerState {
            name: self.listener_counters.name.clone(),
            connections: self.listener_counters.connections.load(Ordering::Relaxed),
            accepted: self.listener_counters.accepted.load(Ordering::Relaxed),
            refused: self.listener_counters.refused.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Display for AcceptRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcceptRejection::Untrusted => f.write_str("its address is not in proxy.trusted_networks"),
            AcceptRejection::Full => f.write_str("the connection limit of the listener is reached"),
            AcceptRejection::AcceptLimitExceeded(excess) => write!(f, "{} is reached", excess.key()),
        }
    }
}

impl ConnectionListener for AcceptLimiter {
    fn is_closed(&self) -> bool {
        self.listener_counters.is_closed.load(Ordering::SeqCst)
    }

    fn name(&self) -> &Arc<str> {
        &self.listener_counters.name
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
        self.listener_counters.connections.fetch_add(1, Ordering::Relaxed);
    }

    fn connection_closed(&self, peer: Option<Peer>) {
        if let Some(ip) = peer.and_then(|peer| self.counted_address(peer)) {
            self.listener_rate.remove_connection(ip);
            self.accept_rate.remove_connection(ip);
        }
        self.listener_counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
