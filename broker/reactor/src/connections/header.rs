//! The header by which a proxy says whom it speaks for. It comes before everything else, TLS among it.
//!
//! What has come is looked at where it is, in the kernel, and only the header is taken: what is behind it is for whoever comes next. So a connection
//! that has not sent all of it keeps nothing here.

use std::fmt;
use std::io::{self, Read};

use mio::net::TcpStream;
use tautwire_engine::{Certificate, ConnectionId, Peer, Shard};
use tautwire_proxy::{HEADER_MAX_BYTES, Header, Parsed, parse};
use tautwire_session::Journal;

use super::{Connections, address_of};

/// What a look at a socket has found.
enum Look {
    Header(Header, usize),
    /// More must come.
    Nothing,
    /// The peer is gone, or nothing that it could say would help.
    End,
}

impl Connections {
    /// Reads the header, if it is there, and then what is behind it.
    pub(super) fn hear_header<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId) {
        let Some(socket) = self.sockets.get(id) else { return };
        match look(&mut socket.stream) {
            Ok(Look::Header(header, len)) => {
                shard.counters().bytes_received.add(len as u64);
                shard.counters().proxy_headers.add(1);
                let gate = self.sockets.end_of_header(id);
                if let Some(why) = gate.as_ref().and_then(|gate| gate.refuse_header(&header)) {
                    return self.refuse_header(shard, id, &why);
                }
                if let Header::Proxied(client) = header {
                    let peer = Peer::from(client.source);
                    if gate.is_some_and(|gate| gate.arrive_by_proxy(peer, shard.counters(), self.now_ms).is_err()) {
                        return self.lose(shard, id);
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
                self.hear(shard, id);
            }
            // There is no further event once the end has come.
            Ok(Look::Nothing) if !socket.stage.has_ended() => {}
            Ok(Look::Nothing | Look::End) => self.lose(shard, id),
            Err(error) => self.refuse_header(shard, id, &error),
        }
    }

    fn refuse_header<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId, why: &dyn fmt::Display) {
        shard.counters().proxy_headers_refused.add(1);
        if let Some(origin) = shard.origin(id) {
            let address = address_of(&origin);
            log::info!(
                listener = &**origin.listener(), address = &*address;
                "refused connection: the PROXY header was refused: {why}"
            );
        }
        self.lose(shard, id);
    }
}

fn look(stream: &mut TcpStream) -> Result<Look, tautwire_proxy::Fault> {
    let mut bytes = [0; HEADER_MAX_BYTES];
    let count = loop {
        match stream.peek(&mut bytes) {
            Ok(0) => return Ok(Look::End),
            Ok(count) => break count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Look::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Ok(Look::End),
        }
    };
    let Some(Parsed { header, len }) = parse(&bytes[..count])? else { return Ok(Look::Nothing) };
    Ok(if stream.read_exact(&mut bytes[..len]).is_ok() { Look::Header(header, len) } else { Look::End })
}
