//! The addresses on which the broker listens.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use tautwire_websocket::Path;
use toml::de::DeValue;

use super::value::{Problem, Setting, texts};

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
pub(crate) enum Address {
    /// MQTT over TCP.
    Tcp(SocketAddr),
    /// MQTT over WebSocket.
    WebSocket(SocketAddr, Path),
}

impl Listen {
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Goes on without WebSocket at `taken`, if that was the default and nobody has asked for it; says whether it did.
    pub(crate) fn give_up(&mut self, taken: SocketAddr) -> bool {
        let before = self.addresses.len();
        if !self.given {
            self.addresses.retain(|address| !matches!(address, Address::WebSocket(socket, _) if *socket == taken));
        }
        self.addresses.len() < before
    }
}

impl Default for Listen {
    fn default() -> Listen {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let addresses =
            vec![Address::Tcp(local(MQTT_PORT)), Address::WebSocket(local(WEBSOCKET_PORT), Path::default())];
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
    /// The address and the port, whatever is spoken there.
    pub(crate) fn socket(&self) -> SocketAddr {
        match self {
            Address::Tcp(socket) | Address::WebSocket(socket, _) => *socket,
        }
    }

    /// The address with the port that the kernel has chosen.
    pub(crate) fn at(&self, socket: SocketAddr) -> Address {
        match self {
            Address::Tcp(_) => Address::Tcp(socket),
            Address::WebSocket(_, path) => Address::WebSocket(socket, path.clone()),
        }
    }

    fn parse(text: &str) -> Result<Address, Problem> {
        match text.split_once("://") {
            None => Ok(Address::Tcp(socket(text)?)),
            Some(("mqtt", rest)) => Ok(Address::Tcp(socket(rest)?)),
            Some(("ws", rest)) => {
                let end = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                let path = if path.is_empty() { Some(Path::default()) } else { Path::new(path) };
                let path = path.ok_or_else(|| {
                    Problem::Range(format!(
                        "\"{}\" has a path that cannot be asked for; write it like \"ws://127.0.0.1:8083/mqtt\"",
                        text.escape_debug()
                    ))
                })?;
                Ok(Address::WebSocket(socket(authority)?, path))
            }
            Some(("mqtts" | "wss", _)) => Err(Problem::Range(format!(
                "\"{}\" asks for TLS, which is not served; put a proxy that ends it in front",
                text.escape_debug()
            ))),
            Some(_) => {
                Err(Problem::Range(format!("\"{}\" begins with neither mqtt:// nor ws://", text.escape_debug())))
            }
        }
    }
}

/// As clients are told it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(socket) => write!(f, "mqtt://{socket}"),
            Address::WebSocket(socket, path) => write!(f, "ws://{socket}{path}"),
        }
    }
}

impl Setting for Listen {
    fn takes(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"ADDRESS:PORT\" or \"ws://ADDRESS:PORT/PATH\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Listen, Problem> {
        let mut addresses: Vec<Address> = Vec::new();
        for text in texts::<Listen>(value)? {
            let address = Address::parse(text)?;
            let socket = address.socket();
            if socket.port() != 0 && addresses.iter().any(|other| other.socket() == socket) {
                return Err(Problem::Range(format!("{socket} is listed twice; keep one of them")));
            }
            addresses.push(address);
        }
        if addresses.is_empty() {
            return Err(Problem::Range(
                "the list is empty; name at least one address, such as \"127.0.0.1:1883\"".into(),
            ));
        }
        Ok(Listen { addresses, given: true })
    }

    fn to_toml(&self) -> String {
        let items: Vec<String> = self
            .addresses
            .iter()
            .map(|address| match address {
                Address::Tcp(socket) => format!("\"{socket}\""),
                Address::WebSocket(..) => format!("\"{address}\""),
            })
            .collect();
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
