//! Requests that are malformed, too large, too slow or too many.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use crate::contracts::support::World;
use crate::support::http::{Answer, answer_bytes, exchange};
use crate::support::{EXPECT_TIMEOUT, TOKEN};

fn with_token(rest: &str) -> String {
    format!("PUT /contracts/new HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n{rest}")
}

#[test]
fn only_the_exact_token_is_accepted() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    let longer = format!("Bearer {TOKEN}0");
    let shorter = format!("Bearer {}", &TOKEN[1..]);
    let upper = format!("Bearer {}", TOKEN.to_uppercase());
    let basic = format!("Basic {TOKEN}");
    for wrong in ["", "Bearer", "Bearer ", "bear", TOKEN, &longer, &shorter, &upper, &basic] {
        let request = format!("GET /contracts HTTP/1.1\r\nAuthorization: {wrong}\r\n\r\n");
        let answer = exchange(address, request.as_bytes()).expect(401);
        assert!(!answer.body.contains("reading"), "{}", answer.body);
    }
    let twice = format!("GET /contracts HTTP/1.1\r\nAuthorization: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    exchange(address, twice.as_bytes()).expect(400);
    let twice = format!("GET /contracts HTTP/1.1\r\n{0}{0}\r\n", format_args!("Authorization: Bearer {TOKEN}\r\n"));
    exchange(address, twice.as_bytes()).expect(400);
    // With a wrong token the body is not read, so it takes no memory.
    let request = "PUT /contracts/new HTTP/1.1\r\nAuthorization: Bearer no\r\nContent-Length: 99999999\r\n\r\n";
    exchange(address, request.as_bytes()).expect(401);
}

#[test]
fn invalid_and_ambiguous_requests_are_refused() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    for (request, status) in [
        ("\u{10}\0\u{4}MQTT\u{4}\u{2}\0<\0\0".to_owned(), 400),
        ("GET\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65)), 431),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(9_000)), 431),
        (format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(20_000)), 431),
        (with_token("\r\n{}"), 411),
        (with_token("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), 400),
        (with_token("Content-Length: 3\r\nContent-Length: 2\r\n\r\n{}"), 400),
        // The same length twice is unambiguous (RFC 9112, section 6.3).
        (with_token("Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"), 422),
        (with_token("Content-Length: 2\r\nContent-Type: a/b\r\nContent-Type: a/b\r\n\r\n{}"), 400),
        (with_token("Content-Length: +2\r\n\r\n{}"), 400),
        (with_token("Content-Length: -2\r\n\r\n{}"), 400),
        (with_token("Content-Length: 2, 2\r\n\r\n{}"), 400),
        (with_token("Content-Length: 99999999999999999999999\r\n\r\n{}"), 400),
        (with_token("Content-Length: 9000000\r\n\r\n{}"), 413),
        (with_token("Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 501),
        (with_token("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}"), 501),
        (with_token("Content-Length: 2\r\nExpect: the-unexpected\r\n\r\n{}"), 417),
        (with_token("Content-Length: 1\r\n\r\n{"), 400),
        (with_token("Content-Length: 2\r\n\r\n{}"), 422),
        (with_token(&format!("Content-Length: 1000000\r\n\r\n{}", "[".repeat(1_000_000))), 400),
        (with_token(&format!("Content-Length: 4\r\n\r\n{}", "\u{10ffff}")), 400),
        (format!("POST /contracts HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"), 405),
        (format!("PATCH /contracts/a HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"), 405),
        ("DELETE /health HTTP/1.1\r\n\r\n".to_owned(), 405),
        (format!("GET /nothing HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"), 404),
        (format!("GET http://elsewhere/contracts HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"), 404),
    ] {
        let answer = exchange(address, request.as_bytes());
        let shown: String = request.chars().take(100).collect();
        assert_eq!(answer.status, status, "{shown:?}: {answer:?}");
        assert!(answer.body.starts_with("{\"code\":\""), "{answer:?}");
        assert!(!answer.body.contains(TOKEN));
    }
    assert_eq!(world.count("contracts"), 8);
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    let mut request = with_token("Content-Length: 2\r\n\r\n").into_bytes();
    request.extend_from_slice(b"\xff\xfe");
    assert!(exchange(address, &request).expect(400).body.contains("not UTF-8"));
    exchange(address, b"GET /health HTTP/1.1\r\nAccept: \xff\xfe\r\n\r\n").expect(400);
    exchange(address, &[0xff; 100]).expect(400);
}

#[test]
fn expect_100_continue_is_answered() {
    let world = World::new(1);
    let body = r#"{"topics": "new/#", "format": "json", "schema": "{}"}"#;
    let head = with_token(&format!("Expect: 100-continue\r\nContent-Length: {}\r\n\r\n", body.len()));
    let mut stream = TcpStream::connect(world.broker.admin_address()).expect("connects");
    stream.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("a positive time is a valid timeout");
    stream.write_all(head.as_bytes()).expect("writes");
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).expect("an interim answer comes");
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).expect("writes");
    Answer::read(&answer_bytes(&mut stream, false)).expect(201);
    // A body that is too large is rejected before it is sent.
    let head = with_token("Expect: 100-continue\r\nContent-Length: 9000000\r\n\r\n");
    exchange(world.broker.admin_address(), head.as_bytes()).expect(413);
}

#[test]
fn an_incomplete_request_times_out() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    let in_its_body = with_token("Content-Length: 100\r\n\r\n{");
    thread::scope(|scope| {
        for part in ["GET /health HTTP/1.1\r\n", &in_its_body] {
            scope.spawn(move || {
                let answer = exchange(address, part.as_bytes()).expect(408);
                assert!(answer.body.contains("\"code\":\"timeout\""), "{}", answer.body);
            });
        }
    });
    // A request that ends early is rejected at once.
    let mut stream = TcpStream::connect(world.broker.admin_address()).expect("connects");
    stream.write_all(b"GET /hea").and_then(|()| stream.shutdown(std::net::Shutdown::Write)).expect("writes");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("reads");
    Answer::read(&bytes).expect(400);
}
