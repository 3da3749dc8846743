//! A client for the admin API.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};

use super::super::{CommandExit, Exit};
use crate::json::{self, Value};

/// Timeout for connecting, and for each read and write.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Largest response.
const RESPONSE_MAX_BYTES: u64 = 64 * 1024 * 1024;
const FIELDS_MAX: usize = 64;
const REQUEST_HEAD_MAX_BYTES: usize = 64 * 1024;
/// Largest file with certificate authorities.
const CA_MAX_BYTES: usize = 4 << 20;

/// A client of an admin API.
pub(in crate::cli) struct AdminClient {
    /// Host and port.
    authority: String,
    token: String,
    /// The TLS configuration, if it uses TLS.
    tls: Option<Arc<ClientConfig>>,
}

/// A connection.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl std::fmt::Debug for AdminClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminClient").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// A response.
pub(in crate::cli) struct ApiResponse {
    pub(in crate::cli) status: u16,
    pub(in crate::cli) body: String,
}

impl AdminClient {
    /// A client for `url` with the token in `token_file`. `ca` replaces the certificate authorities of the system.
    ///
    /// # Errors
    /// A description of what is wrong with the files or the URL.
    pub(in crate::cli) fn open(url: &str, token_file: &Path, ca: Option<&Path>) -> Result<AdminClient, String> {
        AdminClient::new(url, crate::admin::read_token(token_file)?, ca)
    }

    /// # Errors
    /// A description of what is wrong with the URL or the file.
    fn new(url: &str, token: String, ca: Option<&Path>) -> Result<AdminClient, String> {
        let (is_tls, rest) = match url.strip_prefix("https://") {
            Some(rest) => (true, Some(rest)),
            None => (false, url.strip_prefix("http://")),
        };
        let authority = rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        let has_port = |authority: &&str| {
            authority.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        let Some(authority) =
            authority.filter(has_port).filter(|authority| !authority.contains(['/', '\r', '\n', ' ', '@']))
        else {
            // The URL may contain a password.
            let shown = if url.contains('@') { "the given URL" } else { url };
            return Err(format!(
                "{shown:?} is not a URL of the admin API; write it like http://127.0.0.1:9183 or https://example.org:9183"
            ));
        };
        if ca.is_some() && !is_tls {
            return Err("--ca requires a URL that begins with https://".to_owned());
        }
        let tls = is_tls.then(|| tls(ca)).transpose()?;
        Ok(AdminClient { authority: authority.to_owned(), token, tls })
    }

    /// Gets `path` and returns the body.
    pub(in crate::cli) fn get(&self, path: &str) -> Result<String, CommandExit> {
        let response = self.request("GET", path, "")?;
        if response.status == 200 { Ok(response.body) } else { Err(response.refusal()) }
    }

    /// Gets `path` and returns the body as a stream.
    pub(in crate::cli) fn open_stream(&self, path: &str) -> Result<impl BufRead + use<>, CommandExit> {
        let mut stream = self.connect().map_err(|error| self.lost(&error))?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            self.authority, self.token
        );
        stream.write_all(request.as_bytes()).map_err(|error| self.lost(&error))?;
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && head.len() < REQUEST_HEAD_MAX_BYTES {
            let count = reader.by_ref().take(REQUEST_HEAD_MAX_BYTES as u64).read_until(b'\n', &mut head);
            if count.map_err(|error| self.lost(&error))? == 0 {
                break;
            }
        }
        if head.starts_with(b"HTTP/1.1 200 ") {
            return Ok(reader);
        }
        reader.take(RESPONSE_MAX_BYTES).read_to_end(&mut head).map_err(|error| self.lost(&error))?;
        Err(ApiResponse::read(&head).map_or_else(|| self.no_http(), |response| response.refusal()))
    }

    fn lost(&self, error: &io::Error) -> CommandExit {
        CommandExit::failure(Exit::Connection, format!("the admin API at {}: {error}", self.authority))
    }

    fn no_http(&self) -> CommandExit {
        CommandExit::failure(
            Exit::Connection,
            format!("{} does not speak HTTP, or closed the connection early", self.authority),
        )
    }

    pub(in crate::cli) fn request(&self, method: &str, path: &str, body: &str) -> Result<ApiResponse, CommandExit> {
        let lost = |error| self.lost(&error);
        let mut stream = self.connect().map_err(lost)?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.authority,
            self.token,
            body.len()
        );
        // A server that refuses early does not read the whole request; its response is more useful than the write error.
        let written = stream.write_all(request.as_bytes());
        let mut bytes = Vec::new();
        let read = stream.take(RESPONSE_MAX_BYTES).read_to_end(&mut bytes);
        match ApiResponse::read(&bytes) {
            Some(response) => Ok(response),
            None => {
                written.and(read).map_err(lost)?;
                Err(self.no_http())
            }
        }
    }

    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let socket = self.connect_socket()?;
        let Some(tls) = &self.tls else { return Ok(Box::new(socket)) };
        let host = self.authority.rsplit_once(':').map_or(&*self.authority, |(host, _)| host);
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(tls.clone(), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, socket);
        // Complete the handshake first, so that a certificate error is reported instead of a write error.
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Box::new(stream))
    }

    fn connect_socket(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
        for address in self.authority.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(TIMEOUT))?;
                    stream.set_write_timeout(Some(TIMEOUT))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// A TLS configuration that trusts the authorities in `ca`, or those of the system.
fn tls(ca: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let certificates = match ca {
        None => rustls_native_certs::load_native_certs().certs,
        Some(path) => {
            let failed = |why: &dyn std::fmt::Display| format!("the CA file {} {why}", path.display());
            let bytes = crate::files::bytes(path, CA_MAX_BYTES).map_err(|why| failed(&why))?;
            let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
            found.map_err(|error| failed(&format!("is not PEM: {error}")))?
        }
    };
    let mut authorities = RootCertStore::empty();
    if authorities.add_parsable_certificates(certificates).0 == 0 {
        return Err(match ca {
            Some(path) => format!("{} contains no certificate", path.display()),
            None => "the system has no trusted certificate authorities; use --ca FILE".to_owned(),
        });
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(authorities).with_no_client_auth()))
}

impl ApiResponse {
    /// Parses a response; `None` if it is incomplete.
    fn read(bytes: &[u8]) -> Option<ApiResponse> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let Ok(httparse::Status::Complete(body_at)) = response.parse(bytes) else { return None };
        let length = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
        let length: usize = match length {
            Some(field) => str::from_utf8(field.value).ok()?.trim().parse().ok()?,
            None => bytes.len() - body_at,
        };
        let body = bytes.get(body_at..body_at.checked_add(length)?)?;
        Some(ApiResponse { status: response.code?, body: str::from_utf8(body).ok()?.to_owned() })
    }

    /// The errors of the API, one line each.
    pub(in crate::cli) fn refusal(&self) -> CommandExit {
        let value = json::parse(&self.body).unwrap_or(Value::Null);
        let line = |error: &Value| {
            let mut line = String::new();
            if !error.text("file").is_empty() {
                line.push_str(error.text("file"));
                for name in ["line", "column"] {
                    if let Some(Value::Number(number)) = error.get(name) {
                        line.push_str(&format!(":{number}"));
                    }
                }
                line.push_str(": ");
            }
            format!("{line}{} [{}]", error.text("message"), error.text("code"))
        };
        let errors = match value.list("errors") {
            [] if value.get("message").is_some() => vec![line(&value)],
            [] => vec![format!("the admin API answered with status {}", self.status)],
            errors => errors.iter().map(line).collect(),
        };
        let exit = if self.status >= 500 { Exit::Connection } else { Exit::Refused };
        CommandExit::failure(exit, errors.join("\ntautwire: "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_validated() {
        let new = |url| AdminClient::new(url, "token".to_owned(), None);
        assert_eq!(new("http://127.0.0.1:9183/").map(|admin| admin.authority).as_deref(), Ok("127.0.0.1:9183"));
        assert_eq!(new("http://[::1]:9183").map(|admin| admin.authority).as_deref(), Ok("[::1]:9183"));
        for wrong in [
            "127.0.0.1:9183",
            "https://a",
            "http://ann:secret@a:1",
            "http://a",
            "http://a:1/x",
            "http://a b:1",
            "http://:1",
        ] {
            let error = new(wrong).expect_err(wrong);
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn truncated_responses_are_refused() {
        let read = |text: &str| ApiResponse::read(text.as_bytes()).map(|response| (response.status, response.body));
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), Some((200, "{}".to_owned())));
        assert_eq!(read("HTTP/1.1 204 No Content\r\n\r\n"), Some((204, String::new())));
        for part in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", "220 ready\r\n\r\n"] {
            assert_eq!(read(part), None, "{part}");
        }
    }
}
