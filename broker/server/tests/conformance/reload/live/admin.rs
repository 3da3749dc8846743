//! Credentials of operators, and watching files for changes.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::{After, NO, ReloadTest, Row, YES, try_all, yes_if};
use crate::support::http::{Answer, ask};
use crate::support::{EXPECT_TIMEOUT, TOKEN};

/// The token of `tokens.toml`.
const NAMED_TOKEN: &str = "named-token-0123456789";
/// Written to the token file without requesting a reload.
const WATCHED_TOKEN: &str = "unasked-token-0123456789";

pub(super) const TOKENS_FILE: &str = "[[token]]\nname = \"named\"\nrole = \"read\"\npayloads = false\n\
     sha256 = \"580757fd6f179fb9f7bcce1b9f6b15b6c57aec76b72d162026a990a798f37614\"\n";

pub(super) const ROWS: &[Row] = &[
    Row {
        keys: &["admin.tokens_file"],
        file: "{}\n",
        off: "",
        on: "admin.tokens_file = \"tokens.toml\"",
        see: After(|scene| yes_if(is_accepted(scene, NAMED_TOKEN))),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["admin.roles"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "",
        on: "admin.roles = [\"dave = read\"]",
        see: After(|scene| yes_if(log_in(scene, "{\"user\": \"dave\", \"password\": \"password\"}").status == 200)),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["admin.sessions"],
        file: "{}\n",
        off: "",
        on: "admin.sessions = 1",
        see: After(|scene| {
            let first = session(scene);
            session(scene);
            let fields = format!("Cookie: {}\r\n", cookie(&first));
            yes_if(ask(scene.broker.admin_address(), "GET", "/session", &fields, "").status == 200)
        }),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["admin.session_idle_timeout_s"],
        file: "{}\n",
        off: "",
        on: "admin.session_idle_timeout_s = 60",
        see: After(|scene| yes_if(session_expiry_s(&session(scene)) > 120)),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["admin.session_max_age_s"],
        file: "{}\n",
        off: "",
        on: "admin.session_max_age_s = 60",
        see: After(|scene| yes_if(session_expiry_s(&session(scene)) > 120)),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["file_watch_interval_s"],
        file: "{}\n",
        off: "",
        on: "file_watch_interval_s = 1",
        see: After(|scene| {
            scene.folder.write("token", WATCHED_TOKEN);
            let until = Instant::now() + scene.patience(YES);
            let is_read = loop {
                match is_accepted(scene, WATCHED_TOKEN) {
                    false if Instant::now() < until => {}
                    is_read => break is_read,
                }
            };
            scene.folder.write("token", TOKEN);
            let until = Instant::now() + EXPECT_TIMEOUT;
            while !is_accepted(scene, TOKEN) {
                assert!(Instant::now() < until, "watching does not continue");
            }
            yes_if(is_read)
        }),
        without: NO,
        with: YES,
    },
];

#[test]
fn admin_credentials_change_on_reload() {
    try_all(ROWS, &[]);
}

fn is_accepted(scene: &ReloadTest, token: &str) -> bool {
    scene.ask_by(token, "GET", "/metrics").status == 200
}

fn session(scene: &ReloadTest) -> Answer {
    log_in(scene, &format!("{{\"token\": \"{TOKEN}\"}}")).expect(200)
}

fn log_in(scene: &ReloadTest, body: &str) -> Answer {
    ask(scene.broker.admin_address(), "POST", "/session", "Content-Type: application/json\r\n", body)
}

fn cookie(answer: &Answer) -> &str {
    let line = answer.head.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).expect("a cookie");
    line.split(';').next().expect("there is always one")
}

/// The duration of an idle session.
fn session_expiry_s(answer: &Answer) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    answer.number("expires_ms").div_ceil(1_000).saturating_sub(now.as_secs())
}
