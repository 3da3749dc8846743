//! The options of a client.

mod authenticator;
mod credentials;
mod headers;
mod limits;
mod reconnect;
mod server;
mod will;

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use tautwire_protocol::{MAX_PACKET_SIZE_BYTES, Property, PropertyContext, ProtocolVersion};

use crate::duration::whole_seconds;
use crate::error::BoxError;
use crate::properties::PropertyBlock;
use crate::{Error, FileStore};

pub use authenticator::Authenticator;
pub use credentials::Credentials;
pub(crate) use credentials::CredentialsSource;
pub(crate) use headers::Headers;
pub use limits::Limits;
pub use reconnect::Reconnect;
pub use server::{Scheme, Server};
pub use will::Will;

/// The server never ends the session (Session Expiry Interval, section 3.1.2.11.2).
pub const NEVER_EXPIRES: Duration = Duration::from_secs(u32::MAX as u64);

/// The default session expiry of the server for an offline client: longer than a restart of a broker or a change of networks.
const SESSION_EXPIRY_S: u32 = 300;

/// How a client connects and behaves. Every option has a default that suits most programs.
///
/// ```
/// # use std::time::Duration;
/// # use tautwire_client::Options;
/// let options = Options::new("mqtt://localhost:1883")?.client_id("thermometer-7").keep_alive(Duration::from_secs(30));
/// # Ok::<(), tautwire_client::Error>(())
/// ```
pub struct Options {
    pub(crate) server: Server,
    pub(crate) version: ProtocolVersion,
    pub(crate) client_id: String,
    /// The application has set it.
    has_client_id: bool,
    pub(crate) clean_start: bool,
    pub(crate) session_expiry_s: u32,
    /// The application has set the session expiry.
    pub(crate) has_session_expiry: bool,
    pub(crate) keep_alive_s: u16,
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Vec<u8>>,
    pub(crate) credentials: Option<CredentialsSource>,
    pub(crate) headers: Headers,
    pub(crate) will: Option<Will>,
    pub(crate) receive_maximum: u16,
    pub(crate) maximum_packet_size_bytes: u32,
    pub(crate) topic_alias_maximum: u16,
    pub(crate) topic_aliases: u16,
    /// Properties of CONNECT without a field of their own.
    pub(crate) connect_properties: PropertyBlock,
    pub(crate) authenticator: Option<Box<dyn Authenticator>>,
    pub(crate) limits: Limits,
    pub(crate) store: Option<FileStore>,
    pub(crate) connect_timeout: Duration,
    pub(crate) ping_timeout: Duration,
    pub(crate) disconnect_timeout: Duration,
    pub(crate) reconnect: Option<Reconnect>,
    pub(crate) attempts_max: Option<NonZeroU32>,
    #[cfg(feature = "tls")]
    pub(crate) tls: crate::Tls,
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

    /// Options for a parsed server address.
    pub fn at(server: Server) -> Options {
        Options {
            server,
            version: ProtocolVersion::V5,
            client_id: random_client_id(),
            has_client_id: false,
            clean_start: true,
            session_expiry_s: SESSION_EXPIRY_S,
            has_session_expiry: false,
            keep_alive_s: 60,
            user_name: None,
            password: None,
            credentials: None,
            headers: Headers::default(),
            will: None,
            receive_maximum: 1000,
            maximum_packet_size_bytes: MAX_PACKET_SIZE_BYTES,
            topic_alias_maximum: 0,
            topic_aliases: 0,
            connect_properties: PropertyBlock::new(PropertyContext::Connect),
            authenticator: None,
            limits: Limits::default(),
            store: None,
            connect_timeout: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(10),
            disconnect_timeout: Duration::from_secs(5),
            reconnect: Some(Reconnect::default()),
            attempts_max: None,
            #[cfg(feature = "tls")]
            tls: crate::Tls::default(),
        }
    }

    /// The MQTT version. Before 5.0 there are no properties and reason codes; options that need them are refused.
    #[must_use]
    pub fn version(mut self, version: ProtocolVersion) -> Options {
        self.version = version;
        self
    }

    /// The client identifier, which names the session. Default: a random one. If empty, the server assigns one.
    #[must_use]
    pub fn client_id(mut self, client_id: impl Into<String>) -> Options {
        self.client_id = client_id.into();
        self.has_client_id = true;
        self
    }

    /// Resumes the session of an earlier connection with this client identifier, and keeps it on the server for `session_expiry` after this
    /// connection has ended ([`NEVER_EXPIRES`] for ever). It disables [`Options::clean_start`] and sets [`Options::session_expiry`].
    #[must_use]
    pub fn persistent(self, session_expiry: Duration) -> Options {
        self.clean_start(false).session_expiry(session_expiry)
    }

    /// How long the server keeps the session after the connection has ended, in whole seconds (rounded up, [`NEVER_EXPIRES`] at most).
    /// Default: 300 s if the connection was lost, and 0 if the client disconnected. A value set here applies to both.
    ///
    /// Before MQTT 5.0 the server decides.
    #[must_use]
    pub fn session_expiry(mut self, expiry: Duration) -> Options {
        self.session_expiry_s = whole_seconds(expiry);
        self.has_session_expiry = true;
        self
    }

    /// Whether the server discards an existing session first [MQTT-3.1.2-4]. It applies to the first connection; later ones resume the
    /// session. Default: true, and false after [`Options::persistent`].
    #[must_use]
    pub fn clean_start(mut self, clean_start: bool) -> Options {
        self.clean_start = clean_start;
        self
    }

    /// The keep alive interval (section 3.1.2.10), in whole seconds (rounded up, 65,535 at most); zero turns it off. Default: 60 s.
    ///
    /// The client sends PINGREQ after this time without a packet sent or received.
    #[must_use]
    pub fn keep_alive(mut self, keep_alive: Duration) -> Options {
        self.keep_alive_s = u16::try_from(whole_seconds(keep_alive)).unwrap_or(u16::MAX);
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

    /// Calls the application for user name and password at each connection, for example for a token that expires. They replace
    /// [`Options::user_name`] and [`Options::password`]. The time of the call is part of [`Options::connect_timeout`].
    ///
    /// With [`crate::blocking::Client`] it runs on the client's own thread and may block.
    ///
    /// ```
    /// use tautwire_client::{Credentials, Options};
    /// # async fn newest_token() -> Result<String, std::io::Error> { Ok(String::new()) }
    /// let options = Options::new("mqtt://localhost:1883")?
    ///     .credentials(|| async { Ok(Credentials::user_name("device-7").password(newest_token().await?)) });
    /// # Ok::<(), tautwire_client::Error>(())
    /// ```
    #[must_use]
    pub fn credentials<F, A>(mut self, ask: F) -> Options
    where
        F: FnMut() -> A + Send + 'static,
        A: Future<Output = Result<Credentials, BoxError>> + Send + 'static,
    {
        self.credentials = Some(CredentialsSource::new(ask));
        self
    }

    /// Adds a header field to the handshake of `ws://` and `wss://`. May be repeated. With any other address the client refuses to connect.
    ///
    /// # Errors
    /// [`Error::Options`]: the name is invalid or reserved for the client, the value is not visible ASCII, or all fields exceed 8 KiB.
    pub fn websocket_header(mut self, name: &str, value: &str) -> Result<Options, Error> {
        self.headers.push(name, value)?;
        Ok(self)
    }

    /// The message that the server publishes if the client disconnects ungracefully (section 3.1.2.5).
    #[must_use]
    pub fn will(mut self, will: Will) -> Options {
        self.will = Some(will);
        self
    }

    /// QoS 1 and 2 messages that the server may send before they are acknowledged [MQTT-3.3.4-9]. Default: 1000. It limits how many of them
    /// streams hold, because a message is acknowledged when the application has handled it.
    #[must_use]
    pub fn receive_maximum(mut self, maximum: NonZeroU16) -> Options {
        self.receive_maximum = maximum.get();
        self
    }

    /// The largest packet that the server may send, in bytes. Default: the maximum of MQTT.
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

    /// The number of topics that get an alias, from the first one published on, within the server's Topic Alias Maximum. It saves bytes if
    /// topics are long and few. Default: 0, none.
    #[must_use]
    pub fn topic_aliases(mut self, count: u16) -> Options {
        self.topic_aliases = count;
        self
    }

    /// Adds a property to CONNECT. A property with a method of its own here has the same effect as that method.
    ///
    /// # Errors
    /// The property is not allowed in CONNECT, or not twice.
    pub fn connect_property(mut self, property: Property<'_>) -> Result<Options, Error> {
        match property {
            Property::SessionExpiryInterval(seconds) => {
                self.session_expiry_s = seconds;
                self.has_session_expiry = true;
            }
            Property::ReceiveMaximum(maximum) => self.receive_maximum = maximum.get(),
            Property::MaximumPacketSize(bytes) => self.maximum_packet_size_bytes = bytes.get(),
            Property::TopicAliasMaximum(maximum) => self.topic_alias_maximum = maximum,
            other => self.connect_properties.push(other).map_err(|error| Error::Encode { packet: "CONNECT", error })?,
        }
        Ok(self)
    }

    /// Authenticates by an exchange of AUTH packets (section 4.12). MQTT 5.0 only.
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator + 'static) -> Options {
        self.authenticator = Some(Box::new(authenticator));
        self
    }

    /// Persists QoS 1 and 2 messages beyond the life of the process, and resumes the session of an earlier process. It disables
    /// [`Options::clean_start`], and the server keeps the session for 300 s after a disconnect, too, unless [`Options::session_expiry`] is
    /// set. The client identifier is that of the store, unless the store is new.
    #[must_use]
    pub fn store(mut self, store: FileStore) -> Options {
        if let Some(client_id) = store.client_id().filter(|_| !self.has_client_id) {
            self.client_id = client_id;
        }
        self.clean_start = false;
        self.has_session_expiry = true;
        self.store = Some(store);
        self
    }

    /// The limits of queues and buffers of the client.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Options {
        self.limits = limits;
        self
    }

    /// The time limit for an attempt to connect, from the name lookup to CONNACK. Default: 20 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Options {
        self.connect_timeout = timeout;
        self
    }

    /// The time limit for PINGRESP, after which the connection counts as lost. Default: 10 s.
    #[must_use]
    pub fn ping_timeout(mut self, timeout: Duration) -> Options {
        self.ping_timeout = timeout;
        self
    }

    /// The time limit for pending acknowledgements when the client disconnects. Default: 5 s.
    #[must_use]
    pub fn disconnect_timeout(mut self, timeout: Duration) -> Options {
        self.disconnect_timeout = timeout;
        self
    }

    /// The delays before reconnecting after a lost connection; `None` for never. Default: [`Reconnect::default`].
    #[must_use]
    pub fn reconnect(mut self, reconnect: Option<Reconnect>) -> Options {
        self.reconnect = reconnect;
        self
    }

    /// The number of consecutive failed attempts after which the client ends with the last error. Default: no limit.
    #[must_use]
    pub fn attempts_max(mut self, attempts: NonZeroU32) -> Options {
        self.attempts_max = Some(attempts);
        self
    }

    /// The trusted authorities and the client certificate for `mqtts://` and `wss://`. With another address and settings other than the
    /// default the client refuses to connect, because everything would be sent unencrypted.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: crate::Tls) -> Options {
        self.tls = tls;
        self
    }

    /// Whether the session should outlive the client, and not only lost connections.
    pub(crate) fn is_persistent(&self) -> bool {
        if self.version.is_v5() { self.has_session_expiry && self.session_expiry_s > 0 } else { !self.clean_start }
    }
}

impl fmt::Debug for Options {
    /// Omits secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("server", &self.server)
            .field("version", &self.version)
            .field("client_id", &self.client_id)
            .field("clean_start", &self.clean_start)
            .field("session_expiry_s", &self.session_expiry_s)
            .field("keep_alive_s", &self.keep_alive_s)
            .field("headers", &self.headers)
            .field("limits", &self.limits)
            .field("reconnect", &self.reconnect)
            .finish_non_exhaustive()
    }
}

/// At most 23 characters, which every server must accept [MQTT-3.1.3-5].
fn random_client_id() -> String {
    format!("tautwire-{:014x}", RandomState::new().hash_one(0) >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_an_identifier_gets_a_valid_one() {
        let (first, second) = (random_client_id(), random_client_id());
        assert_ne!(first, second);
        assert!(first.len() <= 23, "{first}");
    }

    #[test]
    fn seconds_are_rounded_up_to_the_maximum() {
        let options = |expiry| Options::new("mqtt://h").expect("an address").session_expiry(expiry);
        assert_eq!(options(Duration::ZERO).session_expiry_s, 0);
        assert_eq!(options(Duration::from_millis(1001)).session_expiry_s, 2);
        assert_eq!(options(NEVER_EXPIRES).session_expiry_s, u32::MAX);
        assert_eq!(options(Duration::MAX).session_expiry_s, u32::MAX);
        assert_eq!(options(Duration::ZERO).keep_alive(Duration::MAX).keep_alive_s, u16::MAX);
    }

    #[test]
    fn debug_output_has_no_secrets() {
        let options = Options::new("mqtt://h").expect("an address").user_name("u").password("secret");
        let options = options.will(Will::new("t", "secret").expect("a topic"));
        let options = options.websocket_header("Authorization", "secret").expect("a header");
        assert!(!format!("{options:?}").contains("secret"));
        assert!(!format!("{:?}", Credentials::token("secret")).contains("secret"));
    }

    #[test]
    fn properties_with_their_own_method_use_it() {
        let options = Options::new("mqtt://h").expect("an address");
        let options = options.connect_property(Property::SessionExpiryInterval(7)).expect("allowed");
        assert_eq!(options.session_expiry_s, 7);
        let options = options.connect_property(Property::UserProperty("a", "b")).expect("allowed");
        assert!(options.connect_property(Property::TopicAlias(NonZeroU16::MIN)).is_err());
    }
}
