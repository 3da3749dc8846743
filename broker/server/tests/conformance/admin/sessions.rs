//! Login with token or password, cookies, and protection against other pages.

use std::time::Instant;

use super::roles::{request_as, tokens};
use crate::reload::World;
use crate::support::http::{Answer, ask, exchange};
use crate::support::{EXPECT_TIMEOUT, Folder, TOKEN};

const JSON: &str = "Content-Type: application/json\r\n";
/// The password is `secret`, hashed as by mosquitto, which is fast.
const USERS: &str = "ann:$6$YWFhYWFhYWFhYWFh$cmKH4OwZssEZ8OHMn1wDv3GwvrOU6Zkp+nVlkH2Tl1EAlNAnc//LmBKvNOO9ivDlvMPQ+qQ6vHpddaXzor25UQ==\nbob:$6$YmJiYmJiYmJiYmJi$WoJIdihxxPLuXS2JxCeEVPN+s/H1UCS/mgUR9jfYlC9HtWhcKj7twT0rhoHTgysywjpnVaZhQ0kNutex5VyRUw==\ncarl:$6$Y2NjY2NjY2NjY2Nj$/AWv5u8CVIQHMrL8Y85wYBMYw/jHXLgzfNE1lqhkQgoKlqfb5bcdKTWdJZALB+BBw3oB7wkwFZZf9kphvV+y2g==\n";

/// A login session.
pub(super) struct Session {
    pub(super) cookie: String,
    pub(super) csrf: String,
}

impl Session {
    fn fields(&self) -> String {
        format!("{}X-CSRF-Token: {}\r\n", self.only_cookie(), self.csrf)
    }

    fn only_cookie(&self) -> String {
        format!("Cookie: other=1; tautwire_session={}\r\n", self.cookie)
    }
}

fn text(answer: &Answer, name: &str) -> String {
    let (_, rest) = answer.body.split_once(&format!("\"{name}\":\"")).unwrap_or_else(|| panic!("{answer:?}"));
    rest.split('"').next().unwrap_or_default().to_owned()
}

#[track_caller]
pub(super) fn log_in(world: &World, body: &str) -> Session {
    let answer = attempt(world, body).expect(200);
    let (_, cookie) = answer.head.split_once("Set-Cookie: tautwire_session=").expect("a cookie");
    let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    Session { cookie, csrf: text(&answer, "csrf") }
}

fn attempt(world: &World, body: &str) -> Answer {
    ask(world.broker.admin_address(), "POST", "/session", JSON, body)
}

fn by_token(token: &str) -> String {
    format!("{{\"token\": \"{token}\"}}")
}

fn by_password(user: &str, password: &str) -> String {
    format!("{{\"user\": \"{user}\", \"password\": \"{password}\"}}")
}

/// A broker with users that have roles, and with a token.
fn world(more: &[&str]) -> World {
    let folder = Folder::new(&[("users", USERS), ("tokens.toml", &tokens(&[("operator", "operate", "")]))]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let users = format!("auth.password_file={}", path("users"));
    let tokens = format!("admin.tokens_file={}", path("tokens.toml"));
    let roles = "[admin]\nroles = [\"ann = administer payloads\", \"bob = read\"]\n";
    let settings: Vec<&str> = [&*users, &*tokens].into_iter().chain(more.iter().copied()).collect();
    World::within(folder, 1, roles, &settings)
}

#[test]
fn a_login_opens_a_session_with_an_http_only_cookie() {
    let world = world(&[]);
    for (body, name, role, payloads) in [
        (by_token(TOKEN), "admin.token_file", "administer", true),
        (by_token("operator-token-0123456789"), "operator", "operate", false),
        (by_password("ann", "secret"), "ann", "administer", true),
        (by_password("bob", "secret"), "bob", "read", false),
    ] {
        let answer = attempt(&world, &body).expect(200);
        assert_eq!((text(&answer, "name"), text(&answer, "role")), (name.to_owned(), role.to_owned()));
        assert!(answer.body.contains(&format!("\"payloads\":{payloads}")), "{answer:?}");
        assert!(answer.number("expires_ms") > 1_700_000_000_000, "{answer:?}");
        for part in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Max-Age=43200"] {
            assert!(answer.head.contains(part), "{part}: {}", answer.head);
        }
        assert!(!answer.head.contains("Secure"), "{}", answer.head);
        assert!(!answer.body.contains("secret") && !answer.body.contains("-token-"), "{}", answer.body);
        let session = log_in(&world, &body);
        let again = ask(world.broker.admin_address(), "GET", "/session", &session.only_cookie(), "").expect(200);
        assert_eq!(text(&again, "csrf"), session.csrf);
        assert_eq!(text(&again, "name"), name);
    }
    for field in ["X-Forwarded-Proto: https\r\n", "Forwarded: for=192.0.2.1;proto=\"https\"\r\n"] {
        let fields = format!("{JSON}{field}");
        let answer = ask(world.broker.admin_address(), "POST", "/session", &fields, &by_token(TOKEN)).expect(200);
        assert!(answer.head.contains("; Secure"), "{}", answer.head);
    }
    let shown = request_as(&world, "operator", "GET", "/session", "").expect(200);
    assert!(shown.body.contains("\"expires_ms\":null,\"csrf\":null"), "{shown:?}");
    ask(world.broker.admin_address(), "GET", "/session", "", "").expect(401);
}

#[test]
fn unknown_users_and_users_without_a_role_are_refused() {
    let world = world(&[]);
    for (body, status, code) in [
        (by_token("no such token at all"), 401, "login_refused"),
        (by_token(""), 401, "login_refused"),
        (by_password("ann", "Secret"), 401, "login_refused"),
        (by_password("carl", "secret"), 401, "login_refused"),
        (by_password("nobody", "secret"), 401, "login_refused"),
        ("{\"user\": \"ann\"}".to_owned(), 422, "login_value"),
        ("{\"user\": \"ann\", \"password\": \"secret\", \"token\": \"x\"}".to_owned(), 422, "login_value"),
        ("{}".to_owned(), 422, "login_value"),
        ("[".to_owned(), 400, "bad_json"),
    ] {
        let answer = attempt(&world, &body);
        assert_eq!((answer.status, text(&answer, "code")), (status, code.to_owned()), "{body}: {answer:?}");
        assert!(!answer.head.contains("Set-Cookie") && !answer.body.contains("ecret"), "{answer:?}");
    }
    let api = world.broker.admin_address();
    ask(api, "POST", "/session", "", &by_token(TOKEN)).expect(415);
    // The limit applies before the body is read: the sender is not authenticated.
    let head = format!("POST /session HTTP/1.1\r\n{JSON}Content-Length: 16385\r\n\r\n");
    exchange(api, head.as_bytes()).expect(413);
    ask(api, "POST", "/session", "Content-Type: text/plain\r\n", &by_token(TOKEN)).expect(415);
    ask(api, "POST", "/session", &format!("{JSON}Sec-Fetch-Site: cross-site\r\n"), &by_token(TOKEN)).expect(403);
    // The 5 responses of 401 above.
    assert_eq!((world.metric("admin_logins"), world.metric("admin_logins_refused")), (0, 5));
}

#[test]
fn changes_with_a_cookie_need_a_csrf_token() {
    let world = world(&[]);
    let api = world.broker.admin_address();
    let session = log_in(&world, &by_password("ann", "secret"));
    let other = log_in(&world, &by_password("ann", "secret"));
    let ban = r#"{"user": "eve"}"#;
    let wrong = [
        session.only_cookie(),
        format!("{}X-CSRF-Token: {}\r\n", session.only_cookie(), other.csrf),
        format!("{}X-CSRF-Token: \r\n", session.only_cookie()),
        format!("{}Sec-Fetch-Site: cross-site\r\n", session.fields()),
        format!("{}Sec-Fetch-Site: same-site\r\n", session.fields()),
    ];
    for fields in &wrong {
        let refused = ask(api, "POST", "/v1/bans", fields, ban).expect(403);
        assert_eq!(text(&refused, "code"), "csrf");
        ask(api, "DELETE", "/session", fields, "").expect(403);
    }
    ask(api, "GET", "/v1/bans", &session.only_cookie(), "").expect(200);
    ask(api, "POST", "/v1/bans", &format!("{}Sec-Fetch-Site: same-origin\r\n", session.fields()), ban).expect(201);
    // A token in a header, which no page can set, needs no CSRF token, whatever cookies are sent.
    let both = format!("{}{}", super::roles::token("operator"), session.only_cookie());
    ask(api, "DELETE", "/v1/bans", &both, ban).expect(204);
    // The role limits a session like a token.
    let reader = log_in(&world, &by_password("bob", "secret"));
    ask(api, "GET", "/v1/clients", &reader.fields(), "").expect(200);
    let refused = ask(api, "POST", "/v1/bans", &reader.fields(), ban).expect(403);
    assert_eq!(text(&refused, "code"), "forbidden");
}

#[test]
fn a_session_ends_on_logout_and_with_its_credentials() {
    let world = world(&["admin.sessions=3"]);
    let api = world.broker.admin_address();
    let lives = |session: &Session| ask(api, "GET", "/v1/bans", &session.only_cookie(), "").status == 200;
    let ann = log_in(&world, &by_password("ann", "secret"));
    let out = ask(api, "DELETE", "/session", &ann.fields(), "").expect(204);
    assert!(out.head.contains("Max-Age=0"), "{}", out.head);
    assert!(!lives(&ann));
    let (ann, bob) = (log_in(&world, &by_password("ann", "secret")), log_in(&world, &by_password("bob", "secret")));
    let token = log_in(&world, &by_token("operator-token-0123456789"));
    assert!(lives(&ann) && lives(&bob) && lives(&token));
    // A changed role applies to the session; without a role the session ends.
    world.reload("[admin]\nroles = [\"ann = read\"]\n").expect(200);
    assert!(lives(&ann) && !lives(&bob));
    ask(api, "POST", "/v1/config/reload", &ann.fields(), "").expect(403);
    world.folder.write("tokens.toml", "");
    world.reload_again().expect(200);
    assert!(!lives(&token));
    // A user with another password is another principal.
    let proof = USERS.lines().find_map(|line| line.strip_prefix("bob:")).expect("bob is there");
    world.folder.write("users", &format!("ann:{proof}\n"));
    world.reload_again().expect(200);
    assert!(!lives(&ann));
    assert_eq!(world.metric("admin_sessions"), 0);
    let first = log_in(&world, &by_token(TOKEN));
    let more: Vec<Session> = (0..3).map(|_| log_in(&world, &by_token(TOKEN))).collect();
    assert!(!lives(&first) && more.iter().all(lives));
    assert_eq!((world.metric("admin_sessions"), world.metric("admin_sessions_evicted")), (3, 1));
}

#[test]
fn repeated_failures_delay_only_the_failing_user() {
    let world = world(&[]);
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    let mut failures = 0;
    // The fifth failure makes the next attempt wait for four seconds.
    while failures < 5 {
        let answer = attempt(&world, &by_password("ann", "wrong"));
        assert!(matches!(answer.status, 401 | 429) && (failures >= 3 || answer.status == 401), "{answer:?}");
        failures += usize::from(answer.status == 401);
        assert!(Instant::now() < deadline, "{failures} attempts were checked");
    }
    // Even the right password is not checked now.
    let slowed = attempt(&world, &by_password("ann", "secret")).expect(429);
    assert_eq!(text(&slowed, "code"), "too_many_failures");
    assert!(slowed.head.contains("Retry-After: "), "{}", slowed.head);
    log_in(&world, &by_password("bob", "secret"));
    assert!((0..10).any(|_| attempt(&world, &by_token("no such token at all")).status == 429));
    log_in(&world, &by_token(TOKEN));
    assert_eq!(world.metric("admin_logins"), 2);
    assert!(world.metric("admin_logins_throttled") >= 2);
}
