//! Accepting connections, also when descriptors run out.

use std::fs::File;
use std::io;
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream};

/// Descriptor kept free so that a connection can be accepted and closed when there are no others: left in the queue it
/// would be reported for ever and the client would wait.
#[derive(Debug)]
pub(crate) struct Reserve(Option<File>);

impl Reserve {
    pub(crate) fn new() -> Reserve {
        Reserve(File::open("/dev/null").ok())
    }
}

/// What became of an attempt to accept.
pub(crate) enum Accepted {
    Connection(TcpStream, SocketAddr),
    /// A connection was closed at once for want of descriptors.
    Refused,
    /// Nobody waits.
    None,
}

pub(crate) fn accept(listener: &TcpListener, reserve: &mut Reserve) -> io::Result<Accepted> {
    loop {
        return match listener.accept() {
            Ok((stream, peer)) => {
                // Small packets must not wait for acknowledgements of earlier ones.
                let _ = stream.set_nodelay(true);
                Ok(Accepted::Connection(stream, peer))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Accepted::None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The peer gave up while it waited.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) if is_out_of_descriptors(&error) => {
                reserve.0 = None;
                let refused = listener.accept().is_ok();
                reserve.0 = File::open("/dev/null").ok();
                if refused { Ok(Accepted::Refused) } else { Err(error) }
            }
            Err(error) => Err(error),
        };
    }
}

/// EMFILE or ENFILE.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}
