//! The origin of a connection: what is known of a client before it sends anything.

use core::net::{IpAddr, SocketAddr};
use core::num::{NonZeroU16, NonZeroU32};
use std::fmt;
use std::sync::Arc;

use tautwire_access::Identity;
use tautwire_protocol::{ProtocolVersion, QoS};

use crate::connection::mount::MountPoint;

/// The listener of a connection. It is notified of each connection that opens or closes, on any thread.
pub trait ConnectionListener: fmt::Debug + Send + Sync {
    /// The name in the configuration.
    fn name(&self) -> &Arc<str>;
    /// The settings that it overrides.
    fn overrides(&self) -> ListenerOverrides {
        ListenerOverrides::default()
    }
    /// The identity of its only client, a part of this process. The clients of other listeners authenticate.
    fn identity(&self) -> Option<&Arc<Identity>> {
        None
    }
    /// The prefix of its clients' topics.
    fn mount_point(&self) -> Option<&MountPoint> {
        None
    }
    /// Whether it needs the peer of a connection that closes. Otherwise the peer is not stored here once the connection has a session.
    fn needs_peers(&self) -> bool;
    /// Whether it has been removed, with all of its connections.
    fn is_closed(&self) -> bool {
        false
    }
    /// Counts a connection; `peer` is `None` if it is not stored.
    fn connection_opened(&self, peer: Option<Peer>);
    /// Counts the end of a connection, with the same `peer` as when it was opened.
    fn connection_closed(&self, peer: Option<Peer>);
}

/// A set of accepted protocol versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolVersions(u8);

impl ProtocolVersions {
    /// 3.1, 3.1.1 and 5.0.
    pub const ALL: ProtocolVersions = ProtocolVersions(0b111);

    /// Whether clients of this version are accepted.
    pub fn contains(self, version: ProtocolVersion) -> bool {
        self.0 & ProtocolVersions::bit(version) != 0
    }

    fn bit(version: ProtocolVersion) -> u8 {
        match version {
            ProtocolVersion::V3_1 => 0b001,
            ProtocolVersion::V3_1_1 => 0b010,
            ProtocolVersion::V5 => 0b100,
        }
    }
}

impl FromIterator<ProtocolVersion> for ProtocolVersions {
    fn from_iter<I: IntoIterator<Item = ProtocolVersion>>(versions: I) -> ProtocolVersions {
        ProtocolVersions(versions.into_iter().fold(0, |bits, version| bits | ProtocolVersions::bit(version)))
    }
}

/// The settings that a listener overrides for its clients. The names are those of [`Settings`](crate::Settings).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is documented once, in the registry of configuration keys")]
pub struct ListenerOverrides {
    pub receive_maximum: Option<NonZeroU16>,
    pub maximum_packet_size_bytes: Option<NonZeroU32>,
    pub max_keep_alive_s: Option<u16>,
    pub max_session_expiry_s: Option<u32>,
    pub max_qos: Option<QoS>,
    pub topic_alias_maximum: Option<u16>,
    pub protocol_versions: Option<ProtocolVersions>,
    pub allow_empty_client_id: Option<bool>,
    pub assigned_client_id_prefix: Option<Arc<str>>,
}

/// The origin of a connection. It is created when the connection is accepted, is complete before the first byte of MQTT is read, and moves
/// with the connection from shard to shard.
///
/// There may be hundreds of thousands of idle connections, so a connection with a session only has its own origin if it contains more than
/// the peer: TLS, a proxy, or a listener that needs the peer. The others share one without a peer.
#[derive(Debug)]
pub struct ConnectionOrigin {
    listener: Arc<dyn ConnectionListener>,
    /// `None` if the origin is shared.
    peer: Option<Peer>,
    is_encrypted: bool,
    /// The peer is the client of a proxy, not the other end of the socket.
    is_proxied: bool,
    certificate: Option<Box<Certificate>>,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A program on the network. An IPv4-mapped IPv6 address is stored as IPv4.
    Network {
        /// Its address.
        ip: IpAddr,
        /// Its port.
        port: u16,
    },
    /// A program on this machine, by a Unix socket.
    Local {
        /// Its user, if the system provides it.
        uid: Option<u32>,
    },
}

/// The client's certificate, verified by the listener or by a trusted proxy.
#[derive(Clone, PartialEq, Eq)]
pub enum Certificate {
    /// The certificate in DER, verified by the listener.
    Der(Box<[u8]>),
    /// Its common name (CN), from a proxy that has verified it.
    CommonName(Box<str>),
}

impl ConnectionOrigin {
    /// Creates the origin of a connection accepted by `listener`, which is notified.
    pub fn new(listener: Arc<dyn ConnectionListener>, peer: Peer) -> ConnectionOrigin {
        listener.connection_opened(Some(peer));
        ConnectionOrigin { listener, peer: Some(peer), is_encrypted: false, is_proxied: false, certificate: None }
    }

    /// The name of the listener.
    pub fn listener(&self) -> &Arc<str> {
        self.listener.name()
    }

    /// The settings that the listener overrides.
    pub fn overrides(&self) -> ListenerOverrides {
        self.listener.overrides()
    }

    /// The prefix of the client's topics.
    pub fn mount_point(&self) -> Option<&MountPoint> {
        self.listener.mount_point()
    }

    /// The identity of a client that is a part of this process.
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.listener.identity()
    }

    /// Whether the listener has been removed.
    pub fn is_closed(&self) -> bool {
        self.listener.is_closed()
    }

    /// The client, not a proxy in between. Always set until CONNECT has been accepted.
    pub fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// Whether the connection is encrypted, up to the broker or a trusted proxy.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The client's certificate.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_deref()
    }

    /// Marks the connection as encrypted, with the client's certificate. If a proxy has reported TLS already, this is the proxy's own TLS,
    /// and its certificate is not the client's.
    pub fn set_encrypted(&mut self, certificate: Option<Certificate>) {
        if !self.is_encrypted {
            self.is_encrypted = true;
            self.certificate = certificate.map(Box::new);
        }
    }

    /// Sets the client for which the peer so far, a proxy, forwards.
    pub fn set_proxied_peer(&mut self, peer: Peer) {
        self.listener.connection_opened(Some(peer));
        self.listener.connection_closed(self.peer);
        self.peer = Some(peer);
        self.is_proxied = true;
    }

    fn has_details(&self) -> bool {
        self.is_encrypted || self.is_proxied || self.certificate.is_some() || self.listener.needs_peers()
    }
}

/// A clone counts as another connection of the listener.
impl Clone for ConnectionOrigin {
    fn clone(&self) -> ConnectionOrigin {
        self.listener.connection_opened(self.peer);
        ConnectionOrigin {
            listener: self.listener.clone(),
            peer: self.peer,
            is_encrypted: self.is_encrypted,
            is_proxied: self.is_proxied,
            certificate: self.certificate.clone(),
        }
    }
}

impl Drop for ConnectionOrigin {
    fn drop(&mut self) {
        // Connections with a shared origin are counted by `PeerInfo`.
        if self.peer.is_some() {
            self.listener.connection_closed(self.peer);
        }
    }
}

/// The origin of an open connection.
#[derive(Debug)]
pub(crate) struct PeerInfo(Arc<ConnectionOrigin>);

impl PeerInfo {
    pub(crate) fn new(origin: Arc<ConnectionOrigin>) -> PeerInfo {
        PeerInfo(origin)
    }

    pub(crate) fn origin(&self) -> &Arc<ConnectionOrigin> {
        &self.0
    }

    /// Updates an origin that is not shared.
    pub(crate) fn update(&mut self, update: impl FnOnce(&mut ConnectionOrigin)) {
        if self.0.peer.is_some() {
            update(Arc::make_mut(&mut self.0));
        }
    }

    /// Replaces the origin by a shared one of `shared`, if nothing but the peer would be lost. Adds one if there is none.
    pub(crate) fn share(&mut self, shared: &mut Vec<Arc<ConnectionOrigin>>) {
        let ConnectionOrigin { listener, peer, .. } = &*self.0;
        if peer.is_none() || self.0.has_details() {
            return;
        }
        let known = shared.iter().find(|other| Arc::ptr_eq(&other.listener, listener));
        let common = known.cloned().unwrap_or_else(|| {
            // Listeners come and go with the configuration; origins without connections are removed.
            shared.retain(|other| Arc::strong_count(other) > 1);
            let listener = listener.clone();
            shared.push(Arc::new(ConnectionOrigin {
                listener,
                peer: None,
                is_encrypted: false,
                is_proxied: false,
                certificate: None,
            }));
            shared[shared.len() - 1].clone()
        });
        listener.connection_opened(None);
        self.0 = common;
    }
}

impl Drop for PeerInfo {
    fn drop(&mut self) {
        if self.0.peer.is_none() {
            self.0.listener.connection_closed(None);
        }
    }
}

impl Peer {
    /// Its IP address, if it has one.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Peer::Network { ip, .. } => Some(ip),
            Peer::Local { .. } => None,
        }
    }
}

/// A peer in 20 bytes, for very many connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PackedPeer {
    /// An IPv6 address, or an IPv4 address in one; or the user of a Unix socket in its first four bytes.
    address: [u8; 16],
    port: u16,
    kind: PackedKind,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum PackedKind {
    #[default]
    Unknown,
    Network,
    Local,
    LocalUser,
}

impl From<Option<Peer>> for PackedPeer {
    fn from(peer: Option<Peer>) -> PackedPeer {
        let (address, port, kind) = match peer {
            None => return PackedPeer::default(),
            Some(Peer::Network { ip: IpAddr::V4(ip), port }) => {
                (ip.to_ipv6_mapped().octets(), port, PackedKind::Network)
            }
            Some(Peer::Network { ip: IpAddr::V6(ip), port }) => (ip.octets(), port, PackedKind::Network),
            Some(Peer::Local { uid: None }) => ([0; 16], 0, PackedKind::Local),
            Some(Peer::Local { uid: Some(uid) }) => (u128::from(uid).to_le_bytes(), 0, PackedKind::LocalUser),
        };
        PackedPeer { address, port, kind }
    }
}

impl PackedPeer {
    pub(crate) fn peer(self) -> Option<Peer> {
        let PackedPeer { address, port, kind } = self;
        match kind {
            PackedKind::Unknown => None,
            PackedKind::Network => Some(Peer::Network { ip: IpAddr::from(address).to_canonical(), port }),
            PackedKind::Local => Some(Peer::Local { uid: None }),
            PackedKind::LocalUser => Some(Peer::Local { uid: u32::try_from(u128::from_le_bytes(address)).ok() }),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Peer {
        Peer::Network { ip: address.ip().to_canonical(), port: address.port() }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Network { ip, port } => SocketAddr::from((*ip, *port)).fmt(f),
            Peer::Local { uid: Some(uid) } => write!(f, "user {uid} of this machine"),
            Peer::Local { uid: None } => f.write_str("this machine"),
        }
    }
}

/// Shows no names, which do not belong in logs.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Certificate::Der(der) => write!(f, "Der({} bytes)", der.len()),
            Certificate::CommonName(name) => write!(f, "CommonName({} bytes)", name.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct CountingListener {
        name: Arc<str>,
        needs_peers: bool,
        open: Mutex<Vec<Option<Peer>>>,
    }

    impl CountingListener {
        fn open(&self) -> Vec<Option<Peer>> {
            self.open.lock().expect("no thread has panicked").clone()
        }
    }

    impl ConnectionListener for CountingListener {
        fn name(&self) -> &Arc<str> {
            &self.name
        }

        fn needs_peers(&self) -> bool {
            self.needs_peers
        }

        fn connection_opened(&self, peer: Option<Peer>) {
            self.open.lock().expect("no thread has panicked").push(peer);
        }

        fn connection_closed(&self, peer: Option<Peer>) {
            let mut open = self.open.lock().expect("no thread has panicked");
            let at = open.iter().position(|other| *other == peer).expect("it was opened");
            open.swap_remove(at);
        }
    }

    fn peer(port: u16) -> Peer {
        Peer::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    #[test]
    fn each_entered_client_is_removed_once_with_its_identity() {
        let listener = Arc::new(CountingListener::default());
        let mut origin = Arc::new(ConnectionOrigin::new(listener.clone(), peer(1)));
        let clone = origin.clone();
        assert_eq!(listener.open(), [Some(peer(1))]);
        Arc::make_mut(&mut origin).set_proxied_peer(peer(2));
        Arc::make_mut(&mut origin).set_encrypted(None);
        assert_eq!((clone.peer(), clone.is_encrypted()), (Some(peer(1)), false));
        drop(clone);
        assert_eq!(listener.open(), [Some(peer(2))]);
        drop(origin);
        assert_eq!(listener.open(), []);
    }

    #[test]
    fn unneeded_peers_are_shared_and_each_connection_counts() {
        let listener = Arc::new(CountingListener::default());
        let mut shared = Vec::new();
        let mut peers: Vec<PeerInfo> =
            (1..=3).map(|port| PeerInfo::new(Arc::new(ConnectionOrigin::new(listener.clone(), peer(port))))).collect();
        peers[2].update(|origin| origin.set_encrypted(None));
        for peer_info in &mut peers {
            peer_info.share(&mut shared);
            peer_info.share(&mut shared);
        }
        assert_eq!(shared.len(), 1);
        assert!(Arc::ptr_eq(peers[0].origin(), peers[1].origin()));
        assert_eq!(peers[2].origin().peer(), Some(peer(3)), "it is encrypted");
        assert_eq!(listener.open().len(), 3);
        peers.remove(0);
        assert_eq!(listener.open().len(), 2);
        peers.clear();
        assert_eq!(listener.open(), []);
    }

    #[test]
    fn a_packed_peer_round_trips() {
        assert_eq!(size_of::<PackedPeer>(), 20);
        for text in ["127.0.0.1:1883", "[2001:db8::1]:65535", "[::1]:1"] {
            let peer = Some(Peer::from(text.parse::<SocketAddr>().expect("an address")));
            assert_eq!(PackedPeer::from(peer).peer(), peer);
        }
        for peer in [None, Some(Peer::Local { uid: None }), Some(Peer::Local { uid: Some(u32::MAX) })] {
            assert_eq!(PackedPeer::from(peer).peer(), peer);
        }
    }

    #[test]
    fn a_table_that_needs_peers_is_notified_until_the_end() {
        let listener = Arc::new(CountingListener { needs_peers: true, ..CountingListener::default() });
        let mut peer_info = PeerInfo::new(Arc::new(ConnectionOrigin::new(listener.clone(), peer(1))));
        peer_info.share(&mut Vec::new());
        assert_eq!(listener.open(), [Some(peer(1))]);
        drop(peer_info);
        assert_eq!(listener.open(), []);
    }

    #[test]
    fn an_ipv4_address_is_the_same_in_every_form() {
        let mapped = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 7).to_ipv6_mapped(), 1));
        assert_eq!(Peer::from(mapped).to_string(), "10.0.0.7:1");
    }
}
