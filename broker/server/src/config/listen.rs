//! The addresses on which the broker listens.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use tautwire_websocket::Path;
use toml::de::DeValue;

use super::value::{Problem, Setting, text, texts};

/// Default ports, which clients need not be told.
pub(crate) const MQTT_PORT: u16 = 1883;
const WEBSOCKET_PORT: u16 = 8083;

/// Where the broker listens.
#[derive(Debug, Clone)]
pub(crate) struct Listen {
    addresses: Vec<Address>,
    given: bool,
}

/// One address, and what is spoken there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// The address and the port.
    pub(crate) socket: SocketAddr,
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

    /// Goes on without WebSocket at `taken`, if that was the default and nobody has asked for it; says whether it did.
    pub(crate) fn give_up(&mut self, taken: SocketAddr) -> bool {
        let before = self.addresses.len();
        if !self.given {
            self.addresses.retain(|address| address.websocket.is_none() || address.socket != taken);
        }
        self.addresses.len() < before
    }
}

impl Default for Listen {
    fn default() -> Listen {
        let local = |port, websocket| {
            let socket = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            Address { socket, by_tls: false, websocket }
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
        Address { socket, ..self.clone() }
    }

    fn parse(text: &str) -> Result<Address, Problem> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("mqtt", text));
        let (by_tls, is_websocket) = match scheme {
            "mqtt" => (false, false),
            "mqtts" => (true, false),
            "ws" => (false, true),
            "wss" => (true, true),
            _ => {
                return Err(Problem::Range(format!(
                    "\"{}\" begins with none of mqtt://, mqtts://, ws:// and wss://",
                    text.escape_debug()
                )));
            }
        };
        if !is_websocket {
            return Ok(Address { socket: socket(rest)?, by_tls, websocket: None });
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
        Ok(Address { socket: socket(authority)?, by_tls, websocket: Some(path) })
    }

    /// Whether only this machine can reach it.
    pub(crate) fn is_local(&self) -> bool {
        self.socket.ip().to_canonical().is_loopback()
    }

    /// MQTT over TCP alone.
    pub(crate) fn is_plain(&self) -> bool {
        !self.by_tls && self.websocket.is_none()
    }
}

/// As clients are told it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { socket, by_tls, websocket } = self;
        let secure = if *by_tls { "s" } else { "" };
        match websocket {
            None => write!(f, "mqtt{secure}://{socket}"),
            Some(path) => write!(f, "ws{secure}://{socket}{path}"),
        }
    }
}

impl Setting for Address {
    fn takes(_: Option<&RangeInclusive<u64>>) -> String {
        "\"ADDRESS:PORT\", \"mqtts://ADDRESS:PORT\", \"ws://ADDRESS:PORT/PATH\" or \"wss://ADDRESS:PORT/PATH\""
            .to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Address, Problem> {
        Address::parse(text::<Address>(value)?)
    }

    fn to_toml(&self) -> String {
        if self.is_plain() { format!("\"{}\"", self.socket) } else { format!("\"{self}\"") }
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
            let socket = address.socket;
            if socket.port() != 0 && addresses.iter().any(|other| other.socket == socket) {
                return Err(Problem::Range(format!("{socket} is listed twice; keep one of them")));
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

fn socket(text: &str) -> Result<SocketAddr, Problem> {
    text.parse().map_err(|_| {
        Problem::Range(format!(
            "\"{}\" is not an IP address and port; write it like \"127.0.0.1:1883\", \"[::1]:1883\" or \"0.0.0.0:1883\" (host names are not looked up)",
            text.escape_debug()
        ))
    })
}
