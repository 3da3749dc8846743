//! The connection of a bridge to its own broker: one end of a pair of sockets.

use std::io;
use std::num::NonZeroU16;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tautwire_access::Identity;
use tautwire_engine::{ConnectionListener, ListenerOverrides, MountPoint, Peer, ProtocolVersions};
use tautwire_protocol::QoS;
use tautwire_reactor::Control;

use super::plan::BridgePlan;

/// The name of the authentication backend of bridges.
pub(crate) const BACKEND: &str = "bridge";

/// The listener of one bridge: it has no address, and accepts the bridge only.
#[derive(Debug)]
pub(super) struct LocalListener {
    name: Arc<str>,
    identity: Arc<Identity>,
    mount_point: Option<MountPoint>,
    is_closed: AtomicBool,
}

impl LocalListener {
    pub(super) fn new(plan: &BridgePlan) -> LocalListener {
        let name: Arc<str> = plan.link.local_client_id.as_str().into();
        let identity = Identity {
            user: plan.user.clone(),
            client_id: Some(name.clone()),
            roles: plan.roles.clone().into(),
            by: BACKEND,
            ..Identity::anonymous(name.clone())
        };
        LocalListener {
            name,
            identity: Arc::new(identity),
            mount_point: plan.mount_point.clone(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Connects to this broker, and returns the bridge's end.
    ///
    /// # Errors
    /// The broker is stopping or overloaded, or system errors.
    pub(super) fn connect(self: &Arc<Self>, plan: &BridgePlan, control: &Control) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        control.connect(self.clone(), theirs, plan.ack_level)?;
        Ok(ours)
    }

    /// The bridge has ended: the broker closes the connection.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }
}

impl ConnectionListener for LocalListener {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn overrides(&self) -> ListenerOverrides {
        // The session must last as long as the bridge, and the other broker decides what is sent at once: one that speaks 3.1.1 does not
        // know any limits of this broker.
        ListenerOverrides {
            receive_maximum: Some(NonZeroU16::MAX),
            max_qos: Some(QoS::ExactlyOnce),
            max_session_expiry_s: Some(u32::MAX),
            max_keep_alive_s: Some(0),
            protocol_versions: Some(ProtocolVersions::ALL),
            ..ListenerOverrides::default()
        }
    }

    fn mount_point(&self) -> Option<&MountPoint> {
        self.mount_point.as_ref()
    }

    fn identity(&self) -> Option<&Arc<Identity>> {
        Some(&self.identity)
    }

    fn needs_peers(&self) -> bool {
        false
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    fn connection_opened(&self, _: Option<Peer>) {}

    fn connection_closed(&self, _: Option<Peer>) {}
}
