//! The connection options of `pub`, `sub` and `discover`.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use tautwire_protocol::{Property, PropertyContext, PropertyId, ProtocolVersion, QoS, TopicName};

use super::CommandExit;
use super::arguments::{Arguments, OptionSpec, flag, value};
use super::properties::{self, PACKETS, PropertyList};
use super::server_options::ServerOptions;
use crate::client::{ConnectOptions, ScramHash, WillMessage};

/// The environment variable with the password.
const PASSWORD_VARIABLE: &str = "TAUTWIRE_PASSWORD";
/// Longest password in MQTT.
const PASSWORD_MAX_BYTES: usize = 65_535;

pub(super) const CONNECTION_OPTIONS: &[OptionSpec] = &[
    value(
        Some('h'),
        "host",
        "HOST",
        "The broker's name or address, or unix:/PATH for its Unix socket. Default: localhost.",
    ),
    value(Some('p'), "port", "PORT", "The broker's port. Default: 1883, with TLS 8883."),
    value(
        None,
        "url",
        "URL",
        "Host and port as a URL: mqtt://HOST:PORT, mqtts:// for TLS, ws://HOST:PORT/PATH for WebSocket, wss:// for \
         both, or unix:/PATH for a Unix socket.",
    ),
    value(Some('V'), "protocol-version", "VERSION", "5, 3.1.1 or 3.1. Default: 5."),
    value(Some('i'), "id", "ID", "The client identifier. Default: a random one."),
    value(
        Some('I'),
        "id-prefix",
        "PREFIX",
        "A client identifier that consists of this prefix and the process identifier.",
    ),
    value(Some('u'), "user", "NAME", "The user name."),
    value(
        None,
        "password-file",
        "FILE",
        "Read the password from this file; a trailing line end is ignored. Default: the environment variable \
         TAUTWIRE_PASSWORD, if it is set.",
    ),
    value(
        None,
        "scram",
        "HASH",
        "Authenticate by SCRAM instead of sending the password: sha-256 or sha-512. The broker must prove that it knows the password, \
         too. Needs -u and a password.",
    ),
    value(Some('k'), "keepalive", "SECONDS", "Keep alive; 0 turns it off. Default: 60."),
    flag(
        Some('c'),
        "keep-session",
        "Resume the session of this client identifier, and keep it afterwards (without expiry, unless -x is given). \
         Needs -i.",
    ),
    value(Some('x'), "session-expiry", "SECONDS", "Session expiry interval in seconds, or never for no expiry."),
    value(
        None,
        "connect-timeout",
        "SECONDS",
        "Timeout for connecting, including the response of the broker. Default: 10.",
    ),
    flag(Some('d'), "debug", "Print diagnostics to standard error."),
    flag(None, "quiet", "Print no error messages; use the exit code."),
];

pub(super) const WILL_OPTIONS: &[OptionSpec] = &[
    value(None, "will-topic", "TOPIC", "The topic of the will."),
    value(None, "will-payload", "TEXT", "Its payload. Default: empty."),
    value(None, "will-qos", "QOS", "Its QoS. Default: 0."),
    flag(None, "will-retain", "Retain it."),
    value(None, "will-delay", "SECONDS", "How long the broker waits for this client to reconnect first."),
];

pub(super) const PROPERTY_OPTION: OptionSpec = value(
    Some('D'),
    "property",
    "PACKET NAME VALUE",
    "Add a property to connect, will, publish, subscribe, unsubscribe or disconnect, for example \
     -D publish content-type text/plain; user-property takes a name and a value.",
);

/// Exit codes and defaults, for the notes of the help.
pub(super) const NOTES: &str = "\
Exit codes: 0 done; 1 invalid arguments or files; 2 no connection, or it was lost; 3 refused by the broker;
27 timeout of `sub -W`.
Ctrl-C ends the connection cleanly; a second one ends the process at once.";

/// The values of the options.
#[derive(Debug)]
pub(super) struct ClientOptions {
    server: ServerOptions,
    version: ProtocolVersion,
    id: Option<String>,
    id_prefix: Option<String>,
    user: Option<String>,
    password_file: Option<PathBuf>,
    scram: Option<ScramHash>,
    keep_alive_s: u16,
    keep_session: bool,
    session_expiry_s: Option<u32>,
    timeout: Duration,
    will_topic: Option<TopicName<'static>>,
    will_payload: Option<String>,
    will_qos: Option<QoS>,
    will_retain: bool,
    pub(super) debug: bool,
    pub(super) quiet: bool,
    connect: PropertyList,
    will: PropertyList,
    disconnect: PropertyList,
    pub(super) publish: PropertyList,
    pub(super) subscribe: PropertyList,
    pub(super) unsubscribe: PropertyList,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            server: ServerOptions::default(),
            version: ProtocolVersion::V5,
            id: None,
            id_prefix: None,
            user: None,
            password_file: None,
            scram: None,
            keep_alive_s: 60,
            keep_session: false,
            session_expiry_s: None,
            timeout: Duration::from_secs(10),
            will_topic: None,
            will_payload: None,
            will_qos: None,
            will_retain: false,
            debug: false,
            quiet: false,
            connect: PropertyList::default(),
            will: PropertyList::default(),
            disconnect: PropertyList::default(),
            publish: PropertyList::default(),
            subscribe: PropertyList::default(),
            unsubscribe: PropertyList::default(),
        }
    }
}

impl ClientOptions {
    /// Reads the option if it is one of these.
    pub(super) fn take(&mut self, name: &str, arguments: &mut Arguments) -> Result<bool, CommandExit> {
        match name {
            "protocol-version" => self.version = arguments.choice(VERSIONS)?,
            "id" => self.id = Some(arguments.string()?),
            "id-prefix" => self.id_prefix = Some(arguments.string()?),
            "user" => self.user = Some(arguments.string()?),
            "password-file" => self.password_file = Some(arguments.os_string()?.into()),
            "scram" => {
                self.scram = Some(arguments.choice(&[("sha-256", ScramHash::Sha256), ("sha-512", ScramHash::Sha512)])?);
            }
            "keepalive" => self.keep_alive_s = arguments.number(0..=65_535)?,
            "keep-session" => self.keep_session = true,
            "session-expiry" => self.session_expiry_s = Some(checked(arguments, properties::session_expiry)?),
            "connect-timeout" => self.timeout = arguments.seconds()?.max(Duration::from_millis(1)),
            "debug" => self.debug = true,
            "quiet" => self.quiet = true,
            "will-topic" => self.will_topic = Some(topic_name(arguments)?),
            "will-payload" => self.will_payload = Some(arguments.string()?),
            "will-qos" => self.will_qos = Some(qos(arguments)?),
            "will-retain" => self.will_retain = true,
            "will-delay" => {
                let property = Property::WillDelayInterval(arguments.number(0..=u32::MAX.into())?);
                self.add(PropertyContext::Will, property, arguments)?;
            }
            "property" => self.take_property(arguments)?,
            _ => return self.server.take(name, arguments),
        }
        Ok(true)
    }

    /// Adds a property that has a dedicated option.
    pub(super) fn add(
        &mut self,
        context: PropertyContext,
        property: Property<'static>,
        arguments: &Arguments,
    ) -> Result<(), CommandExit> {
        let list = match context {
            PropertyContext::Will => &mut self.will,
            PropertyContext::Publish => &mut self.publish,
            PropertyContext::Subscribe => &mut self.subscribe,
            PropertyContext::Unsubscribe => &mut self.unsubscribe,
            PropertyContext::Disconnect => &mut self.disconnect,
            _ => &mut self.connect,
        };
        list.add(context, property).map_err(|message| arguments.failure(&message))
    }

    fn take_property(&mut self, arguments: &mut Arguments) -> Result<(), CommandExit> {
        let context = arguments.choice(PACKETS)?;
        let id = checked(arguments, properties::id)?;
        let mut values = Vec::new();
        for _ in 0..properties::value_count(id) {
            values.push(arguments.string()?);
        }
        let property = properties::parse(id, values).map_err(|message| arguments.failure(&message))?;
        self.add(context, property, arguments)
    }

    /// The connection options. `purpose` becomes part of a generated client identifier.
    ///
    /// # Errors
    /// Conflicting options, or a password that cannot be read.
    pub(super) fn connect_options(
        &mut self,
        arguments: &Arguments,
        purpose: &str,
        environment_password: Option<OsString>,
    ) -> Result<ConnectOptions, CommandExit> {
        self.check(arguments)?;
        let (server, tls) = self.server.resolve(arguments)?;
        let client_id = match (self.id.take(), self.id_prefix.take()) {
            (Some(id), _) => id,
            (None, Some(prefix)) => format!("{prefix}{}", std::process::id()),
            // At most 23 characters, the limit of MQTT 3.1.
            (None, None) => format!("tautwire-{purpose}-{:08x}", tautwire_router::random() as u32),
        };
        let password = self.password(arguments, environment_password)?;
        if password.is_some() && self.user.is_none() && !self.version.is_v5() {
            return Err(arguments.command_failure("before MQTT 5.0 a password needs a user name (-u)"));
        }
        if self.scram.is_some() && (password.is_none() || self.user.is_none()) {
            return Err(arguments.command_failure(
                "--scram needs a user name (-u) and a password (--password-file, or TAUTWIRE_PASSWORD)",
            ));
        }
        if self.version.is_v5() {
            let expiry_s = self.session_expiry_s.or(self.keep_session.then_some(u32::MAX));
            if let Some(expiry_s) = expiry_s.filter(|expiry_s| *expiry_s > 0) {
                self.connect.replace(Property::SessionExpiryInterval(expiry_s));
            }
        }
        Ok(ConnectOptions {
            server,
            tls,
            version: self.version,
            client_id,
            user_name: self.user.take(),
            password,
            scram: self.scram,
            keep_alive_s: self.keep_alive_s,
            clean_start: !self.keep_session,
            will: self.will_topic.take().map(|topic| WillMessage {
                topic,
                payload: self.will_payload.take().unwrap_or_default().into_bytes(),
                qos: self.will_qos.unwrap_or_default(),
                retain: self.will_retain,
                properties: std::mem::take(&mut self.will).into_vec(),
            }),
            properties: std::mem::take(&mut self.connect).into_vec(),
            disconnect_properties: std::mem::take(&mut self.disconnect).into_vec(),
            timeout: self.timeout,
            max_in_flight: u16::MAX,
        })
    }

    fn check(&self, arguments: &Arguments) -> Result<(), CommandExit> {
        let fail = |message: &str| Err(arguments.command_failure(message));
        if self.keep_session && self.id.is_none() {
            return fail("-c needs a client identifier (-i) to identify the session");
        }
        let will_detail =
            self.will_payload.is_some() || self.will_qos.is_some() || self.will_retain || !self.will.is_empty();
        if self.will_topic.is_none() && will_detail {
            return fail("a will needs --will-topic");
        }
        if self.session_expiry_s.is_some() && self.connect.contains(PropertyId::SessionExpiryInterval) {
            return fail("-x and -D connect session-expiry-interval set the same property; use one of them");
        }
        let lists = [&self.connect, &self.will, &self.disconnect, &self.publish, &self.subscribe, &self.unsubscribe];
        let any_property = lists.iter().any(|list| !list.is_empty());
        if !self.version.is_v5() && (any_property || self.session_expiry_s.is_some()) {
            return fail("properties and -x need MQTT 5.0 (-V 5)");
        }
        if !self.version.is_v5() && self.scram.is_some() {
            return fail("--scram needs MQTT 5.0 (-V 5)");
        }
        Ok(())
    }

    /// Whether the session persists after the connection.
    pub(super) fn keeps_session(&self) -> bool {
        self.keep_session
    }

    pub(super) fn is_v5(&self) -> bool {
        self.version.is_v5()
    }

    fn password(&self, arguments: &Arguments, environment: Option<OsString>) -> Result<Option<Vec<u8>>, CommandExit> {
        let fail = |message: String| arguments.command_failure(&message);
        let mut password = match &self.password_file {
            Some(path) => {
                let mut bytes = Vec::new();
                std::fs::File::open(path)
                    .and_then(|file| file.take(PASSWORD_MAX_BYTES as u64 + 3).read_to_end(&mut bytes))
                    .map_err(|error| fail(format!("the password file {} cannot be read: {error}", path.display())))?;
                if bytes.pop_if(|byte| *byte == b'\n').is_some() {
                    let _ = bytes.pop_if(|byte| *byte == b'\r');
                }
                Some(bytes)
            }
            None => environment.map(OsString::into_encoded_bytes),
        };
        if password.as_ref().is_some_and(|password| password.len() > PASSWORD_MAX_BYTES) {
            return Err(fail(format!("the password is longer than {PASSWORD_MAX_BYTES} bytes")));
        }
        // An empty variable counts as unset.
        if self.password_file.is_none() {
            password = password.filter(|password| !password.is_empty());
        }
        Ok(password)
    }
}

/// The password from the environment, if any.
pub(super) fn environment_password() -> Option<OsString> {
    std::env::var_os(PASSWORD_VARIABLE)
}

const VERSIONS: &[(&str, ProtocolVersion)] = &[
    ("5", ProtocolVersion::V5),
    ("3.1.1", ProtocolVersion::V3_1_1),
    ("3.1", ProtocolVersion::V3_1),
    ("5.0", ProtocolVersion::V5),
    ("311", ProtocolVersion::V3_1_1),
    ("31", ProtocolVersion::V3_1),
    ("mqttv5", ProtocolVersion::V5),
    ("mqttv311", ProtocolVersion::V3_1_1),
    ("mqttv31", ProtocolVersion::V3_1),
];

pub(super) fn qos(arguments: &mut Arguments) -> Result<QoS, CommandExit> {
    arguments.choice(&[("0", QoS::AtMostOnce), ("1", QoS::AtLeastOnce), ("2", QoS::ExactlyOnce)])
}

/// Reads the option as a topic name. It lives as long as the process, like its arguments.
pub(super) fn topic_name(arguments: &mut Arguments) -> Result<TopicName<'static>, CommandExit> {
    let text = arguments.string()?;
    TopicName::new(text.leak()).map_err(|error| arguments.failure(&error.to_string()))
}

/// Reads the option with a parser that returns an error message.
pub(super) fn checked<T>(
    arguments: &mut Arguments,
    check: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, CommandExit> {
    let text = arguments.string()?;
    check(&text).map_err(|message| arguments.failure(&message))
}
