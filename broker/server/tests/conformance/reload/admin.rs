//! Reloads that move the admin API: to other addresses, to TLS, to other certificates, off and on.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use super::keys;
use crate::support::http::{Answer, TOKEN, admin, ask};
use crate::support::tls::Authority;
use crate::support::{Broker, EXPECT_TIMEOUT, Folder};

/// The keys tested here and not in a table, since callers have to follow the API.
pub(super) const KEYS: [&str; 4] = ["admin.listen", "admin.certificate", "admin.key", "admin.plain_http"];

struct World {
    broker: Broker,
    folder: Folder,
}

impl World {
    fn new(admin: &str) -> World {
        let folder = Folder::new(&[("token", TOKEN)]);
        let broker = Broker::with_listeners(1, &folder, &file(admin), &[]);
        World { broker, folder }
    }

    fn write(&self, admin: &str) {
        Broker::write_file(1, &self.folder, &file(admin));
    }

    /// Rewrites the file and requests a reload at this address.
    #[track_caller]
    fn reload_at(&self, address: SocketAddr, lines: &str) -> Answer {
        self.write(lines);
        admin(address, "POST", "/config/reload", "")
    }
}

fn file(admin: &str) -> String {
    format!("admin.token_file = \"token\"\n{admin}\n")
}

/// The new address of the API according to an answer.
#[track_caller]
fn moved(answer: &Answer, scheme: &str) -> SocketAddr {
    let (_, rest) = answer.body.split_once("\"admin\":\"").unwrap_or_else(|| panic!("{}", answer.body));
    let address = rest.split('"').next().and_then(|url| url.strip_prefix(scheme)?.parse().ok());
    address.unwrap_or_else(|| panic!("not {scheme}: {}", answer.body))
}

#[track_caller]
fn expect_closed(address: SocketAddr) {
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < deadline, "{address} still accepts connections");
    }
}

fn log_in_request() -> String {
    let body = format!("{{\"token\": \"{TOKEN}\"}}");
    let head = "POST /session HTTP/1.1\r\nHost: admin\r\nContent-Type: application/json\r\nContent-Length:";
    format!("{head} {}\r\n\r\n{body}", body.len())
}

/// The cookie header of the session in an answer.
#[track_caller]
fn cookie(answer: &Answer) -> String {
    let line = answer.head.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).expect("a cookie");
    format!("Cookie: {}\r\n", line.split(';').next().expect("there is always one"))
}

#[test]
fn the_api_moves_to_another_port_and_logins_survive() {
    let world = World::new("admin.listen = \"127.0.0.1:0\"");
    let first = world.broker.admin_address();
    let login = crate::support::http::exchange(first, log_in_request().as_bytes()).expect(200);
    assert!(!login.head.contains("Secure"), "{}", login.head);
    let session = cookie(&login);

    let answer = world.reload_at(first, "admin.listen = \"127.0.0.2:0\"").expect(200);
    assert_eq!(keys(&answer, "applied"), ["admin.listen"]);
    assert_eq!(keys(&answer, "pending_restart"), [""; 0]);
    let second = moved(&answer, "http://");
    assert_eq!(second.ip().to_string(), "127.0.0.2");
    expect_closed(first);
    ask(second, "GET", "/session", &session, "").expect(200);

    // An address that cannot be bound changes nothing.
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = other.local_addr().expect("an address");
    let refused = world.reload_at(second, &format!("admin.listen = \"{taken}\"")).expect(422);
    assert!(refused.body.contains("[admin.listen]") && refused.body.contains(&taken.to_string()), "{}", refused.body);
    ask(second, "GET", "/session", &session, "").expect(200);

    // Neither does another error: the socket already bound is closed.
    let wrong = world.reload_at(second, "admin.listen = \"127.0.0.3:0\"\nacl.file = \"nowhere\"").expect(422);
    assert!(wrong.body.contains("nowhere"), "{}", wrong.body);
    admin(second, "GET", "/metrics", "").expect(200);

    let unchanged = world.reload_at(second, "admin.listen = \"127.0.0.2:0\"").expect(200);
    assert!(unchanged.body.contains("\"admin\":null"), "{}", unchanged.body);

    // Off, and on again at a known port.
    world.reload_at(second, "").expect(200);
    expect_closed(second);
    let back = SocketAddr::new("127.0.0.4".parse().expect("an address"), second.port());
    world.write(&format!("admin.listen = \"{back}\""));
    world.broker.signal("HUP");
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while TcpStream::connect(back).is_err() {
        assert!(Instant::now() < deadline, "the API is not available again");
    }
    ask(back, "GET", "/session", &session, "").expect(200);
}

#[test]
fn the_api_changes_to_tls_and_other_certificates_on_its_port() {
    let world = World::new("admin.listen = \"127.0.0.1:0\"");
    let address = world.broker.admin_address();
    let (one, two) = (Authority::new(), Authority::new());
    one.write(&world.folder, "one");
    two.write(&world.folder, "two");
    let session = cookie(&crate::support::http::exchange(address, log_in_request().as_bytes()).expect(200));

    let missing = world.reload_at(address, "admin.listen = \"https://127.0.0.1:0\"").expect(422);
    assert!(missing.body.contains("admin.certificate"), "{}", missing.body);

    // With the certificate of the listeners.
    let is_tls = "admin.listen = \"https://127.0.0.1:0\"\n";
    let common = format!("{is_tls}tls.certificate = \"one.pem\"\ntls.key = \"one.key\"\n");
    let answer = world.reload_at(address, &common).expect(200);
    assert_eq!(moved(&answer, "https://"), address, "the port stays");
    let over_tls = |authority: &Authority, request: &str| {
        authority.connect(TcpStream::connect(address).expect("it listens"), None).ask(request.as_bytes())
    };
    let shown = over_tls(&one, &format!("GET /session HTTP/1.1\r\nHost: admin\r\n{session}\r\n")).expect("an answer");
    shown.expect(200);
    let login = over_tls(&one, &log_in_request()).expect("an answer").expect(200);
    assert!(login.head.contains("HttpOnly; SameSite=Strict; Secure"), "{}", login.head);
    // A page of more than one record, and an answer to plain HTTP.
    let page = over_tls(&one, "GET /openapi.json HTTP/1.1\r\nHost: admin\r\n\r\n").expect("an answer").expect(200);
    assert!(page.body.len() > 40_000 && page.body.trim_end().ends_with('}'), "{} bytes", page.body.len());
    let plain = ask(address, "GET", "/health", "", "").expect(400);
    assert!(plain.body.contains("[https_required]") || plain.body.contains("\"https_required\""), "{}", plain.body);

    // With its own certificate.
    let own = format!("{common}admin.certificate = \"two.pem\"\nadmin.key = \"two.key\"\n");
    let reload = |file: &str| {
        world.write(file);
        format!("POST /config/reload HTTP/1.1\r\nHost: admin\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
    };
    let answer = over_tls(&one, &reload(&own)).expect("an answer").expect(200);
    assert_eq!(keys(&answer, "applied"), ["admin.certificate", "admin.key"]);
    assert!(over_tls(&one, "GET /health HTTP/1.1\r\n\r\n").is_err(), "it still has the previous certificate");
    over_tls(&two, "GET /health HTTP/1.1\r\nHost: admin\r\n\r\n").expect("an answer").expect(200);

    // The same files with other certificates.
    one.write(&world.folder, "two");
    over_tls(&two, &reload(&own)).expect("an answer").expect(200);
    assert!(over_tls(&two, "GET /health HTTP/1.1\r\n\r\n").is_err(), "its files were not reloaded");
    over_tls(&one, &reload("admin.listen = \"127.0.0.1:0\"\n")).expect("an answer").expect(200);
    admin(address, "GET", "/metrics", "").expect(200);
}

/// `config diff` binds nothing, so nothing is open to the network here.
#[test]
fn plain_http_on_the_network_must_be_allowed() {
    let world = World::new("admin.listen = \"127.0.0.1:0\"");
    let address = world.broker.admin_address();
    world.write("admin.listen = \"0.0.0.0:0\"");
    let refused = admin(address, "GET", "/config/diff", "").expect(422);
    assert!(refused.body.contains("admin.plain_http") && refused.body.contains("https://"), "{}", refused.body);
    world.write("admin.listen = \"0.0.0.0:0\"\nadmin.plain_http = true");
    let allowed = admin(address, "GET", "/config/diff", "").expect(200);
    assert_eq!(keys(&allowed, "applied"), ["admin.listen", "admin.plain_http"]);
}
