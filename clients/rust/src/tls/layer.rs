//! A TLS connection by rustls, without I/O of its own.

use std::io::{Cursor, Read as _, Write as _};

use rustls::ClientConnection;

use super::explain::explain;
use super::failure::{TlsFailure, TlsFault};
use super::settings::Tls;
use crate::Error;

pub(crate) struct TlsLayer(ClientConnection);

impl TlsLayer {
    pub(crate) fn new(tls: &Tls, host: &str) -> Result<TlsLayer, Error> {
        let name = tls.name(host)?;
        let connection = ClientConnection::new(tls.client_config()?, name);
        let mut connection = connection.map_err(|error| Error::Tls(explain(&error)))?;
        // Encrypted bytes are taken at once, so the output limits are those of the machine.
        connection.set_buffer_limit(None);
        Ok(TlsLayer(connection))
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.0.is_handshaking()
    }

    pub(crate) fn encrypt(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.0.writer().write_all(bytes).map_err(failed)?;
        self.take(out)
    }

    pub(crate) fn decrypt(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Vec<u8>, Error> {
        let mut bytes = Cursor::new(bytes);
        let mut plain = Vec::new();
        while (bytes.position() as usize) < bytes.get_ref().len() {
            if self.0.read_tls(&mut bytes).map_err(failed)? == 0 {
                break;
            }
            let processed = self.0.process_new_packets();
            // Also after a failure: the output includes the alert with the reason.
            self.take(out)?;
            let readable = processed.map_err(|error| Error::Tls(explain(&error)))?.plaintext_bytes_to_read();
            let start = plain.len();
            plain.resize(start + readable, 0);
            self.0.reader().read_exact(&mut plain[start..]).map_err(failed)?;
        }
        Ok(plain)
    }

    pub(crate) fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.0.send_close_notify();
        self.take(out)
    }

    fn take(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        while self.0.wants_write() {
            self.0.write_tls(out).map_err(failed)?;
        }
        Ok(())
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::Tls(TlsFailure::new(TlsFault::Violation, error.to_string()))
}
