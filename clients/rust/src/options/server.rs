use std::fmt;

use crate::Error;

/// The transport to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheme {
    /// `mqtt://`: plain TCP.
    Mqtt,
    /// `mqtts://`: TLS.
    Mqtts,
    /// `ws://`: WebSocket.
    Ws,
    /// `wss://`: WebSocket over TLS.
    Wss,
    /// `unix:`: a Unix socket.
    Unix,
}

/// The address of a server, parsed.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// The transport.
    pub scheme: Scheme,
    /// Name or address, without the brackets of IPv6. Empty for a Unix socket.
    pub host: String,
    /// TCP port. 0 for a Unix socket.
    pub port: u16,
    /// Path of the WebSocket, beginning with a slash, or the file of the Unix socket.
    pub path: String,
}

impl Scheme {
    /// Whether bytes are encrypted.
    pub const fn is_tls(self) -> bool {
        matches!(self, Scheme::Mqtts | Scheme::Wss)
    }

    /// Whether packets are sent in WebSocket frames.
    pub const fn is_websocket(self) -> bool {
        matches!(self, Scheme::Ws | Scheme::Wss)
    }

    const fn default_port(self) -> u16 {
        match self {
            Scheme::Mqtt => 1883,
            Scheme::Mqtts => 8883,
            Scheme::Ws => 80,
            Scheme::Wss => 443,
            Scheme::Unix => 0,
        }
    }
}

impl Server {
    /// Parses `SCHEME://HOST[:PORT][/PATH]` or `unix:PATH`; see [`crate::Options::new`].
    ///
    /// # Errors
    /// [`Error::Options`] with the reason.
    pub fn parse(address: &str) -> Result<Server, Error> {
        let wrong = |what: &str| Error::Options(format!("{}: {what}", shown(address)));
        // The second form is for programs that accept only URLs.
        if let Some(path) = address.strip_prefix("unix:").or_else(|| address.strip_prefix("mqtt+unix://")) {
            return match path {
                _ if !cfg!(unix) => Err(wrong("this system does not support Unix sockets")),
                "" => Err(wrong("the path of the socket is missing; write it as unix:/PATH")),
                // A host is not allowed here.
                path if path.starts_with("//") || (address.contains("://") && !path.starts_with('/')) => {
                    Err(wrong("a Unix socket has no host; write it as unix:/PATH"))
                }
                path => {
                    let (scheme, path) = (Scheme::Unix, path.to_owned());
                    Ok(Server { scheme, host: String::new(), port: scheme.default_port(), path })
                }
            };
        }
        let Some((scheme, rest)) = address.split_once("://") else {
            return Err(wrong("the scheme is missing; write it as in mqtt://127.0.0.1:1883"));
        };
        let scheme = match scheme {
            "mqtt" | "tcp" => Scheme::Mqtt,
            "mqtts" | "ssl" => Scheme::Mqtts,
            "ws" => Scheme::Ws,
            "wss" => Scheme::Wss,
            _ => return Err(wrong("the scheme must be mqtt, mqtts, ws or wss, or the address unix:/PATH")),
        };
        if scheme.is_tls() && !cfg!(feature = "tls") {
            return Err(wrong("TLS requires the feature `tls`"));
        }
        if scheme.is_websocket() && !cfg!(feature = "websocket") {
            return Err(wrong("WebSocket requires the feature `websocket`"));
        }
        let (authority, path) = match rest.find(['/', '?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(wrong("an address cannot contain user name and password; set them as options"));
        }
        if !scheme.is_websocket() && !matches!(path, "" | "/") {
            return Err(wrong("only ws:// and wss:// addresses have a path"));
        }
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7F) {
            return Err(wrong("the path contains a space or a control character"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) = bracketed.split_once(']').ok_or_else(|| wrong("a bracket is not closed"))?;
                (host, after.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            Some(port) => {
                port.parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong("the port must be 1 to 65535"))?
            }
            None => scheme.default_port(),
        };
        if host.is_empty() || host.bytes().any(|byte| byte <= b' ' || byte == 0x7F) {
            return Err(wrong("the host is missing or invalid"));
        }
        // The default path of brokers.
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/mqtt{path}") };
        Ok(Server { scheme, host: host.to_owned(), port, path })
    }

    /// `HOST:PORT`, or `unix:PATH`.
    pub(crate) fn authority(&self) -> String {
        if self.scheme == Scheme::Unix {
            format!("unix:{}", self.path)
        } else if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority())
    }
}

impl fmt::Debug for Server {
    /// Omits the query, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match self.scheme {
            Scheme::Unix => &self.path,
            _ => self.path.split('?').next().unwrap_or_default(),
        };
        let Server { scheme, host, port, .. } = self;
        let mut server = f.debug_struct("Server");
        server.field("scheme", scheme).field("host", host).field("port", port).field("path", &path).finish()
    }
}

/// An address for an error message: without user name, password and query.
fn shown(address: &str) -> String {
    let is_scheme = |text: &&str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'+');
    let scheme = address.split_once("://").map(|(scheme, _)| scheme).filter(is_scheme);
    match scheme {
        // In an invalid address it is unclear where a password ends.
        Some(scheme) if address.contains('@') => format!("{scheme}://…"),
        None if address.contains('@') => "…".to_owned(),
        _ => address.split('?').next().unwrap_or_default().escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(address: &str) -> (String, u16) {
        let server = Server::parse(address).expect("an address");
        (server.host, server.port)
    }

    #[test]
    fn addresses_are_host_and_port() {
        assert_eq!(parsed("mqtt://localhost"), ("localhost".into(), 1883));
        assert_eq!(parsed("mqtt://10.0.0.1:99/"), ("10.0.0.1".into(), 99));
        assert_eq!(parsed("mqtt://[::1]:99"), ("::1".into(), 99));
        assert_eq!(parsed("tcp://[::1]"), ("::1".into(), 1883));
        assert_eq!(Server::parse("mqtt://[::1]:99").expect("an address").authority(), "[::1]:99");
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for address in [
            "localhost",
            "http://x",
            "mqtt://",
            "mqtt://:1",
            "mqtt://h:0",
            "mqtt://h:x",
            "mqtt://h/p",
            "mqtt://h?p",
            "mqtt://h#p",
            "mqtt://u@h",
            "mqtt://[::1",
        ] {
            assert!(Server::parse(address).is_err(), "{address}");
        }
    }

    #[test]
    fn debug_output_has_no_secrets_of_an_address() {
        for address in [
            "mqtt://u:secret@h",
            "mqtt://u:se/secret@h",
            "mqtt://u:?secret@h:1",
            "u:secret@h",
            "secret@x://h",
            "http://u:secret@h",
            "ws://h x?token=secret",
            "mqtt://secret:secret@h:x",
        ] {
            let error = Server::parse(address).expect_err("the address is invalid");
            for shown in [error.to_string(), format!("{error:?}")] {
                assert!(!shown.contains("secret"), "{shown}");
            }
        }
        let error = Server::parse("127.0.0.1:1883").expect_err("no scheme").to_string();
        assert!(error.contains("127.0.0.1:1883: the scheme is missing; write it as in mqtt://"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_unix_socket_is_a_file() {
        for (address, path) in
            [("unix:/run/b.sock", "/run/b.sock"), ("mqtt+unix:///run/b.sock", "/run/b.sock"), ("unix:b.sock", "b.sock")]
        {
            let server = Server::parse(address).expect("an address");
            assert_eq!((server.scheme, &*server.host, server.port, &*server.path), (Scheme::Unix, "", 0, path));
            assert_eq!(server.to_string(), format!("unix:{path}"));
        }
        for address in ["unix:", "unix://host/b.sock", "mqtt+unix://", "mqtt+unix://host/b.sock"] {
            assert!(Server::parse(address).is_err(), "{address}");
        }
    }

    #[cfg(feature = "websocket")]
    #[test]
    fn a_websocket_has_a_path() {
        let server = Server::parse("ws://h/x?y").expect("an address");
        assert_eq!((server.port, server.path.as_str()), (80, "/x?y"));
        assert_eq!(Server::parse("ws://h").expect("an address").path, "/mqtt");
        assert_eq!(Server::parse("ws://h?y=/x").expect("an address").path, "/mqtt?y=/x");
        assert!(Server::parse("ws://h/x y").is_err());
        let server = Server::parse("ws://h/x?token=secret").expect("an address");
        assert!(!format!("{server:?}").contains("secret"));
    }
}
