//! The layers between packets and the socket: none, TLS, WebSocket, or both. Without I/O of their own.

#[cfg(feature = "websocket")]
mod websocket;

#[cfg(feature = "tls")]
use crate::tls::{TlsFailure, TlsFault, TlsLayer};
use crate::{Error, Options};

/// The layers of one connection, from the socket upwards.
pub(crate) struct Wire {
    #[cfg(feature = "tls")]
    tls: Option<TlsLayer>,
    #[cfg(feature = "websocket")]
    websocket: Option<websocket::WebSocketLayer>,
}

impl Wire {
    /// Creates the layers for the scheme of the address.
    pub(crate) fn new(options: &Options) -> Result<Wire, Error> {
        let scheme = options.server.scheme;
        #[cfg(feature = "tls")]
        if !scheme.is_tls() && !options.tls.is_default() {
            return Err(Error::Options("TLS settings are only valid for mqtts:// and wss://".into()));
        }
        if !options.headers.is_empty() && !scheme.is_websocket() {
            return Err(Error::Options("WebSocket headers are only valid for ws:// and wss://".into()));
        }
        Ok(Wire {
            #[cfg(feature = "tls")]
            tls: if scheme.is_tls() { Some(TlsLayer::new(&options.tls, &options.server.host)?) } else { None },
            #[cfg(feature = "websocket")]
            websocket: scheme.is_websocket().then(|| websocket::WebSocketLayer::new(options)),
        })
    }

    /// Whether packets are written to the socket unchanged.
    pub(crate) fn is_plain(&self) -> bool {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return false;
        }
        #[cfg(feature = "websocket")]
        if self.websocket.is_some() {
            return false;
        }
        true
    }

    /// The error if the server closes the connection without DISCONNECT.
    pub(crate) fn ended(&self) -> Error {
        #[cfg(feature = "tls")]
        if self.tls.as_ref().is_some_and(|tls| !tls.is_ready()) {
            return Error::Tls(TlsFailure::new(TlsFault::Closed, "or this is not its TLS port"));
        }
        Error::lost("the server closed it")
    }

    /// Whether packets may be sent: all handshakes are complete.
    pub(crate) fn is_ready(&self) -> bool {
        #[cfg(feature = "websocket")]
        if let Some(websocket) = &self.websocket {
            return websocket.is_ready();
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.is_ready();
        }
        true
    }

    /// Writes the first bytes of the connection.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        #[cfg(feature = "websocket")]
        let first = self.websocket.as_ref().map(websocket::WebSocketLayer::request).unwrap_or_default();
        #[cfg(not(feature = "websocket"))]
        let first: Vec<u8> = Vec::new();
        self.encrypt(&first, out)
    }

    /// Encodes `packets` for the socket.
    pub(crate) fn encode(&mut self, packets: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        #[cfg(feature = "websocket")]
        if let Some(websocket) = &mut self.websocket {
            let mut framed = Vec::with_capacity(packets.len() + 16);
            websocket.frame(packets, &mut framed);
            return self.encrypt(&framed, out);
        }
        self.encrypt(packets, out)
    }

    /// Decodes packets from received bytes. Replies of the layers are written to `out`.
    pub(crate) fn decode(&mut self, bytes: &[u8], packets: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), Error> {
        #[cfg(feature = "tls")]
        let decrypted = match &mut self.tls {
            Some(tls) => Some(tls.decrypt(bytes, out)?),
            None => None,
        };
        #[cfg(feature = "tls")]
        let bytes = decrypted.as_deref().unwrap_or(bytes);
        #[cfg(feature = "websocket")]
        if let Some(websocket) = &mut self.websocket {
            let mut answer = Vec::new();
            let read = websocket.read(bytes, packets, &mut answer);
            if !answer.is_empty() {
                self.encrypt(&answer, out)?;
            }
            return read;
        }
        let _ = out;
        packets.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the closing bytes of the layers, after the last packet.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        #[cfg(feature = "websocket")]
        if let Some(websocket) = &mut self.websocket {
            let mut close = Vec::new();
            websocket.close(&mut close);
            self.encrypt(&close, out)?;
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            tls.close(out)?;
        }
        let _ = out;
        Ok(())
    }

    fn encrypt(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.encrypt(bytes, out);
        }
        out.extend_from_slice(bytes);
        Ok(())
    }
}
