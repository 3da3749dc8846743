//! Client authentication: passwords, certificates, tokens, the hook, bans.

use std::fs;
use std::time::Instant;

use super::{ACCEPTED, After, NO, ReloadTest, Row, YES, connack_of, connect_result, try_all, yes_if};
use crate::support::{AtLeastOnce, ConnectBuilder, Transport, V5};
use crate::tokens::{now_s, token};

/// A listener that requests client certificates.
const BY_CERTIFICATE: &str = "auth.password_file = \"users\"\ntls.certificate = \"all.pem\"\ntls.key = \"all.key\"\n\
     tls.client_ca = \"all-ca.pem\"\n{}\n\
     [[listener]]\nname = \"own\"\naddress = \"mqtts://127.0.0.1:0\"\ntls.client_certificates = \"required\"\n";
const BY_SECRET: &str = "auth.jwt_secret_file = \"secret\"\n{}\n";
const BY_HOOK: &str = "auth.hook_url = \"SERVICE/auth\"\n{}\n";
/// The broker's timeout exceeds the delay of the test's hook by far.
const BY_PATIENT_HOOK: &str = "auth.hook_url = \"SERVICE/auth\"\nauth.hook_timeout_ms = 60000\n{}\n";

const SECRET: &str = "a secret of at least thirty-two bytes";

pub(super) const ROWS: &[Row] = &[
    Row {
        keys: &["auth.anonymous"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "",
        on: "auth.anonymous = true",
        see: After(|scene| {
            connect_result(&ConnectBuilder::new(Transport::Tcp(scene.broker.address()), V5, &scene.name()))
        }),
        without: "0x87",
        with: ACCEPTED,
    },
    Row {
        keys: &["auth.password_file"],
        file: "{}\n",
        off: "",
        on: "auth.password_file = \"users\"",
        see: After(|scene| connect_result(&scene.connecting(&scene.name()).password(b"wrong"))),
        without: ACCEPTED,
        with: "0x86",
    },
    Row {
        keys: &["auth.plaintext_passwords"],
        file: "auth.password_file = \"users\"\n{}\n[[listener]]\nname = \"own\"\naddress = \"127.0.0.1:0\"\n\
               proxy.trusted_networks = [\"127.0.0.1\"]\n",
        off: "",
        on: "auth.plaintext_passwords = true",
        see: After(connect_from_other_address),
        without: "0x87",
        with: ACCEPTED,
    },
    Row {
        keys: &["auth.certificate_identity"],
        file: BY_CERTIFICATE,
        off: "",
        on: "auth.certificate_identity = \"none\"",
        see: After(by_certificate),
        without: ACCEPTED,
        with: "0x87",
    },
    Row {
        keys: &["auth.certificate_rules"],
        file: BY_CERTIFICATE,
        off: "",
        on: "auth.certificate_rules = [{ cn = \"other-*\", user = \"{*}\" }]",
        see: After(by_certificate),
        without: ACCEPTED,
        with: "0x87",
    },
    Row {
        keys: &["auth.jwt_key_file"],
        file: "{}\n",
        off: "auth.jwt_key_file = \"jwks-1.json\"",
        on: "auth.jwt_key_file = \"jwks-2.json\"",
        see: After(|scene| by_token(scene, &scene.service.token(0, &claims("ann", 3_600, "")))),
        without: ACCEPTED,
        with: "0x86",
    },
    Row {
        keys: &["auth.jwks_url"],
        file: "{}\n",
        off: "",
        on: "auth.jwks_url = \"SERVICE/keys\"",
        see: After(|scene| by_token(scene, &scene.service.token(1, &claims("ann", 3_600, "")))),
        without: ACCEPTED,
        with: "0x86",
    },
    Row {
        keys: &["auth.jwt_secret_file"],
        file: "{}\n",
        off: "auth.jwt_secret_file = \"secret\"",
        on: "auth.jwt_secret_file = \"secret-2\"",
        see: After(|scene| by_secret(scene, "ann", 3_600, "")),
        without: ACCEPTED,
        with: "0x86",
    },
    Row {
        keys: &["auth.jwt_algorithms"],
        file: BY_SECRET,
        off: "",
        on: "auth.jwt_algorithms = [\"HS384\"]",
        see: After(|scene| by_secret(scene, "ann", 3_600, "")),
        without: ACCEPTED,
        with: "0x86",
    },
    Row {
        keys: &["auth.jwt_issuers"],
        file: BY_SECRET,
        off: "",
        on: "auth.jwt_issuers = [\"somebody\"]",
        see: After(|scene| by_secret(scene, "ann", 3_600, "")),
        without: ACCEPTED,
        with: "0x86",
    },
    Row {
        keys: &["auth.jwt_audiences"],
        file: BY_SECRET,
        off: "",
        on: "auth.jwt_audiences = [\"somebody\"]",
        see: After(|scene| by_secret(scene, "ann", 3_600, "")),
        without: ACCEPTED,
        with: "0x86",
    },
    Row {
        keys: &["auth.jwt_leeway_s"],
        file: BY_SECRET,
        off: "auth.jwt_leeway_s = 300",
        on: "auth.jwt_leeway_s = 0",
        see: After(|scene| by_secret(scene, "ann", -20, "")),
        without: ACCEPTED,
        with: "0x87",
    },
    Row {
        keys: &["auth.jwt_user_claim"],
        file: BY_SECRET,
        off: "",
        on: "auth.jwt_user_claim = \"name\"",
        see: After(|scene| by_secret(scene, "ann", 3_600, "")),
        without: ACCEPTED,
        with: "0x86",
    },
    Row {
        keys: &["auth.jwt_client_id_claim"],
        file: BY_SECRET,
        off: "",
        on: "auth.jwt_client_id_claim = \"device\"",
        see: After(|scene| {
            let device = format!(",\"device\":\"device-{}\"", scene.name());
            let bytes = token(&claims("ann", 3_600, &device), SECRET);
            let name = scene.name();
            let connecting = |id| scene.connecting(id).user_name("").password(&bytes);
            let mut first = connecting(&name).open();
            // The same client, if the token identifies it.
            let second = connecting("second").open();
            let is_taken_over = first.has_input_within(scene.patience(YES));
            if is_taken_over {
                assert_eq!(first.expect_disconnect(), 0x8E);
            }
            drop(second);
            yes_if(is_taken_over)
        }),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["auth.jwt_roles_claim"],
        file: "auth.jwt_secret_file = \"secret\"\nacl.file = \"roles.toml\"\n{}\n",
        off: "",
        on: "auth.jwt_roles_claim = \"roles\"",
        see: After(|scene| {
            let bytes = token(&claims("ann", 3_600, ",\"roles\":[\"all\"]"), SECRET);
            let name = scene.name();
            let mut client = scene.connecting(&name).user_name("").password(&bytes).open();
            super::code(client.publish("x", AtLeastOnce, b""))
        }),
        without: "0x87",
        with: "0x10",
    },
    Row {
        keys: &["auth.hook_url"],
        file: "{}\n",
        off: "",
        on: "auth.hook_url = \"SERVICE/auth\"",
        see: After(|scene| asks_as(scene, "bad")),
        without: ACCEPTED,
        with: "0x86",
    },
    Row {
        keys: &["auth.hook_authorization_file"],
        file: BY_HOOK,
        off: "",
        on: "auth.hook_authorization_file = \"authorization\"",
        see: After(|scene| asks_as(scene, "secret")),
        without: "0x86",
        with: ACCEPTED,
    },
    Row {
        keys: &["auth.hook_timeout_ms"],
        file: BY_HOOK,
        off: "auth.hook_timeout_ms = 60000",
        on: "auth.hook_timeout_ms = 50",
        see: After(|scene| asks_as(scene, "slow")),
        without: ACCEPTED,
        with: "0x88",
    },
    Row {
        keys: &["auth.hook_concurrency"],
        file: BY_PATIENT_HOOK,
        off: "",
        on: "auth.hook_concurrency = 1",
        see: After(|scene| {
            let pending = connect_pending(scene);
            let name = format!("good-{}", scene.name());
            let mut next = scene.connecting(&name).send();
            let is_answered = next.has_input_within(scene.patience(YES));
            scene.service.hold(false);
            assert_eq!(connack_of(&mut next), ACCEPTED);
            drop(pending);
            yes_if(is_answered)
        }),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.authentications"],
        file: "auth.hook_url = \"SERVICE/auth\"\nauth.hook_timeout_ms = 60000\nauth.hook_concurrency = 1\n{}\n",
        off: "",
        on: "limits.authentications = 1",
        see: After(|scene| {
            let pending = connect_pending(scene);
            let names = ["second", "third"].map(|name| format!("good-{name}-{}", scene.name()));
            let mut waiting = names.each_ref().map(|name| scene.connecting(name).send());
            // One of them may be queued.
            let until = Instant::now() + scene.patience(NO);
            let soon = std::time::Duration::from_millis(50);
            let is_refused = loop {
                if waiting.iter().any(|client| client.has_input_within(soon)) {
                    break true;
                }
                if Instant::now() > until {
                    break false;
                }
            };
            scene.service.hold(false);
            let connect_result = waiting.each_mut().map(connack_of);
            assert_eq!(
                connect_result.iter().any(|connect_result| connect_result == "0x89"),
                is_refused,
                "{connect_result:?}"
            );
            drop(pending);
            yes_if(!is_refused)
        }),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["auth.hook_allow_cache_s"],
        file: BY_HOOK,
        off: "auth.hook_allow_cache_s = 3600",
        on: "auth.hook_allow_cache_s = 0",
        see: After(|scene| requests_for_two(scene, "good")),
        without: "1",
        with: "2",
    },
    Row {
        keys: &["auth.hook_deny_cache_s"],
        file: BY_HOOK,
        off: "auth.hook_deny_cache_s = 3600",
        on: "auth.hook_deny_cache_s = 0",
        see: After(|scene| requests_for_two(scene, "bad")),
        without: "1",
        with: "2",
    },
    Row {
        keys: &["auth.hook_failure_threshold"],
        file: "auth.hook_url = \"SERVICE/auth\"\nauth.hook_retry_s = 3600\n{}\n",
        off: "",
        on: "auth.hook_failure_threshold = 1",
        see: After(|scene| requests_for_two(scene, "broken")),
        without: "2",
        with: "1",
    },
    Row {
        keys: &["auth.hook_retry_s"],
        file: "auth.hook_url = \"SERVICE/auth\"\nauth.hook_failure_threshold = 1\n{}\n",
        off: "auth.hook_retry_s = 3600",
        on: "auth.hook_retry_s = 1",
        see: After(|scene| {
            assert_eq!(asks_as(scene, "broken"), "0x88");
            let until = Instant::now() + scene.patience(YES);
            while Instant::now() < until {
                if asks_as(scene, "good") == ACCEPTED {
                    return YES.to_owned();
                }
            }
            NO.to_owned()
        }),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["auth.hook_unreachable"],
        file: "auth.hook_url = \"SERVICE/auth\"\nauth.password_file = \"users\"\nauth.anonymous = true\n{}\n",
        off: "",
        on: "auth.hook_unreachable = \"ignore\"",
        see: After(|scene| {
            // Unknown in the password file, and the hook fails: nothing identifies the client.
            let name = format!("broken-{}", scene.name());
            connect_result(&ConnectBuilder::new(Transport::Tcp(scene.broker.address()), V5, &name))
        }),
        without: "0x88",
        with: ACCEPTED,
    },
    Row {
        keys: &["auth.https_ca"],
        file: "auth.hook_url = \"SECURE/auth\"\n{}\n",
        off: "auth.https_ca = \"other-ca.pem\"",
        on: "auth.https_ca = \"all-ca.pem\"",
        see: After(|scene| asks_as(scene, "good")),
        without: "0x88",
        with: ACCEPTED,
    },
    Row {
        keys: &["auth.ban_rules"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "",
        on: "auth.ban_rules = [\"2 by user in 600 ban 600\"]",
        see: After(|scene| {
            let name = scene.name();
            for _ in 0..2 {
                assert_eq!(connect_result(&scene.connecting(&name).password(b"wrong")), "0x86");
            }
            scene.connects()
        }),
        without: ACCEPTED,
        with: "0x8a",
    },
    Row {
        keys: &["auth.threads"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "auth.threads = 1",
        on: "auth.threads = 3",
        see: After(threads_that_hash),
        without: "1",
        with: "3",
    },
    Row {
        keys: &["auth.password_cache_entries"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "auth.password_cache_entries = 0",
        on: "auth.password_cache_entries = 10",
        see: After(|scene| {
            let before = scene.metric("auth_password_cache_hits");
            assert_eq!((scene.connects(), scene.connects()), (ACCEPTED.to_owned(), ACCEPTED.to_owned()));
            yes_if(scene.metric("auth_password_cache_hits") > before)
        }),
        without: NO,
        with: YES,
    },
    Row {
        // Only used by `tautwire user --config`, so it is checked in the output of the configuration.
        keys: &["auth.password_cost"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "",
        on: "auth.password_cost = \"m=8,t=1,p=1\"",
        see: After(|scene| yes_if(scene.ask("GET", "/v1/config").body.contains("m=8,t=1,p=1"))),
        without: NO,
        with: YES,
    },
];

#[test]
fn clients_are_authenticated_by_the_current_keys() {
    try_all(ROWS, &[]);
}

/// The result for a password sent from another address without TLS.
pub(super) fn connect_from_other_address(scene: &ReloadTest) -> String {
    let mut client = crate::support::Client::dial(Transport::Tcp(scene.own()), V5);
    client.send_bytes(b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 1883\r\n");
    client.send_bytes(&scene.connecting(&scene.name()).bytes());
    connack_of(&mut client)
}

/// The result for a certificate holder without other credentials.
pub(super) fn by_certificate(scene: &ReloadTest) -> String {
    let stream = std::net::TcpStream::connect(scene.own()).expect("the broker listens");
    let mut client = scene.all.connect(stream, Some(scene.all.client("device")));
    let name = scene.name();
    super::code(client.connack(&ConnectBuilder::new(Transport::Tcp(scene.own()), V5, &name).bytes())[1])
}

fn claims(user: &str, left_s: i64, more: &str) -> String {
    format!("{{\"sub\":\"{user}\",\"exp\":{}{more}}}", now_s().saturating_add_signed(left_s))
}

fn by_token(scene: &ReloadTest, token: &[u8]) -> String {
    connect_result(&scene.connecting(&scene.name()).user_name("").password(token))
}

fn by_secret(scene: &ReloadTest, user: &str, left_s: i64, more: &str) -> String {
    by_token(scene, &token(&claims(user, left_s, more), SECRET))
}

/// The result for a client that the hook answers like this.
fn asks_as(scene: &ReloadTest, what: &str) -> String {
    let name = format!("{what}-{}", scene.name());
    connect_result(&scene.connecting(&name))
}

/// The number of hook requests for two connections of the same client.
fn requests_for_two(scene: &ReloadTest, what: &str) -> String {
    let before = scene.service.asked();
    for _ in 0..2 {
        asks_as(scene, what);
    }
    (scene.service.asked() - before).to_string()
}

/// A client with a pending hook request.
fn connect_pending(scene: &ReloadTest) -> crate::support::Client {
    scene.service.hold(true);
    let before = scene.service.asked();
    let name = format!("held-{}", scene.name());
    let pending = scene.connecting(&name).send();
    scene.service.await_requests(before + 1);
    pending
}

/// The number of hash threads, once the previous ones have ended.
fn threads_that_hash(scene: &ReloadTest) -> String {
    assert_eq!(scene.connects(), ACCEPTED);
    let count = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", scene.broker.pid())).expect("the broker runs");
        let names = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "auth-hash").count().to_string()
    };
    let until = Instant::now() + crate::support::EXPECT_TIMEOUT;
    while count() != scene.expected.get() && Instant::now() < until {
        std::thread::yield_now();
    }
    count()
}
