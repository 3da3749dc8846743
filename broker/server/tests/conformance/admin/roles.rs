//! Permissions: tokens with names and roles, and what they do not allow.

use crate::reload::World;
use crate::support::http::{Answer, ask, bearer};
use crate::support::{Folder, TOKEN};

/// SHA-256 of `NAME-token-0123456789`, for the names below.
const DIGESTS: [(&str, &str); 4] = [
    ("reader", "b3057e05d75e8cdca4bd6ddd527af736913e8464a7a3d47d7a09389eaa8e1eb4"),
    ("operator", "e4ba15bc7411be319ad18f683da1ff6968143f09f0fac67e517a5d6f526598c1"),
    ("chief", "e622219807efa161b7d2fc6e57638e928ce22af2b0a3605037e7060f79c43c4c"),
    ("seer", "3d707a4c01c66a7d41ed76312c5c6f3ca91d57c196231add3280e97922f444e9"),
];

/// A token file: each token has this role, and the additional lines.
pub(super) fn tokens(list: &[(&str, &str, &str)]) -> String {
    let table = |(name, role, more): &(&str, &str, &str)| {
        let digest = DIGESTS.iter().find(|(known, _)| known == name).expect("a token of these tests").1;
        format!("[[token]]\nname = \"{name}\"\nrole = \"{role}\"\nsha256 = \"{digest}\"\n{more}\n")
    };
    list.iter().map(table).collect()
}

/// The text of a token.
pub(super) fn token(name: &str) -> String {
    bearer(&format!("{name}-token-0123456789"))
}

const ALL: &[(&str, &str, &str)] = &[
    ("reader", "read", ""),
    ("operator", "operate", ""),
    ("chief", "administer", ""),
    ("seer", "read", "payloads = true"),
];

/// A broker whose API accepts these tokens, besides that of `admin.token_file`.
pub(super) fn world(list: &[(&str, &str, &str)]) -> World {
    let folder = Folder::new(&[("tokens.toml", &tokens(list))]);
    let file = format!("admin.tokens_file={}", folder.path().join("tokens.toml").display());
    World::within(folder, 1, "", &[&file])
}

pub(super) fn request_as(world: &World, name: &str, method: &str, path: &str, body: &str) -> Answer {
    ask(world.broker.admin_address(), method, path, &token(name), body)
}

#[test]
fn each_role_has_exactly_its_permissions() {
    let world = world(ALL);
    let ban = r#"{"user": "eve"}"#;
    // The expected status for reader, operator, chief and seer.
    for (method, path, body, expected) in [
        ("GET", "/v1/clients", "", [200, 200, 200, 200]),
        ("GET", "/v1/config", "", [200, 200, 200, 200]),
        ("GET", "/metrics", "", [200, 200, 200, 200]),
        ("DELETE", "/v1/clients/c/connection", "", [403, 404, 404, 403]),
        ("DELETE", "/v1/clients/c/session", "", [403, 404, 404, 403]),
        ("POST", "/v1/bans", ban, [403, 201, 201, 403]),
        ("DELETE", "/v1/bans", ban, [403, 204, 404, 403]),
        ("POST", "/v1/messages/a", "x", [403, 200, 200, 403]),
        ("POST", "/v1/config/reload", "", [403, 200, 200, 403]),
        ("PUT", "/v1/contracts/a", "{}", [403, 403, 422, 403]),
        ("DELETE", "/v1/contracts/a", "", [403, 403, 409, 403]),
        ("GET", "/v1/nothing", "", [404, 404, 404, 404]),
    ] {
        for (name, status) in ["reader", "operator", "chief", "seer"].into_iter().zip(expected) {
            let answer = request_as(&world, name, method, path, body);
            assert_eq!(answer.status, status, "{name} {method} {path}: {answer:?}");
            if status == 403 {
                assert!(answer.body.contains("\"code\":\"forbidden\""), "{answer:?}");
            }
        }
    }
    let refused = request_as(&world, "reader", "PUT", "/v1/contracts/a", "{}").expect(403);
    assert!(refused.body.contains("needs the role administer; your role is read"), "{refused:?}");
    // The token of `admin.token_file` may still do everything.
    ask(world.broker.admin_address(), "DELETE", "/v1/contracts/a", &bearer(TOKEN), "").expect(409);
}

#[test]
fn tokens_are_reloaded_and_expire() {
    let world = world(&[("reader", "read", ""), ("operator", "operate", "expires = 2020-01-01T00:00:00Z")]);
    request_as(&world, "reader", "GET", "/v1/bans", "").expect(200);
    let expired = request_as(&world, "operator", "GET", "/v1/bans", "").expect(401);
    assert!(expired.body.contains("\"code\":\"unauthorized\""), "{expired:?}");
    world.folder.write("tokens.toml", "[[token]]\nname = \"reader\"\n");
    let wrong = world.reload_again().expect(422);
    assert!(wrong.body.contains("tokens.toml:1: role is missing [tokens_file]"), "{wrong:?}");
    request_as(&world, "reader", "GET", "/v1/bans", "").expect(200);
    let more = "expires = 2999-12-31T23:59:59+01:00";
    world.folder.write("tokens.toml", &tokens(&[("operator", "operate", more), ("chief", "administer", "")]));
    world.reload_again().expect(200);
    request_as(&world, "reader", "GET", "/v1/bans", "").expect(401);
    request_as(&world, "operator", "POST", "/v1/messages/a", "x").expect(200);
    request_as(&world, "chief", "GET", "/v1/bans", "").expect(200);
}

#[test]
fn the_audit_log_names_the_operator() {
    let folder = Folder::new(&[("tokens.toml", &tokens(ALL))]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let settings = [format!("admin.tokens_file={}", path("tokens.toml")), format!("audit.file={}", path("audit"))];
    let world = World::within(folder, 1, "", &settings.each_ref().map(String::as_str));
    request_as(&world, "operator", "POST", "/v1/bans", r#"{"user": "eve"}"#).expect(201);
    request_as(&world, "reader", "POST", "/v1/bans", r#"{"user": "ann"}"#).expect(403);
    request_as(&world, "nobody", "GET", "/v1/bans", "").expect(401);
    request_as(&world, "reader", "GET", "/v1/bans", "").expect(200);
    let World { broker, folder, .. } = world;
    broker.end();
    let audit = folder.read("audit");
    let lines: Vec<&str> = audit.lines().filter(|line| line.contains("\"event\":\"admin\"")).collect();
    let expected = [
        ("\"method\":\"POST\",\"path\":\"/v1/bans\",\"actor\":\"token operator\"", "\"status\":201"),
        ("\"method\":\"POST\",\"path\":\"/v1/bans\",\"actor\":\"token reader\"", "\"status\":403"),
        ("\"method\":\"GET\",\"path\":\"/v1/bans\",\"actor\":\"\"", "\"status\":401"),
    ];
    assert_eq!(lines.len(), expected.len(), "{audit}");
    for (line, (who, status)) in lines.iter().zip(expected) {
        assert!(line.contains(who) && line.contains(status), "{line}");
    }
    assert!(!audit.contains("-token-"), "{audit}");
}

#[test]
fn a_tap_ends_when_its_permission_is_revoked() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let world = world(ALL);
    request_as(&world, "operator", "GET", "/v1/tap", "").expect(403);
    request_as(&world, "chief", "GET", "/v1/retained/a", "").expect(403);
    let mut stream = std::net::TcpStream::connect(world.broker.admin_address()).expect("it accepts");
    stream.set_read_timeout(Some(crate::support::EXPECT_TIMEOUT)).expect("a positive time is a valid timeout");
    write!(stream, "GET /v1/tap HTTP/1.1\r\n{}\r\n", token("seer")).expect("it is sent");
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while line.trim_end() != ": open" {
        line.clear();
        assert!(stream.read_line(&mut line).expect("it is open") > 0, "it has ended");
    }
    world.folder.write("tokens.toml", &tokens(&[("seer", "read", "")]));
    world.reload_again().expect(200);
    stream.read_to_end(&mut Vec::new()).expect("it ends");
}
