//! The addresses on which the broker listens.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use tautwire_websocket::Path;
use toml::de::DeValue;

use super::value::{Setting, ValueError, quoted, text, texts};

/// Default ports, which clients need not be told.
pub(crate) const MQTT_PORT: u16 = 1883;
const WEBSOCKET_PORT: u16 = 8083;
const UNIX_SCHEME: &str = "unix:";
/// What the kernel takes for the file of a socket, in unix(7).
const UNIX_PATH_MAX_BYTES: usize = 107;

/// Where the broker listens.
#[derive(Debug, Clone)]
pub(crate) struct Listen {
    addresses: Vec<Address>,
    explicit: bool,
}

/// Where is listened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenEndpoint {
    /// The address and the port.
    Network(SocketAddr),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

/// One address, and what is spoken there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) place: ListenEndpoint,
    /// By TLS.
    pub(crate) is_tls: bool,
    /// By WebSocket, at this path.
    pub(crate) websocket: Option<Path>,
}

impl Listen {
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Something else is listened on: the default does not count.
    pub(super) fn remove_default(&mut self) {
        if !self.explicit {
            *self = Listen { addresses: Vec::new(), explicit: true };
        }
    }

    /// Goes on without WebSocket, if that was the default; says whether it did.
    pub(crate) fn remove_websocket_default(&mut self) -> bool {
        let default = self.addresses.iter().find(|address| address.websocket.is_some()).and_then(Address::socket);
        default.is_some_and(|address| self.give_up(address))
    }

    /// Goes on without WebSocket at `taken`, if that was the default and nobody has asked for it; says whether it did.
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

/// The default is the same configuration when it is written out.
impl PartialEq for Listen {
    fn eq(&self, other: &Listen) -> bool {
        self.addresses == other.addresses
    }
}

impl Eq for Listen {}

impl Address {
    /// The address with the port that the kernel has chosen.
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
                    "\"{}\" begins with none of mqtt://, mqtts://, ws://, wss:// and unix:",
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
                "\"{}\" has a path that cannot be asked for; write it like \"{scheme}://127.0.0.1:8083/mqtt\"",
                text.escape_debug()
            ))
        })?;
        Ok(Address { place: socket(authority)?, is_tls, websocket: Some(path) })
    }

    /// Whether only this machine can reach it.
    pub(crate) fn is_local(&self) -> bool {
        self.socket().is_none_or(|socket| socket.ip().to_canonical().is_loopback())
    }

    /// Its IP address and port, where it has one.
    pub(crate) fn socket(&self) -> Option<SocketAddr> {
        match self.place {
            ListenEndpoint::Network(socket) => Some(socket),
            ListenEndpoint::Unix(_) => None,
        }
    }

    /// Whether no other can be listened on beside it that is the same.
    pub(super) fn conflicts_with(&self, other: &Address) -> bool {
        self.place == other.place && self.socket().is_none_or(|socket| socket.port() != 0)
    }

    /// MQTT over TCP alone.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_tls && self.websocket.is_none() && self.socket().is_some()
    }
}

/// As clients are told it.
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

/// A Unix socket: MQTT as it is over TCP.
fn unix(text: &str, path: &str) -> Result<Address, ValueError> {
    // Of as many slashes as a URL has, all but one say nothing.
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

/// In a name of a listener, which is a label in metrics.
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
