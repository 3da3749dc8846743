//! What a bridge is to do, from the configuration.

use std::sync::Arc;
use std::time::Duration;

use tautwire_bridge::LinkSettings;
use tautwire_client::{Options, Server, Tls};
use tautwire_engine::MountPoint;
use tautwire_session::AckLevel;

use super::schedule::Schedule;

/// A bridge, checked and with all files read.
#[derive(Debug)]
pub(crate) struct BridgePlan {
    pub(crate) name: Arc<str>,
    /// The addresses of the other broker.
    pub(crate) servers: Vec<RemoteServer>,
    /// The longest time to connect to an address.
    pub(crate) connect_timeout: Duration,
    pub(crate) order: AddressOrder,
    pub(crate) start: StartMode,
    /// The pause after the first failure; it doubles with each further one.
    pub(crate) retry_min: Duration,
    pub(crate) retry_max: Duration,
    /// Without the names of this broker, which are known once it runs.
    pub(crate) link: Arc<LinkSettings>,
    /// The user whose rights inbound messages have, and outbound subscriptions.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) roles: Vec<Box<str>>,
    pub(crate) mount_point: Option<MountPoint>,
    pub(crate) ack_level: AckLevel,
    /// The text of everything above, with digests of the files: a bridge whose text has not changed is not restarted by a reload.
    pub(crate) fingerprint: String,
}

/// Plans of the same bridge with the same content are equal.
impl PartialEq for BridgePlan {
    fn eq(&self, other: &BridgePlan) -> bool {
        self.name == other.name && self.fingerprint == other.fingerprint
    }
}

/// One address of the other broker.
#[derive(Debug)]
pub(crate) struct RemoteServer {
    /// The address as in the configuration, without a password.
    pub(crate) address: String,
    pub(crate) server: Server,
    pub(crate) tls: Tls,
}

impl RemoteServer {
    /// The options of a connection.
    pub(crate) fn options(&self) -> Options {
        let options = Options::at(self.server.clone());
        if self.server.scheme.is_tls() { options.tls(self.tls.clone()) } else { options }
    }
}

/// Which address is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AddressOrder {
    /// The first one that can be reached.
    #[default]
    Failover,
    /// Each connection goes to the next one.
    RoundRobin,
}

/// When a bridge is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StartMode {
    /// Always.
    Automatic,
    /// When messages wait for the other broker; the bridge is disconnected after this time without messages.
    Lazy(Duration),
    /// At these times of the day.
    Scheduled(Schedule),
}

impl BridgePlan {
    /// The name of the session of the bridge.
    pub(crate) fn session_name(&self) -> String {
        let mount_point = self.mount_point.as_ref().map(MountPoint::as_str);
        tautwire_session::session_name(mount_point, &self.link.local_client_id).into_owned()
    }
}
