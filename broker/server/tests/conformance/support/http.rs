//! A minimal HTTP client for the tests of the admin API.

use std::io::{ErrorKind, Read, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::client::EXPECT_TIMEOUT;

/// The token of brokers under test.
pub(crate) const TOKEN: &str = "a-token-for-tests-0123456789";

/// A response of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Status line and fields.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A request with the token.
#[track_caller]
pub(crate) fn admin(address: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: admin\r\nAuthorization: Bearer {TOKEN}\r\nAccept: application/json\r\n\
         {length}\r\n{body}"
    );
    exchange(address, request.as_bytes())
}

/// A request with the token, a body, and header fields, each with its line end.
#[track_caller]
pub(crate) fn post(address: SocketAddr, path: &str, fields: &str, body: &[u8]) -> Answer {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: admin\r\nAuthorization: Bearer {TOKEN}\r\n{fields}Content-Length: {}\r\n\r\n",
        body.len()
    );
    exchange(address, &[head.as_bytes(), body].concat())
}

/// Sends these bytes and reads the response.
#[track_caller]
pub(crate) fn exchange(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = dial(address);
    // A server that rejects early need not read everything.
    let _ = stream.write_all(request);
    Answer::read(&answer_bytes(&mut stream, false))
}

/// A connection to the admin API.
#[track_caller]
pub(crate) fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the admin API accepts connections");
    stream.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("a positive time is a valid timeout");
    stream
}

/// Reads exactly one response, delimited by its length or by the end of the connection.
#[track_caller]
pub(crate) fn answer_bytes(stream: &mut impl Read, is_of_head: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => panic!("no answer: {:?}", String::from_utf8_lossy(&bytes)),
            Ok(_) => bytes.extend_from_slice(&byte),
            // With a timeout the kernel does not restart the call of a process that was stopped.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("no response arrives: {error}"),
        }
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let status = head.split(' ').nth(1).unwrap_or_default();
    if is_of_head || matches!(status, "204" | "304") {
        return bytes;
    }
    let length = field(&head, "content-length").and_then(|digits| digits.parse().ok());
    let length: usize = length.unwrap_or_else(|| panic!("no length: {head}"));
    let at = bytes.len();
    bytes.resize(at + length, 0);
    stream.read_exact(&mut bytes[at..]).expect("the body arrives");
    bytes
}

/// The value of a header field; the case of its name does not matter.
pub(crate) fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(named, _)| named.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

impl Answer {
    #[track_caller]
    pub(crate) fn read(bytes: &[u8]) -> Answer {
        let text = str::from_utf8(bytes).expect("answers are text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Fails unless the status is this one.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        self
    }

    /// The number under a name of a flat JSON object.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        let (_, rest) = self.body.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name}"));
        let digits = rest.split(|character: char| !character.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok()).expect("a number")
    }
}

/// A request without the token, with these header fields, each with its line end.
#[track_caller]
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, fields: &str, body: &str) -> Answer {
    let length = format!("Content-Length: {}\r\n", body.len());
    exchange(address, format!("{method} {path} HTTP/1.1\r\nHost: admin\r\n{fields}{length}\r\n{body}").as_bytes())
}

/// The header field with a token.
pub(crate) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}
