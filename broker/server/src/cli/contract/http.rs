//! Requests to the admin API.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use super::super::{Exit, Stop};
use crate::json::{self, Value};

/// Time for connecting, and for each read and write.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer.
const ANSWER_MAX_BYTES: u64 = 64 * 1024 * 1024;
const FIELDS_MAX: usize = 64;

/// An admin API.
pub(in crate::cli) struct Admin {
    /// Host and port.
    authority: String,
    token: String,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// What it answered.
pub(in crate::cli) struct Answer {
    pub(in crate::cli) status: u16,
    pub(in crate::cli) body: String,
}

impl Admin {
    /// The one at `url`, with the token in `token_file`.
    ///
    /// # Errors
    /// What is wrong with the file or the address.
    pub(in crate::cli) fn open(url: &str, token_file: &Path) -> Result<Admin, String> {
        Admin::new(url, crate::admin::read_token(token_file)?)
    }

    /// # Errors
    /// What is wrong with the address.
    fn new(url: &str, token: String) -> Result<Admin, String> {
        let authority = url.strip_prefix("http://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        let has_port = |authority: &&str| {
            authority.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        match authority.filter(has_port).filter(|authority| !authority.contains(['/', '\r', '\n', ' '])) {
            Some(authority) => Ok(Admin { authority: authority.to_owned(), token }),
            None => Err(format!("{url:?} is not an address of the API; write it like http://127.0.0.1:9183")),
        }
    }

    /// The body of what is at `path`.
    pub(in crate::cli) fn get(&self, path: &str) -> Result<String, Stop> {
        let answer = self.ask("GET", path, "")?;
        if answer.status == 200 { Ok(answer.body) } else { Err(answer.refusal()) }
    }

    pub(in crate::cli) fn ask(&self, method: &str, path: &str, body: &str) -> Result<Answer, Stop> {
        let lost = |error: std::io::Error| {
            Stop::failure(Exit::Connection, format!("the admin API at {}: {error}", self.authority))
        };
        let mut stream = self.connect().map_err(lost)?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.authority,
            self.token,
            body.len()
        );
        // A server that refuses early does not read to the end; its answer says more than the failure to write.
        let written = stream.write_all(request.as_bytes());
        let mut bytes = Vec::new();
        let read = stream.take(ANSWER_MAX_BYTES).read_to_end(&mut bytes);
        match Answer::read(&bytes) {
            Some(answer) => Ok(answer),
            None => {
                written.and(read).map_err(lost)?;
                Err(Stop::failure(Exit::Connection, format!("{} does not speak HTTP, or ended early", self.authority)))
            }
        }
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the host name has no address");
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

impl Answer {
    /// An answer that has come whole.
    fn read(bytes: &[u8]) -> Option<Answer> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let Ok(httparse::Status::Complete(body_at)) = response.parse(bytes) else { return None };
        let length = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
        let length: usize = match length {
            Some(field) => str::from_utf8(field.value).ok()?.trim().parse().ok()?,
            None => bytes.len() - body_at,
        };
        let body = bytes.get(body_at..body_at.checked_add(length)?)?;
        Some(Answer { status: response.code?, body: str::from_utf8(body).ok()?.to_owned() })
    }

    /// What the API says is wrong, a line for each thing.
    pub(in crate::cli) fn refusal(&self) -> Stop {
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
        Stop::failure(exit, errors.join("\ntautwire: "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        let new = |url| Admin::new(url, "token".to_owned());
        assert_eq!(new("http://127.0.0.1:9183/").map(|admin| admin.authority).as_deref(), Ok("127.0.0.1:9183"));
        assert_eq!(new("http://[::1]:9183").map(|admin| admin.authority).as_deref(), Ok("[::1]:9183"));
        for wrong in ["127.0.0.1:9183", "https://a:1", "http://a", "http://a:1/x", "http://a b:1", "http://:1"] {
            assert!(new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_must_have_come_whole() {
        let read = |text: &str| Answer::read(text.as_bytes()).map(|answer| (answer.status, answer.body));
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), Some((200, "{}".to_owned())));
        assert_eq!(read("HTTP/1.1 204 No Content\r\n\r\n"), Some((204, String::new())));
        for part in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", "220 ready\r\n\r\n"] {
            assert_eq!(read(part), None, "{part}");
        }
    }
}
