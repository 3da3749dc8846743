//! The HTTP client for hooks, keys and telemetry.

use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tautwire_identity::{HttpClient, HttpRequest, HttpRequestError, HttpResponse};
use ureq::http::HeaderValue;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body, Error, http};

/// Limit for idle connections to one server.
const IDLE_PER_HOST_MAX: usize = 16;
/// Limit for all idle connections.
const IDLE_MAX: usize = 32;
/// How long an idle connection is kept.
const IDLE_AGE: Duration = Duration::from_secs(30);
/// Largest accepted response head.
const REQUEST_HEAD_MAX_BYTES: usize = 16 << 10;

/// A plain HTTP client: connections, TLS, deadlines. No proxies, redirects or cookies.
#[derive(Debug)]
pub(crate) struct UreqClient(Agent);

impl UreqClient {
    /// Trusts these certificate authorities (DER), or those of the system if none are given.
    pub(crate) fn new(authorities: &[Vec<u8>]) -> UreqClient {
        if !authorities.is_empty() {
            return UreqClient::with_root_certificates(
                authorities.iter().map(|certificate| Certificate::from_der(certificate).to_owned()),
            );
        }
        let system = rustls_native_certs::load_native_certs();
        for error in &system.errors {
            log::warn!("cannot read some certificate authorities of the system: {error}");
        }
        UreqClient::with_root_certificates(
            system.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()),
        )
    }

    /// For `http://` URLs only: trusts no certificate.
    pub(crate) fn without_tls() -> UreqClient {
        UreqClient::with_root_certificates([])
    }

    fn with_root_certificates(authorities: impl IntoIterator<Item = Certificate<'static>>) -> UreqClient {
        let authorities: Vec<Certificate<'static>> = authorities.into_iter().collect();
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::Specific(Arc::new(authorities)))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            // Environment variables must not decide where passwords are sent.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("tautwire/", env!("CARGO_PKG_VERSION")))
            .max_response_header_size(REQUEST_HEAD_MAX_BYTES)
            .max_idle_connections(IDLE_MAX)
            .max_idle_connections_per_host(IDLE_PER_HOST_MAX)
            .max_idle_age(IDLE_AGE)
            .build();
        UreqClient(config.new_agent())
    }

    fn send(&self, request: &HttpRequest<'_>) -> Result<http::Response<Body>, Error> {
        let timeout = Some(Duration::from_millis(request.timeout_ms));
        let mut head = http::Request::builder().uri(request.url).header("accept", "application/json");
        for (name, value) in request.fields {
            let mut value = HeaderValue::from_bytes(value.expose()).map_err(http::Error::from)?;
            // Keeps the value out of logs.
            value.set_sensitive(true);
            head = head.header(&**name, value);
        }
        match request.body {
            Some(body) => {
                let request = head.method("POST").header("content-type", "application/json").body(body.expose())?;
                self.0.run(self.0.configure_request(request).timeout_global(timeout).build())
            }
            None => {
                let request = head.method("GET").body(())?;
                self.0.run(self.0.configure_request(request).timeout_global(timeout).build())
            }
        }
    }
}

/// Reads the certificate authorities in the files of the key `key`, in DER, for [`UreqClient::new`].
///
/// # Errors
/// A file cannot be read, or has no certificate: otherwise the authorities of the system would be trusted instead.
pub(crate) fn read_authorities<'p>(key: &str, paths: impl Iterator<Item = &'p Path>) -> Result<Vec<Vec<u8>>, String> {
    let mut authorities = Vec::new();
    for path in paths {
        let wrong = |why: &dyn fmt::Display| format!("{key}: {}: {why}", path.display());
        let before = authorities.len();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))? {
            authorities.push(certificate.map_err(|error| wrong(&error))?.to_vec());
        }
        if authorities.len() == before {
            return Err(wrong(&"has no certificate"));
        }
    }
    Ok(authorities)
}

impl HttpClient for UreqClient {
    fn request(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, HttpRequestError> {
        let mut answer = self.send(request).map_err(failure)?;
        let mut body = Vec::new();
        let limit = request.response_bytes_max as u64;
        let read = answer.body_mut().as_reader().take(limit + 1).read_to_end(&mut body);
        read.map_err(|error| failure(Error::from(error)))?;
        if body.len() as u64 > limit {
            return Err(HttpRequestError::TooLarge);
        }
        let retry_after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after_s = retry_after.and_then(|text| text.trim().parse().ok());
        Ok(HttpResponse { status: answer.status().as_u16(), body, retry_after_s })
    }
}

fn failure(error: Error) -> HttpRequestError {
    match error {
        Error::Timeout(_) => HttpRequestError::Timeout,
        error => HttpRequestError::Unreachable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use tautwire_identity::Secret;

    use super::*;

    /// Serves one connection, and returns the request.
    fn serve(answer: &'static [u8]) -> (String, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/auth", listener.local_addr().expect("an address"));
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a connection");
            let mut reader = BufReader::new(&stream);
            let (mut request, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a number");
                }
                request.push_str(&line);
                if line == "\r\n" {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            request.push_str(str::from_utf8(&body).expect("text"));
            (&stream).write_all(answer).expect("it is written");
            request
        });
        (url, server)
    }

    fn request<'r>(url: &'r str, body: Option<&'r Secret>, fields: &'r [(Box<str>, Secret)]) -> HttpRequest<'r> {
        HttpRequest { url, fields, body, timeout_ms: 5_000, response_bytes_max: 16 }
    }

    #[test]
    fn a_request_gets_its_response() {
        let (url, server) = serve(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        let fields = [("Authorization".into(), Secret::new("Bearer x"))];
        let body = Secret::new("{\"version\":1}");
        let answer = UreqClient::new(&[]).request(&request(&url, Some(&body), &fields));
        assert_eq!(answer, Ok(HttpResponse::new(200, b"{}")));
        let received = server.join().expect("a request").to_ascii_lowercase();
        assert!(
            received.starts_with("post /auth http/1.1\r\n") && received.ends_with("\r\n\r\n{\"version\":1}"),
            "{received}"
        );
        assert!(
            received.contains("authorization: bearer x") && received.contains("content-type: application/json"),
            "{received}"
        );
    }

    #[test]
    fn redirects_are_responses_and_large_responses_are_refused() {
        let (url, server) = serve(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(UreqClient::new(&[]).request(&request(&url, None, &[])).map(|answer| answer.status), Ok(302));
        assert!(server.join().expect("a request").starts_with("GET /auth"));
        let (url, _) = serve(b"HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n0123456789abcdefg");
        assert_eq!(UreqClient::new(&[]).request(&request(&url, None, &[])), Err(HttpRequestError::TooLarge));
    }

    #[test]
    fn retry_after_is_a_number_of_seconds() {
        for (field, expected) in [("120", Some(120)), ("Fri, 31 Dec 1999 23:59:59 GMT", None), ("-1", None)] {
            let answer = format!("HTTP/1.1 503 Later\r\nretry-after: {field}\r\ncontent-length: 0\r\n\r\n");
            let (url, _) = serve(answer.leak().as_bytes());
            let answer = UreqClient::without_tls().request(&request(&url, None, &[])).expect("an answer");
            assert_eq!((answer.status, answer.retry_after_s), (503, expected), "{field}");
        }
    }

    #[test]
    fn requests_time_out() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let short = HttpRequest { timeout_ms: 50, ..request(&url, None, &[]) };
        assert_eq!(UreqClient::new(&[]).request(&short), Err(HttpRequestError::Timeout));
        drop(listener);
        assert!(matches!(
            UreqClient::new(&[]).request(&request(&url, None, &[])),
            Err(HttpRequestError::Unreachable(_))
        ));
    }

    #[test]
    fn a_file_without_a_certificate_is_refused_with_key_and_name() {
        let path = std::env::temp_dir().join(format!("tautwire-authorities-{}", std::process::id()));
        std::fs::write(&path, "no certificate\n").expect("it is written");
        let refused = read_authorities("auth.https_ca", [&*path].into_iter());
        assert_eq!(refused, Err(format!("auth.https_ca: {}: has no certificate", path.display())));
        std::fs::remove_file(&path).expect("it is there");
        assert!(read_authorities("auth.https_ca", [&*path].into_iter()).is_err());
        assert_eq!(read_authorities("auth.https_ca", std::iter::empty()), Ok(Vec::new()));
    }
}
