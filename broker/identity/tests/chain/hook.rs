//! The HTTP hook.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tautwire_identity::{
    AuthAttempt, AuthBackend, AuthStep, Chain, Hook, HookSettings, HttpClient, HttpRequest, HttpRequestError,
    HttpResponse, Now, Principal, RefusalCode, Secret, UnreachablePolicy,
};
use tautwire_json::{Value, parse};
use tautwire_protocol::ConnectReason;

use super::support::{NOW, chain, from, nobody, user, users};

const URL: &str = "https://hook.example/auth";

/// Responses that are returned in turn, and the received requests.
#[derive(Default)]
struct Service {
    answers: Mutex<VecDeque<Result<(u16, String), HttpRequestError>>>,
    asked: Mutex<Vec<Value>>,
}

impl Service {
    fn answering(answers: &[&str]) -> Service {
        let answers = answers.iter().map(|answer| Ok((200, (*answer).to_owned()))).collect();
        Service { answers: Mutex::new(answers), asked: Mutex::default() }
    }

    fn asked(&self) -> usize {
        self.asked.lock().expect("a lock").len()
    }
}

impl HttpClient for Service {
    fn request(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, HttpRequestError> {
        let (name, value) = request.fields.first().expect("a field");
        assert_eq!(
            (request.url, &**name, value.expose(), request.timeout_ms),
            (URL, "Authorization", &b"Bearer x"[..], 2_000)
        );
        let body = str::from_utf8(request.body.expect("a body").expose()).expect("text");
        self.asked.lock().expect("a lock").push(parse(body).expect("JSON"));
        let answer = self.answers.lock().expect("a lock").pop_front().unwrap_or(Err(HttpRequestError::Timeout));
        answer.map(|(status, body)| HttpResponse::new(status, body))
    }
}

fn settings() -> HookSettings {
    let fields = vec![("Authorization".into(), Secret::new("Bearer x"))];
    HookSettings { fields, failures: 2, ..HookSettings::new(URL) }
}

fn hook(settings: HookSettings) -> Arc<Hook> {
    Arc::new(Hook::new(settings, &[7; 32]).expect("settings"))
}

fn of(hook: &Arc<Hook>) -> Arc<Chain> {
    chain(vec![AuthBackend::Hook(hook.clone())])
}

fn at(seconds: u64) -> Now {
    Now { unix_s: NOW.unix_s + seconds, steady_ms: seconds * 1_000 }
}

fn ends(chain: &Arc<Chain>, attempt: AuthAttempt, service: &Service, seconds: u64) -> Result<Principal, RefusalCode> {
    let mut step = chain.begin(attempt, at(seconds), &mut |bytes| {
        bytes.fill(9);
        Ok(())
    });
    loop {
        step = match step {
            AuthStep::Admit { principal, .. } => return Ok(principal),
            AuthStep::Refuse(refusal) => {
                assert!(!refusal.log.contains("s3cret"), "{refusal}");
                return Err(refusal.code);
            }
            AuthStep::AuthWork(work) => work.run(service, at(seconds)),
            AuthStep::Challenge { .. } => panic!("a challenge"),
        };
    }
}

#[test]
fn a_hook_request_has_the_documented_form() {
    let page = include_str!("../../../../docs/reference/auth-hook.openapi.json");
    let page = parse(page).expect("JSON");
    let at = |path: &[&str]| {
        path.iter().fold(&page, |value, name| value.get(name).unwrap_or_else(|| panic!("{name} is missing")))
    };
    let post = ["paths", "/", "post"];
    let example = at(&[&post[..], &["requestBody", "content", "application/json", "example"]].concat());
    let attempt = from(user("ann", "s3cret"), |origin| {
        (origin.listener, origin.is_encrypted) = ("tls".into(), true);
        origin.address = Some([192, 0, 2, 7].into());
    });
    let service = Service::answering(&[r#"{"result":"allow"}"#]);
    let chain = of(&hook(settings()));
    assert!(ends(&chain, AuthAttempt { client_id: "sensor-7".into(), ..attempt }, &service, 0).is_ok());
    assert_eq!(service.asked.lock().expect("a lock").first(), Some(example));

    // The peer of a Unix socket.
    let local = from(nobody(), |origin| (origin.address, origin.peer_uid) = (None, Some(1_000)));
    assert!(ends(&chain, local, &service, 0).is_err());
    let asked = service.asked.lock().expect("a lock").pop().expect("it is asked");
    assert!(matches!(asked.get("peer_uid"), Some(Value::Number(uid)) if uid == "1000"), "{asked:?}");
    assert!(asked.get("address").is_none());

    // Each example of a response has its documented meaning.
    let Value::Object(examples) =
        at(&[&post[..], &["responses", "200", "content", "application/json", "examples"]].concat())
    else {
        panic!("no examples")
    };
    assert_eq!(examples.len(), 4);
    for (name, example) in examples {
        let service = Service::answering(&[&json(example.get("value").expect("a value"))]);
        let outcome = ends(&of(&hook(settings())), user("ann", "s3cret"), &service, 0);
        match &**name {
            "allow" => assert_eq!(outcome.expect("admitted").user.as_deref(), Some("ann")),
            "allow_in_full" => {
                let principal = outcome.expect("admitted");
                assert_eq!(
                    (principal.user.as_deref(), principal.client_id.as_deref()),
                    (Some("ann@example.org"), Some("ann-1"))
                );
                assert_eq!(&*principal.roles, ["operator".into()]);
                assert_eq!(principal.claims.len(), 3);
                assert_eq!(principal.expires_at_unix_s, Some(4_102_444_800));
            }
            "deny" => assert_eq!(outcome, Err(RefusalCode::HookDenied)),
            "ignore" => assert_eq!(outcome, Err(RefusalCode::UnknownUser)),
            other => panic!("{other}"),
        }
    }
}

fn json(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(",");
    let mut text = String::new();
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(is) => text.push_str(if *is { "true" } else { "false" }),
        Value::Number(number) => text.push_str(number),
        Value::Text(string) => tautwire_json::push_string(&mut text, string),
        Value::List(items) => return format!("[{}]", list(items.iter().map(json).collect())),
        Value::Object(members) => {
            let member = |(name, value): &(String, Value)| {
                let mut text = String::new();
                tautwire_json::push_string(&mut text, name);
                format!("{text}:{}", json(value))
            };
            return format!("{{{}}}", list(members.iter().map(member).collect()));
        }
    }
    text
}

#[test]
fn hook_responses_are_cached() {
    let hook = hook(settings());
    let chain = of(&hook);
    let service = Service::answering(&[
        r#"{"result":"allow"}"#,
        r#"{"result":"deny","reason":"s3cret is wrong"}"#,
        r#"{"result":"allow","cache_s":3}"#,
        r#"{"result":"deny"}"#,
    ]);
    let right = || user("ann", "s3cret");
    // Cached for 60 s; then the response to the next request is a denial, cached for 5 s.
    for seconds in [0, 59] {
        assert!(ends(&chain, right(), &service, seconds).is_ok());
    }
    for seconds in [60, 64] {
        assert_eq!(ends(&chain, right(), &service, seconds), Err(RefusalCode::HookDenied));
    }
    for seconds in [65, 67] {
        assert!(ends(&chain, right(), &service, seconds).is_ok());
    }
    assert_eq!(service.asked(), 3);
    assert_eq!(ends(&chain, right(), &service, 68), Err(RefusalCode::HookDenied));
    let counters = hook.counters(at(68));
    assert_eq!((counters.asked, counters.answered_from_cache, counters.failed), (4, 3, 0));
    // A cached decision is returned at once.
    assert!(matches!(chain.begin(right(), at(68), &mut |_| Ok(())), AuthStep::Refuse(_)));
}

#[test]
fn a_cached_response_applies_only_to_the_same_request() {
    let hook = hook(settings());
    let chain = of(&hook);
    let service = Service::answering(&[r#"{"result":"allow"}"#]);
    assert!(ends(&chain, user("ann", "s3cret"), &service, 0).is_ok());
    let other = |change: &dyn Fn(&mut AuthAttempt)| {
        let mut attempt = user("ann", "s3cret");
        change(&mut attempt);
        attempt
    };
    for attempt in [
        user("ann", "wrong"),
        user("anns", "3cret"),
        user("bob", "right"),
        other(&|attempt| attempt.client_id = "d".into()),
        other(&|attempt| attempt.is_v5 = false),
        other(&|attempt| attempt.password = None),
        from(user("ann", "s3cret"), |origin| origin.listener = "other".into()),
        from(user("ann", "s3cret"), |origin| origin.address = Some([127, 0, 0, 2].into())),
        from(user("ann", "s3cret"), |origin| origin.is_encrypted = true),
        from(user("ann", "s3cret"), |origin| origin.peer_uid = Some(7)),
    ] {
        assert!(matches!(chain.begin(attempt, at(0), &mut |_| Ok(())), AuthStep::AuthWork(_)));
    }
}

#[test]
fn the_cache_is_bounded() {
    let hook = hook(HookSettings { cache_entries: 2, ..settings() });
    let chain = of(&hook);
    let service = Service::answering(&[r#"{"result":"allow"}"#; 5]);
    let is_cached = |name: &str| matches!(chain.begin(user(name, "x"), at(1), &mut |_| Ok(())), AuthStep::Admit { .. });
    for name in ["a", "b", "c"] {
        assert!(ends(&chain, user(name, "x"), &service, 0).is_ok());
    }
    assert_eq!(["a", "b", "c"].map(is_cached), [false, true, true]);
    let long = "x".repeat(5_000);
    assert!(ends(&chain, user("d", &long), &service, 0).is_ok());
    assert!(
        matches!(chain.begin(user("d", &long), at(1), &mut |_| Ok(())), AuthStep::AuthWork(_)),
        "a long password is not cached"
    );
}

#[test]
fn the_circuit_breaker_opens_after_failures() {
    let hook = hook(HookSettings { negative_s: 0, ..settings() });
    let chain = of(&hook);
    let failing = [
        Err(HttpRequestError::Timeout),
        Ok((200, r#"{"result":"deny"}"#.to_owned())),
        Ok((500, String::new())),
        Ok((200, "{}".to_owned())),
        Err(HttpRequestError::Unreachable("refused".to_owned())),
        Ok((200, r#"{"result":"deny"}"#.to_owned())),
    ];
    let service = Service { answers: Mutex::new(failing.into()), asked: Mutex::default() };
    let code = |seconds| ends(&chain, user("ann", "x"), &service, seconds).expect_err("refused");
    // A single failure is forgiven after a response.
    assert_eq!([code(0), code(0)], [RefusalCode::HookUnreachable, RefusalCode::HookDenied]);
    assert_eq!(code(0), RefusalCode::HookUnreachable);
    assert!(!hook.counters(at(0)).is_open);
    assert_eq!(code(1), RefusalCode::HookUnreachable);
    assert!(hook.counters(at(1)).is_open);
    assert_eq!((code(10), service.asked()), (RefusalCode::HookUnreachable, 4));
    // One probe fails, and only later the next is sent.
    assert_eq!((code(11), service.asked()), (RefusalCode::HookUnreachable, 5));
    assert_eq!((code(12), service.asked()), (RefusalCode::HookUnreachable, 5));
    assert_eq!((code(21), service.asked()), (RefusalCode::HookDenied, 6));
    let counters = hook.counters(at(21));
    assert_eq!((counters.failed, counters.unreachable, counters.is_open), (4, 6, false));
}

/// A client chooses its user name and password, and so whether a service rejects the request: with 400, or 413 for a long one.
#[test]
fn a_refused_request_does_not_open_the_circuit_breaker() {
    let hook = hook(HookSettings { negative_s: 0, ..settings() });
    let chain = of(&hook);
    let statuses = [400, 401, 413, 500, 422, 500, 408, 429];
    let answers = statuses.map(|status| Ok((status, String::new())));
    let service = Service { answers: Mutex::new(answers.into()), asked: Mutex::default() };
    let opens = statuses.map(|_| {
        assert_eq!(ends(&chain, user("eve", "x"), &service, 0), Err(RefusalCode::HookUnreachable));
        hook.counters(at(0)).is_open
    });
    // Two in a row are too many here: a response with 4xx shows that the service is reachable.
    assert_eq!(opens, [false, false, false, false, false, false, true, true]);
    assert_eq!((service.asked(), hook.counters(at(0)).failed), (7, 7));
}

#[test]
fn when_unreachable_decides_while_the_hook_is_down() {
    let service = Service::default();
    let refuse = hook(settings());
    let refusal = match of(&refuse).begin(user("dave", "password"), at(0), &mut |_| Ok(())) {
        AuthStep::AuthWork(work) => match work.run(&service, at(0)) {
            AuthStep::Refuse(refusal) => refusal,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert_eq!((refusal.code, refusal.reason), (RefusalCode::HookUnreachable, ConnectReason::ServerUnavailable));
    let next = hook(HookSettings { when_unreachable: UnreachablePolicy::TryNext, ..settings() });
    let chain = chain(vec![AuthBackend::Hook(next), users()]);
    assert_eq!(ends(&chain, user("dave", "password"), &service, 0).expect("admitted").backend, "password_file");
    assert_eq!(ends(&chain, user("mallory", "x"), &service, 0), Err(RefusalCode::HookUnreachable));
}

#[test]
fn concurrent_requests_are_limited() {
    /// Connects another client while it is asked about one.
    struct Nested(Arc<Chain>, Service);
    impl HttpClient for Nested {
        fn request(&self, _: &HttpRequest<'_>) -> Result<HttpResponse, HttpRequestError> {
            assert_eq!(ends(&self.0, user("b", "x"), &self.1, 0), Err(RefusalCode::HookBusy));
            Ok(HttpResponse::new(200, br#"{"result":"allow"}"#))
        }
    }
    let hook = hook(HookSettings { concurrency: 1, ..settings() });
    let nested = Nested(of(&hook), Service::answering(&[r#"{"result":"allow"}"#]));
    let AuthStep::AuthWork(work) = nested.0.begin(user("a", "x"), at(0), &mut |_| Ok(())) else { panic!("no work") };
    assert!(matches!(work.run(&nested, at(0)), AuthStep::Admit { .. }));
    assert_eq!((nested.1.asked(), hook.counters(at(0)).busy), (0, 1));
    assert!(ends(&nested.0, user("b", "x"), &nested.1, 0).is_ok());
}

#[test]
fn invalid_hook_responses_are_refused() {
    for body in [
        "",
        "allow",
        "{}",
        r#"{"result":"Allow"}"#,
        r#"{"result":true}"#,
        r#"{"result":"allow","result":"deny"}"#,
        r#"{"result":"allow","user":""}"#,
        r#"{"result":"allow","user":7}"#,
        r#"{"result":"allow","user":"a\u0000b"}"#,
        r#"{"result":"allow","client_id":""}"#,
        r#"{"result":"allow","roles":"admin"}"#,
        r#"{"result":"allow","roles":[1]}"#,
        r#"{"result":"allow","claims":[]}"#,
        r#"{"result":"allow","claims":{"a":1}}"#,
        r#"{"result":"allow","expires_at":-1}"#,
        r#"{"result":"allow","expires_at":"soon"}"#,
        r#"{"result":"allow","cache_s":1.5}"#,
        "\u{feff}{\"result\":\"allow\"}",
    ] {
        let service = Service::answering(&[body]);
        let result = ends(&of(&hook(settings())), user("ann", "x"), &service, 0);
        assert_eq!(result, Err(RefusalCode::HookUnreachable), "{body}");
    }
    for (body, expected) in [
        (r#"{"result":"allow","user":null}"#, Ok(None)),
        (r#"{"result":"allow","user":"bob","more":{}}"#, Ok(Some("bob"))),
        (r#"{"result":"allow","expires_at":1}"#, Err(RefusalCode::HookDenied)),
    ] {
        let service = Service::answering(&[body]);
        let result = ends(&of(&hook(settings())), user("ann", "x"), &service, 0).map(|principal| principal.user);
        assert_eq!(result.as_ref().map(Option::as_deref).map_err(|code| *code), expected, "{body}");
    }
}

#[test]
fn settings_have_limits_and_passwords_need_a_secure_url() {
    let refused = |settings: HookSettings| Hook::new(settings, &[0; 32]).expect_err("refused").to_string();
    assert!(refused(HookSettings::new("http://hook.example/")).contains("the URL must begin with https://"));
    let message = refused(HookSettings::new("https://broker:s3cret@hook.example/"));
    assert!(message.contains("must not contain user and password") && !message.contains("s3cret"), "{message}");
    let shown =
        format!("{:?}", hook(HookSettings { fields: Vec::new(), ..HookSettings::new("https://h/auth?key=s3cret") }));
    assert!(shown.contains("https://h/auth") && !shown.contains("s3cret"), "{shown}");
    assert!(refused(HookSettings { timeout_ms: 10, ..settings() }).contains("it must be from 50 to 60000"));
    assert!(refused(HookSettings { concurrency: 0, ..settings() }).contains("it must be from 1 to 1024"));
    assert!(Hook::new(HookSettings::new("http://127.0.0.1:8080/"), &[0; 32]).is_ok());
    let (hook, chain) = (hook(settings()), of(&hook(settings())));
    let shown = format!("{hook:?} {chain:?} {:?} {:?}", settings(), chain.begin(nobody(), at(0), &mut |_| Ok(())));
    assert!(!shown.contains("Bearer"), "{shown}");
}
