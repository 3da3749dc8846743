//! Connections to the admin API: several requests on one, HEAD, and more connections than the limit.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use crate::contracts::support::World;
use crate::reload::World as ReloadWorld;
use crate::support::http::{Answer, answer_bytes, dial, exchange, field};
use crate::support::{AtLeastOnce, TOKEN, V5, admin};

/// The connection limit of the API.
const CONNECTIONS_MAX: usize = 256;
const HEALTH: &str = "GET /health HTTP/1.1\r\nHost: admin\r\n\r\n";

#[track_caller]
fn next(stream: &mut TcpStream) -> Answer {
    Answer::read(&answer_bytes(stream, false))
}

#[track_caller]
fn expect_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the server closes");
    assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
}

#[test]
fn a_connection_serves_several_requests() {
    let world = World::new(1);
    let mut stream = dial(world.broker.admin_address());
    for _ in 0..3 {
        stream.write_all(HEALTH.as_bytes()).expect("it is sent");
        assert_eq!(next(&mut stream).expect(200).body, "{\"status\":\"ok\"}\n");
    }
    // Pipelined requests are answered in order, and a body is not taken for a request.
    let put = "{\"topics\": \"new/#\", \"format\": \"json\", \"schema\": \"{}\"}";
    let put = format!(
        "PUT /contracts/new HTTP/1.1\r\nHost: admin\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n{put}",
        put.len()
    );
    let missing = "GET /nothing HTTP/1.1\r\nHost: admin\r\n\r\n";
    stream.write_all([HEALTH, &put, missing, HEALTH].concat().as_bytes()).expect("it is sent");
    for status in [200, 201, 401, 200] {
        next(&mut stream).expect(status);
    }
    // Invalid input ends the connection after the earlier requests are answered.
    stream.write_all([HEALTH, "no request\r\n\r\n"].concat().as_bytes()).expect("it is sent");
    next(&mut stream).expect(200);
    next(&mut stream).expect(400);
    expect_closed(&mut stream);
}

#[test]
fn a_connection_closes_on_request_or_after_an_unreadable_request() {
    let world = World::new(1);
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    for (request, status) in [
        (HEALTH.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"), 200),
        (HEALTH.replace("HTTP/1.1", "HTTP/1.0"), 200),
        (format!("PUT /contracts/new HTTP/1.1\r\n{token}Content-Length: 9000000\r\n\r\n"), 413),
        (format!("PUT /contracts/new HTTP/1.1\r\n{token}Transfer-Encoding: chunked\r\n\r\n"), 501),
        ("PUT /contracts/new HTTP/1.1\r\nContent-Length: 100000\r\n\r\n".to_owned(), 401),
    ] {
        let mut stream = dial(world.broker.admin_address());
        stream.write_all(request.as_bytes()).expect("it is sent");
        next(&mut stream).expect(status);
        expect_closed(&mut stream);
    }
    // A client that closes its sending side still gets its response.
    let mut stream = dial(world.broker.admin_address());
    stream.write_all(HEALTH.as_bytes()).and_then(|()| stream.shutdown(Shutdown::Write)).expect("it is sent");
    next(&mut stream).expect(200);
    expect_closed(&mut stream);
}

#[test]
fn head_responds_like_get_without_the_body() {
    let world = World::new(1);
    let mut stream = dial(world.broker.admin_address());
    let mut ask = |method: &str, path: &str, token: &str| {
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: admin\r\n{token}\r\n").expect("it is sent");
        answer_bytes(&mut stream, method == "HEAD")
    };
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let header = |answer: &Answer, name| field(&answer.head, name).map(str::to_owned);
    for (path, token, status) in [
        ("/health", "", 200),
        ("/health/live", "", 200),
        ("/health/ready", "", 200),
        ("/", "", 200),
        ("/ui/app.css", "", 200),
        ("/openapi.json", "", 200),
        ("/v1/contracts", &*token, 200),
        ("/v1/contracts/nothing", &*token, 404),
        ("/v1/nothing", &*token, 404),
        ("/metrics", "", 401),
    ] {
        let get = Answer::read(&ask("GET", path, token)).expect(status);
        // Nothing follows the head: a body would be taken for the next response.
        let head = Answer::read(&ask("HEAD", path, token)).expect(status);
        for name in ["content-type", "content-length", "cache-control", "etag", "www-authenticate"] {
            assert_eq!(header(&head, name), header(&get, name), "{path}: {name}");
        }
    }
    assert!(header(&Answer::read(&ask("HEAD", "/metrics", &token)).expect(200), "content-length").is_some());
    // HEAD opens no tap.
    Answer::read(&ask("HEAD", "/v1/tap", &token)).expect(200);
    let refused = Answer::read(&ask("POST", "/health", "Content-Length: 0\r\n")).expect(405);
    assert_eq!(header(&refused, "allow").as_deref(), Some("GET, HEAD"));
    assert_eq!(world.count("admin_taps"), 0);
}

/// Opens connections that send this and read nothing.
fn open_many(address: SocketAddr, count: usize, sent: &str) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = dial(address);
        // A connection that is already closed accepts nothing.
        let _ = stream.write_all(sent.as_bytes());
        stream
    };
    (0..count).map(open).collect()
}

#[test]
fn health_and_metrics_are_served_despite_silent_or_slow_clients() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    let mut client = world.connect(V5, "client");
    let login =
        "POST /session HTTP/1.1\r\nHost: admin\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let mut open = Vec::new();
    for sent in ["", "GET /health HTTP/1.1\r\nHost:", login, HEALTH] {
        open.push(open_many(address, CONNECTIONS_MAX + 10, sent));
        for path in ["/health", "/health/live", "/health/ready", "/metrics"] {
            admin(address, "GET", path, "").expect(200);
        }
        assert_eq!(client.publish("strict/a", AtLeastOnce, b"{\"n\": 1}"), 0x10);
    }
    assert!(world.count("admin_connections_evicted") >= 3 * (CONNECTIONS_MAX as u64 + 10));
    assert!(world.count("admin_connections") <= CONNECTIONS_MAX as u64);
    assert_eq!(world.count("admin_connections_refused"), 0);
    drop(open);
}

#[test]
fn logins_with_missing_bodies_do_not_block_the_handlers() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    let half =
        "POST /session HTTP/1.1\r\nHost: admin\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let open = open_many(address, 50, half);
    let whole =
        half.replace("Content-Length: 100", "Content-Length: 15").replace("\r\n\r\n{", "\r\n\r\n{\"token\": \"no\"");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| exchange(address, format!("{whole}}}").as_bytes()));
        }
    });
    admin(address, "GET", "/v1/clients", "").expect(200);
    drop(open);
}

#[test]
fn a_connection_open_during_a_reload_is_answered_and_closed() {
    let world = ReloadWorld::new(1, "", &[]);
    let address = world.broker.admin_address();
    let health = b"GET /health HTTP/1.1\r\nHost: admin\r\n\r\n";
    let (mut fresh, mut used) = (dial(address), dial(address));
    used.write_all(health).expect("it is sent");
    next(&mut used).expect(200);
    world.reload("").expect(200);
    // The reload was requested on a connection accepted after these.
    fresh.write_all(health).expect("it is sent");
    next(&mut fresh).expect(200);
    for mut stream in [fresh, used] {
        expect_closed(&mut stream);
    }
}
