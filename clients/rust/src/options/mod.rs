//! How a client connects and behaves.

mod authenticator;
mod limits;
mod server;
mod will;

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use tautwire_protocol::{MAX_PACKET_SIZE_BYTES, Property, PropertyContext, ProtocolVersion};

use crate::Error;
use crate::properties::PropertyBlock;

pub use authenticator::Authenticator;
pub use limits::Limits;
pub use server::{Scheme, Server};
pub use will::Will;

/// The session is never ended by the server (Session Expiry Interval, section 3.1.2.11.2).
pub const NEVER_EXPIRES: u32 = u32::MAX;

/// How a client connects and behaves. What is not said has a default that suits most programs.
///
/// ```
/// # use tautwire_client::Options;
/// let options = Options::new("mqtt://localhost:1883")?.client_id("thermometer-7").keep_alive_s(30);
/// # Ok::<(), tautwire_client::Error>(())
/// ```
pub struct Options {
    pub(crate) server: Server,
    pub(crate) version: ProtocolVersion,
    pub(crate) client_id: String,
    pub(crate) clean_start: bool,
    pub(crate) session_expiry_s: u32,
    pub(crate) keep_alive_s: u16,
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Vec<u8>>,
    pub(crate) will: Option<Will>,
    pub(crate) receive_maximum: u16,
    pub(crate) maximum_packet_size_bytes: u32,
    pub(crate) topic_alias_maximum: u16,
    pub(crate) topic_aliases: u16,
    /// Properties of CONNECT that have no field of their own.
    pub(crate) connect_properties: PropertyBlock,
    pub(crate) authenticator: Option<Box<dyn Authenticator>>,
    pub(crate) limits: Limits,
    pub(crate) connect_timeout: Duration,
    pub(crate) ping_timeout: Duration,
    pub(crate) disconnect_timeout: Duration,
    pub(crate) reconnect: Option<Reconnect>,
    #[cfg(feature = "tls")]
    pub(crate) tls: crate::Tls,
}

/// How long to wait before another attempt to connect: at first `min`, twice as long after each failure, at most `max`.
/// The time is cut by a random part of up to a half, so that many clients do not come back at the same moment. A connection
/// that lasted 5 s begins anew with `min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// After the first failure. Default: 0.25 s.
    pub min: Duration,
    /// The most. Default: 30 s.
    pub max: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Reconnect { min: Duration::from_millis(250), max: Duration::from_secs(30) }
    }
}

impl Options {
    /// Options for the server of an address: `mqtt://HOST[:PORT]`, with feature `tls` `mqtts://…`, with feature `websocket`
    /// `ws://HOST[:PORT][/PATH]`, with both `wss://…`, and for a Unix socket `unix:/PATH`. Ports default to 1883, 8883, 80 and 443. MQTT 5.0, unless
    /// [`Options::version`] says otherwise.
    ///
    /// # Errors
    /// [`Error::Options`] for anything else.
    pub fn new(address: &str) -> Result<Options, Error> {
        Ok(Options::at(Server::parse(address)?))
    }

    /// Options for the server of an address that has been read.
    pub fn at(server: Server) -> Options {
        Options {
            server,
            version: ProtocolVersion::V5,
            client_id: random_client_id(),
            clean_start: true,
            session_expiry_s: 0,
            keep_alive_s: 60,
            user_name: None,
            password: None,
            will: None,
            receive_maximum: 1000,
            maximum_packet_size_bytes: MAX_PACKET_SIZE_BYTES,
            topic_alias_maximum: 0,
            topic_aliases: 0,
            connect_properties: PropertyBlock::new(PropertyContext::Connect),
            authenticator: None,
            limits: Limits::default(),
            connect_timeout: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(10),
            disconnect_timeout: Duration::from_secs(5),
            reconnect: Some(Reconnect::default()),
            #[cfg(feature = "tls")]
            tls: crate::Tls::default(),
        }
    }

    /// The version to speak. Before 5.0 there are no properties and reason codes; what needs them is refused.
    #[must_use]
    pub fn version(mut self, version: ProtocolVersion) -> Options {
        self.version = version;
        self
    }

    /// The client identifier, which names the session. Default: a random one. Empty lets the server choose.
    #[must_use]
    pub fn client_id(mut self, client_id: impl Into<String>) -> Options {
        self.client_id = client_id.into();
        self
    }

    /// The session goes on where an earlier connection of this client identifier left it, and outlives this one by so many
    /// seconds ([`NEVER_EXPIRES`] for ever). Default: a new session that ends with its connection.
    ///
    /// Before MQTT 5.0 the server decides how long, and 0 says that the session ends with the connection.
    #[must_use]
    pub fn persistent(mut self, session_expiry_s: u32) -> Options {
        self.clean_start = false;
        self.session_expiry_s = session_expiry_s;
        self
    }

    /// Whether a session that the server has is discarded first [MQTT-3.1.2-4]. It counts for the first connection; later
    /// ones go on. Default: true, and false after [`Options::persistent`].
    #[must_use]
    pub fn clean_start(mut self, clean_start: bool) -> Options {
        self.clean_start = clean_start;
        self
    }

    /// The longest silence of the client in seconds (section 3.1.2.10); 0 turns it off. Default: 60.
    ///
    /// After so long without a packet sent or received the client asks for a sign of life.
    #[must_use]
    pub fn keep_alive_s(mut self, keep_alive_s: u16) -> Options {
        self.keep_alive_s = keep_alive_s;
        self
    }

    /// The user name.
    #[must_use]
    pub fn user_name(mut self, user_name: impl Into<String>) -> Options {
        self.user_name = Some(user_name.into());
        self
    }

    /// The password. Before MQTT 5.0 it needs a user name.
    #[must_use]
    pub fn password(mut self, password: impl Into<Vec<u8>>) -> Options {
        self.password = Some(password.into());
        self
    }

    /// The message that the server publishes when this client is gone without a word (section 3.1.2.5).
    #[must_use]
    pub fn will(mut self, will: Will) -> Options {
        self.will = Some(will);
        self
    }

    /// QoS 1 and 2 messages that the server may send before they are acknowledged [MQTT-3.3.4-9]. Default: 1000. It bounds
    /// what streams hold of them, since a message is acknowledged when the application has dealt with it.
    #[must_use]
    pub fn receive_maximum(mut self, maximum: NonZeroU16) -> Options {
        self.receive_maximum = maximum.get();
        self
    }

    /// The largest packet taken from the server, in bytes. Default: what MQTT can express.
    #[must_use]
    pub fn maximum_packet_size(mut self, bytes: NonZeroU32) -> Options {
        self.maximum_packet_size_bytes = bytes.get();
        self
    }

    /// Topic aliases that the server may use [MQTT-3.1.2-26]. Default: 0, none.
    #[must_use]
    pub fn topic_alias_maximum(mut self, maximum: u16) -> Options {
        self.topic_alias_maximum = maximum;
        self
    }

    /// So many of the first topics published to get an alias, as far as the server takes aliases. Saves bytes where topics
    /// are long and few. Default: 0, none.
    #[must_use]
    pub fn topic_aliases(mut self, count: u16) -> Options {
        self.topic_aliases = count;
        self
    }

    /// Adds a property to CONNECT. Those with a method of their own here are taken as if that had been called.
    ///
    /// # Errors
    /// A property that may not stand in CONNECT, or not twice.
    pub fn connect_property(mut self, property: Property<'_>) -> Result<Options, Error> {
        match property {
            Property::SessionExpiryInterval(seconds) => self.session_expiry_s = seconds,
            Property::ReceiveMaximum(maximum) => self.receive_maximum = maximum.get(),
            Property::MaximumPacketSize(bytes) => self.maximum_packet_size_bytes = bytes.get(),
            Property::TopicAliasMaximum(maximum) => self.topic_alias_maximum = maximum,
            other => self.connect_properties.push(other).map_err(|error| Error::Encode { packet: "CONNECT", error })?,
        }
        Ok(self)
    }

    /// Authenticates by an exchange of AUTH packets (section 4.12). MQTT 5.0 alone.
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator + 'static) -> Options {
        self.authenticator = Some(Box::new(authenticator));
        self
    }

    /// What may pile up in the client.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Options {
        self.limits = limits;
        self
    }

    /// Time for the connection, and again for the server's CONNACK. Default: 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Options {
        self.connect_timeout = timeout;
        self
    }

    /// Time for the answer to a PINGREQ, after which the connection counts as lost. Default: 10 s.
    #[must_use]
    pub fn ping_timeout(mut self, timeout: Duration) -> Options {
        self.ping_timeout = timeout;
        self
    }

    /// Time that disconnecting may take to have everything acknowledged first. Default: 5 s.
    #[must_use]
    pub fn disconnect_timeout(mut self, timeout: Duration) -> Options {
        self.disconnect_timeout = timeout;
        self
    }

    /// When to connect again after the connection was lost; `None` for never. Default: [`Reconnect::default`].
    #[must_use]
    pub fn reconnect(mut self, reconnect: Option<Reconnect>) -> Options {
        self.reconnect = reconnect;
        self
    }

    /// Whom to trust and who to be, for `mqtts://` and `wss://`.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: crate::Tls) -> Options {
        self.tls = tls;
        self
    }

    /// Whether the session is meant to outlive the connection.
    pub(crate) fn is_persistent(&self) -> bool {
        if self.version.is_v5() { self.session_expiry_s > 0 } else { !self.clean_start }
    }
}

impl fmt::Debug for Options {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("server", &self.server)
            .field("version", &self.version)
            .field("client_id", &self.client_id)
            .field("clean_start", &self.clean_start)
            .field("session_expiry_s", &self.session_expiry_s)
            .field("keep_alive_s", &self.keep_alive_s)
            .field("limits", &self.limits)
            .field("reconnect", &self.reconnect)
            .finish_non_exhaustive()
    }
}

/// At most 23 characters, which is what every server must take [MQTT-3.1.3-5].
fn random_client_id() -> String {
    format!("tautwire-{:014x}", RandomState::new().hash_one(0) >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_an_identifier_gets_one_that_every_server_takes() {
        let (first, second) = (random_client_id(), random_client_id());
        assert_ne!(first, second);
        assert!(first.len() <= 23, "{first}");
    }

    #[test]
    fn properties_with_a_method_of_their_own_are_that_method() {
        let options = Options::new("mqtt://h").expect("an address");
        let options = options.connect_property(Property::SessionExpiryInterval(7)).expect("allowed");
        assert_eq!(options.session_expiry_s, 7);
        let options = options.connect_property(Property::UserProperty("a", "b")).expect("allowed");
        assert!(options.connect_property(Property::TopicAlias(NonZeroU16::MIN)).is_err());
    }
}
