//! Listeners: tables `[[listener]]`, and settings per listener.

mod accept_rate;
mod mount;
mod offers;
mod own;
mod proxy;
mod slow;
mod tables;
mod tls;
mod unix;

use std::net::SocketAddr;

use crate::support::http::exchange;
use crate::support::{Client, ConnectBuilder, TOKEN, Transport, V5};

/// A client that connects to this address.
pub(crate) fn connecting(address: SocketAddr, client_id: &str) -> ConnectBuilder<'_> {
    ConnectBuilder::new(Transport::Tcp(address), V5, client_id)
}

fn connect(address: SocketAddr, client_id: &str) -> Client {
    connecting(address, client_id).open()
}

/// A metric of a listener.
#[track_caller]
fn counted(admin_address: SocketAddr, metric: &str, listener: &str) -> u64 {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: admin\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let text = exchange(admin_address, request.as_bytes()).body;
    let line = format!("tautwire_listener_{metric}{{listener=\"{listener}\"}} ");
    let number = text.lines().find_map(|text| text.strip_prefix(&line));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {line}in {text}"))
}
