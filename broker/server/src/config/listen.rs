//! The addresses on which the broker listens.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use tautwire_websocket::Path;
use toml::de::DeValue;

use super::value::{Problem, Setting, quoted, text, texts};

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
    given: bool,
}

/// Where is listened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The address and the port.
    Network(SocketAddr),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

/// One address, and what is spoken there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) place: Place,
    /// By TLS.
    pub(crate) by_tls: bool,
    /// By WebSocket, at this path.
    pub(crate) websocket: Option<Path>,
}

impl Listen {
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Something else is listened on: the default does not count.
    pub(super) fn make_way(&mut self) {
        if !self.given {
            *self = Listen { addresses: Vec::new(), given: true };
        }
    }

    /// Goes on without WebSocket, if that was the default; says whether it did.
    pub(crate) fn give_up_default(&mut self) -> bool {
        let default = self.addresses.iter().find(|address| address.websocket.is_some()).and_then(Address::socket);
        default.is_some_and(|address| self.give_up(address))
    }

    /// Goes on without WebSocket at `taken`, if that was the default and nobody has asked for it; says whether it did.
    pub(crate) fn give_up(&mut self, taken: SocketAddr) -> bool {
        let before = self.addresses.len();
        if !self.given {
            self.addresses.retain(|address| address.websocket.is_none() || address.place != Place::Network(taken));
        }
        self.addresses.len() < before
    }
}

impl Default for Listen {
    fn default() -> Listen {
        let local = |port, websocket| {
            let place = Place::Network(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            Address { place, by_tls: false, websocket }
        };
        let addresses = vec![local(MQTT_PORT, None), local(WEBSOCKET_PORT, Some(Path::default()))];
        Listen { addresses, given: false }
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
        Address { place: Place::Network(socket), ..self.clone() }
    }

    fn parse(text: &str) -> Result<Address, Problem> {
        if let Some(path) = text.strip_prefix(UNIX_SCHEME) {
            return unix(text, path);
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("mqtt", text));
        let (by_tls, is_websocket) = match scheme {
            "mqtt" => (false, false),
            "mqtts" => (true, false),
            "ws" => (false, true),
            "wss" => (true, true),
            _ => {
                return Err(Problem::Range(format!(
                    "\"{}\" begins with none of mqtt://, mqtts://, ws://, wss:// and unix:",
                    text.escape_debug()
                )));
            }
        };
        if !is_websocket {
            return Ok(Address { place: socket(rest)?, by_tls, websocket: None });
        }
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = if path.is_empty() { Some(Path::default()) } else { Path::new(path) };
        let path = path.ok_or_else(|| {
            Problem::Range(format!(
                "\"{}\" has a path that cannot be asked for; write it like \"{scheme}://127.0.0.1:8083/mqtt\"",
                text.escape_debug()
            ))
        })?;
        Ok(Address { place: socket(authority)?, by_tls, websocket: Some(path) })
    }

    /// Whether only this machine can reach it.
    pub(crate) fn is_local(&self) -> bool {
        self.socket().is_none_or(|socket| socket.ip().to_canonical().is_loopback())
    }

    /// Its IP address and port, where it has one.
    pub(crate) fn socket(&self) -> Option<SocketAddr> {
        match self.place {
            Place::Network(socket) => Some(socket),
            Place::Unix(_) => None,
        }
    }

    /// Whether no other can be listened on beside it that is the same.
    pub(super) fn is_taken_by(&self, other: &Address) -> bool {
        self.place == other.place && self.socket().is_none_or(|socket| socket.port() != 0)
    }

    /// MQTT over TCP alone.
    pub(crate) fn is_plain(&self) -> bool {
        !self.by_tls && self.websocket.is_none() && self.socket().is_some()
    }
}

/// As clients are told it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { place, by_tls, websocket } = self;
        let socket = match place {
            Place::Network(socket) => socket,
            Place::Unix(path) => return write!(f, "{UNIX_SCHEME}{}", path.display()),
        };
        let secure = if *by_tls { "s" } else { "" };
        match websocket {
            None => write!(f, "mqtt{secure}://{socket}"),
            Some(path) => write!(f, "ws{secure}://{socket}{path}"),
        }
    }
}

impl Setting for Address {
    fn takes(_: Option<&RangeInclusive<u64>>) -> String {
        "\"ADDRESS:PORT\", \"mqtts://ADDRESS:PORT\", \"ws://ADDRESS:PORT/PATH\", \"wss://ADDRESS:PORT/PATH\" or \
         \"unix:/PATH\""
            .to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Address, Problem> {
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
    fn takes(_: Option<&RangeInclusive<u64>>) -> String {
        format!("list of {}", Address::takes(None))
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Listen, Problem> {
        let mut addresses: Vec<Address> = Vec::new();
        for text in texts::<Listen>(value)? {
            let address = Address::parse(text)?;
            if addresses.iter().any(|other| address.is_taken_by(other)) {
                return Err(Problem::Range(format!("{} is listed twice; keep one of them", address.place)));
            }
            addresses.push(address);
        }
        Ok(Listen { addresses, given: true })
    }

    fn to_toml(&self) -> String {
        let items: Vec<String> = self.addresses.iter().map(Setting::to_toml).collect();
        format!("[{}]", items.join(", "))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Network(socket) => socket.fmt(f),
            Place::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A Unix socket: MQTT as it is over TCP.
fn unix(text: &str, path: &str) -> Result<Address, Problem> {
    // Of as many slashes as a URL has, all but one say nothing.
    let path = path.strip_prefix("//").unwrap_or(path);
    let is_allowed = path.starts_with('/') && path.len() <= UNIX_PATH_MAX_BYTES && !path.contains(is_unfit);
    if !is_allowed {
        return Err(Problem::Range(format!(
            "\"{}\" has no absolute path of at most {UNIX_PATH_MAX_BYTES} bytes without quotes and control characters; write it \
             like \"unix:/run/tautwire/mqtt.sock\"",
            text.escape_debug()
        )));
    }
    Ok(Address { place: Place::Unix(PathBuf::from(path)), by_tls: false, websocket: None })
}

/// In a name of a listener, which is a label in metrics.
fn is_unfit(character: char) -> bool {
    character.is_control() || matches!(character, '"' | '\\')
}

fn socket(text: &str) -> Result<Place, Problem> {
    text.parse().map(Place::Network).map_err(|_| {
        Problem::Range(format!(
            "\"{}\" is not an IP address and port; write it like \"127.0.0.1:1883\", \"[::1]:1883\" or \"0.0.0.0:1883\" (host names are not looked up)",
            text.escape_debug()
        ))
    })
}
