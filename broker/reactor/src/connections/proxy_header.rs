//! Reads the PROXY header, with which a proxy names its client. It precedes everything else, even TLS.
//!
//! The input is peeked at in the kernel, and only the header is consumed; the rest is for the next layer. So an incomplete header needs no
//! buffer here.

use std::fmt;
use std::io::{self, Read};

use mio::net::TcpStream;
use tautwire_engine::{Certificate, ConnectionId, Peer, Shard};
use tautwire_proxy::{HEADER_MAX_BYTES, ParsedHeader, ProxyHeader, parse};
use tautwire_session::Journal;

use super::{Connections, address_of};

/// The result of peeking at a socket.
enum PeekResult {
    ProxyHeader(ProxyHeader, usize),
    /// The header is incomplete.
    Nothing,
    /// The peer has closed, or has sent something invalid.
    End,
}

impl Connections {
    /// Reads the header if it is complete, and then the input after it.
    pub(super) fn read_proxy_header<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId) {
        let Some(socket) = self.sockets.get(id) else { return };
        match peek(&mut socket.stream) {
            Ok(PeekResult::ProxyHeader(header, len)) => {
                shard.counters().bytes_received.add(len as u64);
                shard.counters().proxy_headers.add(1);
                let accept_limiter = self.sockets.finish_proxy_header(id);
                if let Some(why) =
                    accept_limiter.as_ref().and_then(|accept_limiter| accept_limiter.refuse_header(&header))
                {
                    return self.reject_proxy_header(shard, id, &why);
                }
                if let ProxyHeader::Proxied(client) = header {
                    let peer = Peer::from(client.source);
                    if accept_limiter.is_some_and(|accept_limiter| {
                        accept_limiter.accept_proxied(peer, shard.counters(), self.now_ms).is_err()
                    }) {
                        return self.handle_peer_close(shard, id);
                    }
                    let certificate = client.common_name.map(Certificate::CommonName);
                    shard.update_origin(id, |origin| {
                        origin.set_proxied_peer(peer);
                        if client.is_encrypted {
                            origin.set_encrypted(certificate);
                        }
                        log::debug!("listener {}: a proxy speaks for {peer}", origin.listener());
                    });
                }
                self.read_or_queue(shard, id);
            }
            // After the end of the input there is no further event.
            Ok(PeekResult::Nothing) if !socket.stage.has_ended() => {}
            Ok(PeekResult::Nothing | PeekResult::End) => self.handle_peer_close(shard, id),
            Err(error) => self.reject_proxy_header(shard, id, &error),
        }
    }

    fn reject_proxy_header<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId, why: &dyn fmt::Display) {
        shard.counters().proxy_headers_refused.add(1);
        if let Some(origin) = shard.origin(id) {
            let address = address_of(&origin);
            log::info!(
                listener = &**origin.listener(), address = &*address;
                "refused connection: PROXY header rejected: {why}"
            );
        }
        self.handle_peer_close(shard, id);
    }
}

fn peek(stream: &mut TcpStream) -> Result<PeekResult, tautwire_proxy::ProxyHeaderError> {
    let mut bytes = [0; HEADER_MAX_BYTES];
    let count = loop {
        match stream.peek(&mut bytes) {
            Ok(0) => return Ok(PeekResult::End),
            Ok(count) => break count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(PeekResult::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Ok(PeekResult::End),
        }
    };
    let Some(ParsedHeader { header, len }) = parse(&bytes[..count])? else { return Ok(PeekResult::Nothing) };
    Ok(if stream.read_exact(&mut bytes[..len]).is_ok() {
        PeekResult::ProxyHeader(header, len)
    } else {
        PeekResult::End
    })
}
