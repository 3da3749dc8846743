//! Where a connection comes from: what the surroundings of a shard know of a client before it has said anything.

use core::net::{IpAddr, SocketAddr};
use core::num::{NonZeroU16, NonZeroU32};
use std::fmt;
use std::sync::Arc;

use tautwire_protocol::{ProtocolVersion, QoS};

use crate::connection::mount::MountPoint;

/// What a connection has come in by. It is told of each that comes and goes, from whatever thread.
pub trait ConnectionListener: fmt::Debug + Send + Sync {
    /// What operators call it.
    fn name(&self) -> &Arc<str>;
    /// What it offers otherwise than all do.
    fn overrides(&self) -> ListenerOverrides {
        ListenerOverrides::default()
    }
    /// What stands in front of its clients' topics.
    fn mount_point(&self) -> Option<&MountPoint> {
        None
    }
    /// Whether it must be told who leaves. Otherwise the peer of a connection is forgotten once the connection serves a session.
    fn needs_peers(&self) -> bool;
    /// Whether it has been taken away, with all who have come by it.
    fn is_closed(&self) -> bool {
        false
    }
    /// Somebody has come; `None` where it has been forgotten who it is.
    fn connection_opened(&self, peer: Option<Peer>);
    /// Somebody is gone, who was told of likewise.
    fn connection_closed(&self, peer: Option<Peer>);
}

/// The protocol versions that are accepted.
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

/// What clients of a listener are offered in place of what all are offered. The names are those of [`Settings`](crate::Settings).
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

/// Where a connection comes from. It is made when the connection is accepted, is complete before the first byte of MQTT is taken in, and goes with
/// the connection from shard to shard.
///
/// There may be hundreds of thousands of connections that do nothing, so one that serves a session has an origin of its own only where that says
/// what many need: by TLS, by a proxy, or where the entry needs it. The others share one without a peer.
#[derive(Debug)]
pub struct ConnectionOrigin {
    listener: Arc<dyn ConnectionListener>,
    /// `None` where it is shared.
    peer: Option<Peer>,
    is_encrypted: bool,
    /// The peer is not who the socket is connected with.
    is_proxied: bool,
    certificate: Option<Box<Certificate>>,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A program on the network. An IPv4 address is one, also where it came by IPv6.
    Network {
        /// Its address.
        ip: IpAddr,
        /// Its port.
        port: u16,
    },
    /// A program on this machine, by a Unix socket.
    Local {
        /// Its user, where the system says that.
        uid: Option<u32>,
    },
}

/// The certificate that a client has shown. Somebody who is trusted has looked at it.
#[derive(Clone, PartialEq, Eq)]
pub enum Certificate {
    /// The certificate in DER, verified by the listener.
    Der(Box<[u8]>),
    /// The name in it (CN), as a proxy gives it that has verified it.
    CommonName(Box<str>),
}

impl ConnectionOrigin {
    /// Somebody who has come by `entry`, which is told.
    pub fn new(listener: Arc<dyn ConnectionListener>, peer: Peer) -> ConnectionOrigin {
        listener.connection_opened(Some(peer));
        ConnectionOrigin { listener, peer: Some(peer), is_encrypted: false, is_proxied: false, certificate: None }
    }

    /// What the listener is called.
    pub fn listener(&self) -> &Arc<str> {
        self.listener.name()
    }

    /// What its listener offers otherwise than all do.
    pub fn overrides(&self) -> ListenerOverrides {
        self.listener.overrides()
    }

    /// What stands in front of the client's topics.
    pub fn mount_point(&self) -> Option<&MountPoint> {
        self.listener.mount_point()
    }

    /// Whether the listener has been taken away.
    pub fn is_closed(&self) -> bool {
        self.listener.is_closed()
    }

    /// The client, not a proxy that says whom it speaks for. Always there until CONNECT has been accepted.
    pub fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// Whether nobody can listen in between the client and the broker, or a proxy that is trusted.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The certificate that the client has shown.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_deref()
    }

    /// It is encrypted, and the client has shown this certificate. Where a proxy has said so already, this is TLS of the proxy, and its certificate
    /// is not the client's.
    pub fn set_encrypted(&mut self, certificate: Option<Certificate>) {
        if !self.is_encrypted {
            self.is_encrypted = true;
            self.certificate = certificate.map(Box::new);
        }
    }

    /// The peer so far is a proxy, and this is whom it speaks for.
    pub fn set_proxied_peer(&mut self, peer: Peer) {
        self.listener.connection_opened(Some(peer));
        self.listener.connection_closed(self.peer);
        self.peer = Some(peer);
        self.is_proxied = true;
    }

    fn is_needed(&self) -> bool {
        self.is_encrypted || self.is_proxied || self.certificate.is_some() || self.listener.needs_peers()
    }
}

/// One more, which counts as such.
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
        // Each connection with a shared one leaves for itself.
        if self.peer.is_some() {
            self.listener.connection_closed(self.peer);
        }
    }
}

/// The origin of a connection that is there.
#[derive(Debug)]
pub(crate) struct PeerInfo(Arc<ConnectionOrigin>);

impl PeerInfo {
    pub(crate) fn new(origin: Arc<ConnectionOrigin>) -> PeerInfo {
        PeerInfo(origin)
    }

    pub(crate) fn origin(&self) -> &Arc<ConnectionOrigin> {
        &self.0
    }

    /// More is known.
    pub(crate) fn update(&mut self, update: impl FnOnce(&mut ConnectionOrigin)) {
        if self.0.peer.is_some() {
            update(Arc::make_mut(&mut self.0));
        }
    }

    /// Goes on with one of `shared`, to which it may be added, where nobody needs to know more.
    pub(crate) fn forget(&mut self, shared: &mut Vec<Arc<ConnectionOrigin>>) {
        let ConnectionOrigin { listener, peer, .. } = &*self.0;
        if peer.is_none() || self.0.is_needed() {
            return;
        }
        let known = shared.iter().find(|other| Arc::ptr_eq(&other.listener, listener));
        let common = known.cloned().unwrap_or_else(|| {
            // Entries come and go with the configuration; those on which nobody is any more are forgotten.
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
    /// Its address, where it has one.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Peer::Network { ip, .. } => Some(ip),
            Peer::Local { .. } => None,
        }
    }
}

/// A peer in 20 bytes, for each of very many connections.
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

/// Names of clients are not for logs.
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
    struct Counting {
        name: Arc<str>,
        needs_peers: bool,
        there: Mutex<Vec<Option<Peer>>>,
    }

    impl Counting {
        fn there(&self) -> Vec<Option<Peer>> {
            self.there.lock().expect("nobody panics").clone()
        }
    }

    impl ConnectionListener for Counting {
        fn name(&self) -> &Arc<str> {
            &self.name
        }

        fn needs_peers(&self) -> bool {
            self.needs_peers
        }

        fn connection_opened(&self, peer: Option<Peer>) {
            self.there.lock().expect("nobody panics").push(peer);
        }

        fn connection_closed(&self, peer: Option<Peer>) {
            let mut there = self.there.lock().expect("nobody panics");
            let at = there.iter().position(|other| *other == peer).expect("it has entered");
            there.swap_remove(at);
        }
    }

    fn peer(port: u16) -> Peer {
        Peer::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    #[test]
    fn whoever_has_entered_leaves_once_and_as_whom_they_are() {
        let listener = Arc::new(Counting::default());
        let mut origin = Arc::new(ConnectionOrigin::new(listener.clone(), peer(1)));
        let other_hand = origin.clone();
        assert_eq!(listener.there(), [Some(peer(1))]);
        Arc::make_mut(&mut origin).set_proxied_peer(peer(2));
        Arc::make_mut(&mut origin).set_encrypted(None);
        assert_eq!((other_hand.peer(), other_hand.is_encrypted()), (Some(peer(1)), false));
        drop(other_hand);
        assert_eq!(listener.there(), [Some(peer(2))]);
        drop(origin);
        assert_eq!(listener.there(), []);
    }

    #[test]
    fn what_nobody_needs_is_shared_and_each_connection_counts_all_the_same() {
        let listener = Arc::new(Counting::default());
        let mut shared = Vec::new();
        let mut present: Vec<PeerInfo> =
            (1..=3).map(|port| PeerInfo::new(Arc::new(ConnectionOrigin::new(listener.clone(), peer(port))))).collect();
        present[2].update(|origin| origin.set_encrypted(None));
        for presence in &mut present {
            presence.forget(&mut shared);
            presence.forget(&mut shared);
        }
        assert_eq!(shared.len(), 1);
        assert!(Arc::ptr_eq(present[0].origin(), present[1].origin()));
        assert_eq!(present[2].origin().peer(), Some(peer(3)), "it is encrypted");
        assert_eq!(listener.there().len(), 3);
        present.remove(0);
        assert_eq!(listener.there().len(), 2);
        present.clear();
        assert_eq!(listener.there(), []);
    }

    #[test]
    fn a_packed_peer_is_the_same_peer() {
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
    fn an_entry_that_needs_peers_is_told_of_them_to_the_end() {
        let listener = Arc::new(Counting { needs_peers: true, ..Counting::default() });
        let mut presence = PeerInfo::new(Arc::new(ConnectionOrigin::new(listener.clone(), peer(1))));
        presence.forget(&mut Vec::new());
        assert_eq!(listener.there(), [Some(peer(1))]);
        drop(presence);
        assert_eq!(listener.there(), []);
    }

    #[test]
    fn an_ipv4_address_is_one_however_it_came() {
        let mapped = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 7).to_ipv6_mapped(), 1));
        assert_eq!(Peer::from(mapped).to_string(), "10.0.0.7:1");
    }
}
