//! Keys that apply without a restart: each is set and reset while the broker runs, and its effect is observed.
//!
//! Every documented key that does not need a restart has a row here, or a test fails. Cluster keys need servers that are not available
//! here: `make test-cluster` covers them.

mod admin;
mod auth;
mod files;
mod limits;
mod listeners;
mod offer;
mod service;
mod telemetry;
mod users;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use tautwire_protocol::Packet;

use super::bans::DAVE;
use super::keys;
use super::listeners::added;
use crate::support::http::{Answer, exchange};
use crate::support::tls::{Authority, Secured};
use crate::support::{Broker, Client, ConnectBuilder, EXPECT_TIMEOUT, Folder, TOKEN, Transport, V5, program};
use service::Service;

/// A key, or keys that only make sense together, with an observable effect.
struct Row {
    /// As documented, prefixed with `listener ` for keys of a `[[listener]]` table.
    keys: &'static [&'static str],
    /// The file, with `{}` in place of the keys.
    file: &'static str,
    /// The keys before, and again at the end.
    off: &'static str,
    /// The keys in between.
    on: &'static str,
    see: Observer,
    without: &'static str,
    with: &'static str,
}

/// How the effect is observed.
enum Observer {
    /// With a client connected before the reload.
    Before(fn(&ReloadTest, Client) -> String),
    /// With new clients after the reload.
    After(fn(&ReloadTest) -> String),
}

use Observer::{After, Before};

const YES: &str = "yes";
const NO: &str = "no";
const ACCEPTED: &str = "0x0";
const QUOTA_EXCEEDED: &str = "0x97";
const SERVER_BUSY: &str = "0x89";
const CLOSED: &str = "closed";

/// How long to wait for something that must not happen.
const SILENCE: Duration = Duration::from_millis(1_500);

/// A broker with its files, and the step being run.
struct ReloadTest {
    broker: Broker,
    folder: Folder,
    threads: usize,
    all: Authority,
    other: Authority,
    service: Service,
    /// A unique name: for clients, for a user whose password is `password`, for topics.
    name: RefCell<String>,
    /// The expected observation.
    expected: Cell<&'static str>,
    /// The response to the last reload.
    answer: RefCell<String>,
    /// The address of the listener `own`, if there is one.
    own: Cell<Option<SocketAddr>>,
    token: Cell<&'static str>,
}

impl ReloadTest {
    fn new(threads: usize, rows: &[Row], settings: &[&str]) -> ReloadTest {
        let names = (0..rows.len()).flat_map(|row| (0..STEPS).map(move |step| name_of(row, step)));
        let users: String = names.map(|name| DAVE.replace("dave", &name)).chain([DAVE.to_owned()]).collect();
        let folder = Folder::new(&[("users", &users)]);
        FILES.iter().for_each(|(name, text)| folder.write(name, text));
        listeners::make_certificates(&folder);
        let (all, other) = (Authority::new(), Authority::new());
        all.write(&folder, "all");
        other.write(&folder, "other");
        let settings: Vec<&str> = ["admin.listen=127.0.0.1:0"].into_iter().chain(settings.iter().copied()).collect();
        let log = folder.path().join("log");
        let broker = Broker::logging_to(&log, threads, &folder, "admin.token_file = \"token\"\n", &settings);
        ReloadTest {
            service: Service::start(&folder),
            broker,
            folder,
            threads,
            all,
            other,
            name: RefCell::default(),
            expected: Cell::new(""),
            answer: RefCell::default(),
            own: Cell::new(None),
            token: Cell::new(TOKEN),
        }
    }

    fn name(&self) -> String {
        self.name.borrow().clone()
    }

    /// How long to wait for the observation `seen`.
    fn patience(&self, seen: &str) -> Duration {
        if self.expected.get() == seen { EXPECT_TIMEOUT } else { SILENCE }
    }

    /// Reloads the broker with this file.
    #[track_caller]
    fn reload(&self, file: &str) -> Answer {
        let usual = [
            ("listen = ", "listen = [\"127.0.0.1:0\", \"ws://127.0.0.1:0/mqtt\"]\n".to_owned()),
            ("threads = ", format!("threads = {}\n", self.threads)),
            ("admin.token_file = ", "admin.token_file = \"token\"\n".to_owned()),
        ];
        let own = |key: &str| file.lines().any(|line| line.starts_with(key));
        let mut text: String = usual.into_iter().filter(|(key, _)| !own(key)).map(|(_, line)| line).collect();
        text.push_str(&file.replace("SERVICE", &self.service.url()).replace("SECURE", &self.service.secure_url()));
        let text = text.replace("OWN_NAME", &self.name());
        let text = text.replace("SOCKET", &self.folder.path().join("socket").display().to_string());
        self.folder.write("tautwire.toml", &text);
        let answer = self.ask("POST", "/config/reload").expect(200);
        if file.contains("token-2") {
            self.token.set(OTHER_TOKEN);
        } else {
            self.token.set(TOKEN);
        }
        self.answer.replace(answer.body.clone());
        if keys(&answer, "listeners_removed").contains(&"own".to_owned()) {
            self.own.set(None);
        }
        if keys(&answer, "listeners_added").contains(&"own".to_owned()) && answer.body.contains("\"own\":\"") {
            self.own.set(Some(added(&answer, "own")));
        }
        answer
    }

    /// Calls the admin API with the current token.
    fn ask(&self, method: &str, path: &str) -> Answer {
        self.ask_by(self.token.get(), method, path)
    }

    fn ask_by(&self, token: &str, method: &str, path: &str) -> Answer {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: admin\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n\r\n"
        );
        exchange(self.broker.admin_address(), request.as_bytes())
    }

    fn metric(&self, name: &str) -> u64 {
        self.ask("GET", "/metrics").expect(200).number(name)
    }

    /// The address of the listener `own`.
    #[track_caller]
    fn own(&self) -> SocketAddr {
        self.own.get().expect("the row's file has a listener \"own\"")
    }

    /// A client of the listener `own`, or else of the first one, with credentials if required.
    fn connecting<'a>(&self, name: &'a str) -> ConnectBuilder<'a> {
        let address = self.own.get().unwrap_or(self.broker.address());
        ConnectBuilder::new(Transport::Tcp(address), V5, name).user_name(name).password(b"password")
    }

    /// Connects such a client with the name of the step.
    fn connects(&self) -> String {
        connect_result(&self.connecting(&self.name()))
    }

    /// A TLS connection to the listener `own`.
    fn secured(&self, authority: &Authority) -> Secured {
        authority.connect(TcpStream::connect(self.own()).expect("the broker listens"), None)
    }
}

/// Files that a row may name.
const FILES: [(&str, &str); 13] = [
    ("headers", "X-From: the-broker\n"),
    ("token", TOKEN),
    ("token-2", OTHER_TOKEN),
    ("tokens.toml", admin::TOKENS_FILE),
    ("secret", "a secret of at least thirty-two bytes"),
    ("secret-2", "another secret of thirty-two bytes and more"),
    ("authorization", "of-the-broker\n"),
    (
        "rules.toml",
        "[[role]]\nname = \"none\"\nrules = [{ deny = [\"publish\"], topics = \"#\" }]\n[[assign]]\neveryone = true\nroles = \"none\"\n",
    ),
    ("publishers.toml", files::PUBLISHERS),
    (
        "roles.toml",
        "[[role]]\nname = \"all\"\nrules = [{ allow = [\"publish\"], topics = \"#\" }]\n\
         [[role]]\nname = \"none\"\nrules = [{ allow = [\"publish\"], topics = \"none\" }]\n\
         [[assign]]\neveryone = true\nroles = \"none\"\n",
    ),
    (
        "contracts/contracts.toml",
        "[[contract]]\nname = \"strict\"\ntopics = \"strict\"\nformat = \"json\"\nschema = \"object.json\"\non_violation = \"reject\"\n\
         [[contract]]\nname = \"anything\"\ntopics = \"anything\"\nformat = [\"json\", \"messagepack\"]\nschema = \"anything.json\"\n",
    ),
    ("contracts/object.json", "{\"type\": \"object\"}"),
    ("contracts/anything.json", "{}"),
];

const OTHER_TOKEN: &str = "another-token-0123456789";
const STEPS: usize = 3;

fn name_of(row: usize, step: usize) -> String {
    format!("u{row}-{step}")
}

/// The result of a connection: the code of CONNACK, or "closed".
fn connect_result(connecting: &ConnectBuilder<'_>) -> String {
    connack_of(&mut connecting.send_unless_closed())
}

fn connack_of(client: &mut Client) -> String {
    match client.next_or_closed() {
        Some(packet) => match packet.as_packet() {
            Packet::ConnAck(connack) => code(connack.reason.as_u8()),
            other => panic!("expected CONNACK, got {other:?}"),
        },
        None => CLOSED.to_owned(),
    }
}

fn code(code: u8) -> String {
    format!("{code:#x}")
}

fn yes_if(condition: bool) -> String {
    if condition { YES } else { NO }.to_owned()
}

/// Runs each row: without, with, and without again.
fn try_all(rows: &[Row], settings: &[&str]) {
    try_with(1, rows, settings);
    try_with(2, rows, settings);
}

fn try_with(threads: usize, rows: &[Row], settings: &[&str]) {
    let scene = ReloadTest::new(threads, rows, settings);
    let only = std::env::var("TAUTWIRE_RELOAD_KEY").unwrap_or_default();
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| row.keys.concat().contains(&only)) {
        let steps = [(row.off, row.without), (row.on, row.with), (row.off, row.without)];
        for (step, (text, expected)) in steps.into_iter().enumerate() {
            scene.name.replace(name_of(number, step));
            scene.expected.set(expected);
            let name = scene.name();
            // In the first step, the row's file is not loaded yet.
            let before = matches!(row.see, Before(_)).then(|| {
                if step == 0 {
                    scene.reload(&row.file.replace("{}", text));
                }
                scene.connecting(&name).open()
            });
            let answer = scene.reload(&row.file.replace("{}", text));
            if step > 0 {
                expect_named(row, &answer);
            }
            let seen = match (&row.see, before) {
                (Before(see), Some(client)) => see(&scene, client),
                (After(see), _) => see(&scene),
                (Before(_), None) => unreachable!("the client was connected before"),
            };
            assert_eq!(seen, expected, "{:?}, step {step}, {threads} threads", row.keys);
        }
    }
}

/// The response lists exactly the changed keys, in the right category.
#[track_caller]
fn expect_named(row: &Row, answer: &Answer) {
    if row.keys.iter().any(|key| matches!(*key, "listener name" | "listener address")) {
        // Another listener.
        assert_eq!(keys(answer, "listeners_added").len(), 1, "{}", answer.body);
        return;
    }
    let named: BTreeSet<String> =
        ["applied", "applied_to_new_connections"].iter().flat_map(|list| keys(answer, list)).collect();
    let expected: BTreeSet<String> = row.keys.iter().map(|key| key.replace("listener ", "listener own: ")).collect();
    assert_eq!(named, expected, "{}", answer.body);
    assert_eq!(keys(answer, "pending_restart"), [""; 0]);
}

#[test]
fn every_reloadable_key_has_a_row() {
    let output = Command::new(program()).args(["config", "doc"]).output().expect("the program starts");
    let doc = String::from_utf8(output.stdout).expect("text");
    let (common, own) = doc.split_once("## `[[listener]]`").expect("there are keys of listeners");
    // A bridge with any changed key is restarted as a whole: tests/bridge/test_reload.py.
    let (own, _) = own.split_once("## `[[bridge]]`").expect("there are keys of bridges");
    let of = |text: &str, prefix: &str| -> Vec<String> {
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let live =
            rows.filter(|(_, rest)| rest.contains(" | immediately | ") || rest.contains(" | new connections | "));
        live.filter(|(key, _)| !key.starts_with("cluster.")).map(|(key, _)| format!("{prefix}{key}")).collect()
    };
    let documented: BTreeSet<String> = of(common, "").into_iter().chain(of(own, "listener ")).collect();
    assert!(documented.len() > 100, "{documented:?}");
    let groups = [
        admin::ROWS,
        auth::ROWS,
        files::ROWS,
        files::KEPT,
        files::LOG,
        limits::ROWS,
        listeners::ROWS,
        offer::ROWS,
        telemetry::ROWS,
        users::ROWS,
    ];
    let tried = groups.iter().flat_map(|rows| rows.iter()).flat_map(|row| row.keys).map(|key| (*key).to_owned());
    let tried: Vec<String> = tried.chain(super::admin::KEYS.map(str::to_owned)).collect();
    let unique: BTreeSet<String> = tried.iter().cloned().collect();
    assert_eq!(unique.len(), tried.len(), "a key has two rows");
    assert_eq!(documented.difference(&unique).collect::<Vec<_>>(), [""; 0], "keys without a row");
    assert_eq!(unique.difference(&documented).collect::<Vec<_>>(), [""; 0], "rows of keys that need a restart");
}
