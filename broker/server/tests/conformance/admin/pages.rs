//! Public resources: the dashboard's files, the description of the API, health.

use crate::reload::World;
use crate::support::http::{Answer, answer_bytes, ask, dial, exchange};

/// A response whose body may be binary.
fn raw(world: &World, path: &str, fields: &str) -> (String, Vec<u8>) {
    use std::io::Write as _;
    let mut stream = dial(world.broker.admin_address());
    write!(stream, "GET {path} HTTP/1.1\r\nHost: admin\r\n{fields}\r\n").expect("it is sent");
    let mut bytes = answer_bytes(&mut stream, false);
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let body = bytes.split_off(end + 4);
    (String::from_utf8(bytes).expect("a head is text"), body)
}

fn field<'a>(head: &'a str, name: &str) -> &'a str {
    crate::support::http::field(head, name).unwrap_or_else(|| panic!("no {name}: {head}"))
}

#[test]
fn the_dashboard_is_public_and_has_a_strict_policy() {
    let world = World::new(1, "", &[]);
    for (path, kind) in [("/", "text/html"), ("/ui/app.js", "text/javascript"), ("/ui/app.css", "text/css")] {
        let (head, body) = raw(&world, path, "");
        assert!(head.starts_with("HTTP/1.1 200 ") && field(&head, "Content-Type").starts_with(kind), "{head}");
        assert!(!body.is_empty() && !head.to_lowercase().contains("content-encoding"), "{head}");
        let policy = field(&head, "Content-Security-Policy");
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{part}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        for (name, value) in [
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-cache"),
            ("Vary", "Accept-Encoding"),
        ] {
            assert_eq!(field(&head, name), value, "{name}");
        }
        let (packed, compressed) = raw(&world, path, "Accept-Encoding: br, gzip\r\n");
        assert_eq!(field(&packed, "Content-Encoding"), "gzip");
        assert!(compressed.starts_with(&[0x1f, 0x8b]));
        assert_ne!(field(&packed, "ETag"), field(&head, "ETag"));
        // A file cached by the browser is not sent again.
        let cached = format!("If-None-Match: \"other\", W/{}\r\n", field(&head, "ETag"));
        let (same, nothing) = raw(&world, path, &cached);
        assert!(same.starts_with("HTTP/1.1 304 ") && nothing.is_empty(), "{same}");
        assert_eq!(field(&same, "ETag"), field(&head, "ETag"));
        let (fresh, _) = raw(&world, path, "If-None-Match: \"other\"\r\n");
        assert!(fresh.starts_with("HTTP/1.1 200 "), "{fresh}");
    }
    let api = world.broker.admin_address();
    for path in ["/ui/", "/ui/other.js", "/ui/../app.js", "/ui/..%2fapp.js", "/ui/index.html.gz"] {
        let answer = exchange(api, format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes());
        assert!(matches!(answer.status, 401 | 404), "{path}: {answer:?}");
    }
    ask(api, "POST", "/", "", "").expect(405);
}

#[test]
fn health_and_the_description_need_no_token() {
    let world = World::new(1, "", &[]);
    let get = |path: &str| -> Answer { ask(world.broker.admin_address(), "GET", path, "", "") };
    for path in ["/health", "/health/live", "/health/ready"] {
        assert_eq!(get(path).expect(200).body, "{\"status\":\"ok\"}\n");
    }
    assert!(get("/openapi.json").expect(200).body.starts_with("{\n  \"openapi\": \"3.1.0\""));
    get("/v1/clients").expect(401);
    get("/nothing").expect(401);
}
