//! The addresses that the broker listens on.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use tautwire_websocket::Path;
use toml::de::DeValue;

use super::value::{Setting, ValueError, quoted, text, texts};

/// Default ports.
pub(crate) const MQTT_PORT: u16 = 1883;
const WEBSOCKET_PORT: u16 = 8083;
const UNIX_SCHEME: &str = "unix:";
/// Longest path of a Unix socket, see unix(7).
const UNIX_PATH_MAX_BYTES: usize = 107;

/// The value of `listen`.
#[derive(Debug, Clone)]
pub(crate) struct Listen {
    addresses: Vec<Address>,
    explicit: bool,
}

/// An address without a protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenEndpoint {
    /// IP address and port.
    Network(SocketAddr),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

/// An address and its protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) place: ListenEndpoint,
    /// Whether it uses TLS.
    pub(crate) is_tls: bool,
    /// The path, if it uses WebSocket.
    pub(crate) websocket: Option<Path>,
}

impl Listen {
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Removes the default addresses, because others are configured.
    pub(super) fn remove_default(&mut self) {
        if !self.explicit {
            *self = Listen { addresses: Vec::new(), explicit: true };
        }
    }

    /// Removes the WebSocket address, if it is a default; returns whether it did.
    pub(crate) fn remove_websocket_default(&mut self) -> bool {
        let default = self.addresses.iter().find(|address| address.websocket.is_some()).and_then(Address::socket);
        default.is_some_and(|address| self.give_up(address))
    }

    /// Removes the WebSocket address `taken`, if it is a default; returns whether it did.
    pub(crate) fn give_up(&mut self, taken: SocketAddr) -> bool {
        let before = self.addresses.len();
        if !self.explicit {
            self.addresses
                .retain(|address| address.websocket.is_none() || address.place != ListenEndpoint::Network(taken));
        }
        self.addresses.len() < before
    }
}

impl Default for Listen {
    fn default() -> Listen {
        let local = |port, websocket| {
            let place = ListenEndpoint::Network(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            Address { place, is_tls: false, websocket }
        };
        let addresses = vec![local(MQTT_PORT, None), local(WEBSOCKET_PORT, Some(Path::default()))];
        Listen { addresses, explicit: false }
    }
}

/// The default equals the same addresses written explicitly.
impl PartialEq for Listen {
    fn eq(&self, other: &Listen) -> bool {
        self.addresses == other.addresses
    }
}

impl Eq for Listen {}

impl Address {
    /// The address with the port that the kernel chose.
    pub(crate) fn at(&self, socket: SocketAddr) -> Address {
        Address { place: ListenEndpoint::Network(socket), ..self.clone() }
    }

    fn parse(text: &str) -> Result<Address, ValueError> {
        if let Some(path) = text.strip_prefix(UNIX_SCHEME) {
            return unix(text, path);
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("mqtt", text));
        let (is_tls, is_websocket) = match scheme {
            "mqtt" => (false, false),
            "mqtts" => (true, false),
            "ws" => (false, true),
            "wss" => (true, true),
            _ => {
                return Err(ValueError::Range(format!(
                    "\"{}\" does not begin with mqtt://, mqtts://, ws://, wss:// or unix:",
                    text.escape_debug()
                )));
            }
        };
        if !is_websocket {
            return Ok(Address { place: socket(rest)?, is_tls, websocket: None });
        }
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = if path.is_empty() { Some(Path::default()) } else { Path::new(path) };
        let path = path.ok_or_else(|| {
            ValueError::Range(format!(
                "\"{}\" has an invalid path; write it like \"{scheme}://127.0.0.1:8083/mqtt\"",
                text.escape_debug()
            ))
        })?;
        Ok(Address { place: socket(authority)?, is_tls, websocket: Some(path) })
    }

    /// Whether only this machine can reach it.
    pub(crate) fn is_local(&self) -> bool {
        self.socket().is_none_or(|socket| socket.ip().to_canonical().is_loopback())
    }

    /// Its IP address and port, if it has them.
    pub(crate) fn socket(&self) -> Option<SocketAddr> {
        match self.place {
            ListenEndpoint::Network(socket) => Some(socket),
            ListenEndpoint::Unix(_) => None,
        }
    }

    /// Whether the two cannot be listened on together.
    pub(super) fn conflicts_with(&self, other: &Address) -> bool {
        self.place == other.place && self.socket().is_none_or(|socket| socket.port() != 0)
    }

    /// Whether it is plain MQTT over TCP.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_tls && self.websocket.is_none() && self.socket().is_some()
    }
}

/// As a URL for clients.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { place, is_tls, websocket } = self;
        let socket = match place {
            ListenEndpoint::Network(socket) => socket,
            ListenEndpoint::Unix(path) => return write!(f, "{UNIX_SCHEME}{}", path.display()),
        };
        let secure = if *is_tls { "s" } else { "" };
        match websocket {
            None => write!(f, "mqtt{secure}://{socket}"),
            Some(path) => write!(f, "ws{secure}://{socket}{path}"),
        }
    }
}

impl Setting for Address {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "\"ADDRESS:PORT\", \"mqtts://ADDRESS:PORT\", \"ws://ADDRESS:PORT/PATH\", \"wss://ADDRESS:PORT/PATH\" or \
         \"unix:/PATH\""
            .to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Address, ValueError> {
        Address::parse(text::<Address>(value)?)
    }

    fn to_toml(&self) -> String {
        match self.socket().filter(|_| self.is_plain()) {
            Some(socket) => format!("\"{socket}\""),
            None => quoted(&self.to_string()),
        }
    }
}

impl Setting for Listen {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        format!("list of {}", Address::accepts(None))
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Listen, ValueError> {
        let mut addresses: Vec<Address> = Vec::new();
        for text in texts::<Listen>(value)? {
            let address = Address::parse(text)?;
            if addresses.iter().any(|other| address.conflicts_with(other)) {
                return Err(ValueError::Range(format!("{} is listed twice; keep one of them", address.place)));
            }
            addresses.push(address);
        }
        Ok(Listen { addresses, explicit: true })
    }

    fn to_toml(&self) -> String {
        let items: Vec<String> = self.addresses.iter().map(Setting::to_toml).collect();
        format!("[{}]", items.join(", "))
    }
}

impl fmt::Display for ListenEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenEndpoint::Network(socket) => socket.fmt(f),
            ListenEndpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Parses the address of a Unix socket, which carries plain MQTT.
fn unix(text: &str, path: &str) -> Result<Address, ValueError> {
    // `unix:///PATH` is the same as `unix:/PATH`.
    let path = path.strip_prefix("//").unwrap_or(path);
    let is_allowed = path.starts_with('/') && path.len() <= UNIX_PATH_MAX_BYTES && !path.contains(is_invalid_path);
    if !is_allowed {
        return Err(ValueError::Range(format!(
            "\"{}\" has no absolute path of at most {UNIX_PATH_MAX_BYTES} bytes without quotes and control characters; write it \
             like \"unix:/run/tautwire/mqtt.sock\"",
            text.escape_debug()
        )));
    }
    Ok(Address { place: ListenEndpoint::Unix(PathBuf::from(path)), is_tls: false, websocket: None })
}

/// Characters that a path cannot contain: it is part of the listener's name, a label in metrics.
fn is_invalid_path(character: char) -> bool {
    character.is_control() || matches!(character, '"' | '\\')
}

fn socket(text: &str) -> Result<ListenEndpoint, ValueError> {
    text.parse().map(ListenEndpoint::Network).map_err(|_| {
        ValueError::Range(format!(
            "\"{}\" is not an IP address and port; write it like \"127.0.0.1:1883\", \"[::1]:1883\" or \"0.0.0.0:1883\" (host names are not looked up)",
            text.escape_debug()
        ))
    })
}
