//! Files named in the configuration: rules, contracts, the audit log, the admin token; persistence; the log.

use std::fs;
use std::time::Instant;

use super::{
    ACCEPTED, After, Before, NO, OTHER_TOKEN, QUOTA_EXCEEDED, ReloadTest, Row, SERVER_BUSY, YES, code, try_all,
    try_with, yes_if,
};
use crate::support::{AtLeastOnce, AtMostOnce, Client, EXPECT_TIMEOUT, Folder, OutgoingPublish, TOKEN, V5};

pub(super) const ROWS: &[Row] = &[
    Row {
        keys: &["acl.file"],
        file: "{}\n",
        off: "",
        on: "acl.file = \"rules.toml\"",
        see: Before(may_publish),
        without: "0x10",
        with: "0x87",
    },
    Row {
        keys: &["acl.check_retained_publisher"],
        file: "acl.file = \"publishers.toml\"\n{}\n",
        off: "",
        on: "acl.check_retained_publisher = true",
        see: Before(is_withheld),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["contracts.path"],
        file: "{}\n",
        off: "",
        on: "contracts.path = \"contracts\"",
        see: Before(|_, mut client| code(client.publish("strict", AtLeastOnce, b"7"))),
        without: "0x10",
        with: "0x99",
    },
    Row {
        keys: &["contracts.discovery"],
        file: "contracts.path = \"contracts\"\n{}\n",
        off: "",
        on: "contracts.discovery = false",
        see: Before(|_, mut client| {
            client.subscribe("$SYS/contracts/index.json", AtMostOnce);
            client.ping();
            yes_if(client.pending_message().is_some())
        }),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.transcoded_bytes"],
        file: "contracts.path = \"contracts\"\n{}\n",
        off: "",
        on: "limits.transcoded_bytes = 1024",
        see: Before(|_, mut client| {
            client.subscribe("$as/msgpack/anything", AtLeastOnce);
            let payload = format!("\"{}\"", "x".repeat(2_000));
            assert_eq!(client.publish("anything", AtLeastOnce, payload.as_bytes()), 0);
            yes_if(client.receive().payload().len() > 2_000)
        }),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["metrics.topics"],
        file: "{}\n",
        off: "",
        on: "metrics.topics = [\"counted\"]",
        see: Before(|scene, mut client| {
            client.publish("counted", AtLeastOnce, b"7");
            yes_if(scene.ask("GET", "/v1/topic-metrics").body.contains("\"messages_received\":1,"))
        }),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["admin.token_file"],
        file: "{}\n",
        off: "",
        on: "admin.token_file = \"token-2\"",
        see: After(|scene| {
            let status = |token| scene.ask_by(token, "GET", "/metrics").status;
            format!("{} {}", status(TOKEN), status(OTHER_TOKEN))
        }),
        without: "200 401",
        with: "401 200",
    },
    Row {
        keys: &["audit.file"],
        file: "{}\n",
        off: "audit.file = \"audit-1\"",
        on: "audit.file = \"audit-2\"",
        see: After(|scene| {
            assert_eq!(scene.connects(), ACCEPTED);
            let line = format!("\"event\":\"connect\",\"client_id\":\"{}\"", scene.name());
            let deadline = Instant::now() + EXPECT_TIMEOUT;
            loop {
                let is_in = |name: &&str| {
                    fs::read_to_string(scene.folder.path().join(name)).is_ok_and(|text| text.contains(&line))
                };
                if let Some(name) = ["audit-1", "audit-2"].iter().find(|name| is_in(name)) {
                    return (*name).to_owned();
                }
                assert!(Instant::now() < deadline, "no audit log has {line}");
            }
        }),
        without: "audit-1",
        with: "audit-2",
    },
];

/// Rows of a broker with persistence.
pub(super) const KEPT: &[Row] = &[
    Row {
        keys: &["data.ack"],
        file: "{}\n",
        off: "",
        on: "data.ack = \"memory\"",
        see: After(waits_for_the_disk),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["data.ack_topics"],
        file: "{}\n",
        off: "",
        on: "data.ack_topics = [\"kept/# = memory\"]",
        see: Before(waits),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["data.ack_listeners"],
        file: "{}\n",
        off: "",
        on: "data.ack_listeners = [\"127.0.0.1:0 = memory\"]",
        see: After(waits_for_the_disk),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["listener ack"],
        file: "[[listener]]\nname = \"own\"\naddress = \"127.0.0.1:0\"\n{}\n",
        off: "",
        on: "ack = \"memory\"",
        see: After(waits_for_the_disk),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.spill_threshold_bytes"],
        file: "{}\n",
        off: "",
        on: "limits.spill_threshold_bytes = 65536",
        see: Before(|scene, mut client| {
            let topics = [1, 2, 3, 4, 5].map(|number| format!("hot/{}/{number}", scene.name()));
            let before = scene.metric("spill_writes");
            let mut set = |payload: &[u8]| {
                topics.iter().for_each(|topic| {
                    _ = client.deliver(&OutgoingPublish::new(topic, AtLeastOnce, payload).retained())
                });
            };
            set(&[b'x'; 100_000]);
            let until = Instant::now() + scene.patience(YES);
            let mut has_left = false;
            while !has_left && Instant::now() < until {
                has_left = scene.metric("spill_writes") > before;
            }
            set(b"");
            yes_if(has_left)
        }),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["disk.limit"],
        file: "limits.session_queue_bytes = 1000000000\n{}\n",
        off: "",
        on: "disk.limit = 67108864",
        see: Before(|scene, mut client| {
            let name = scene.name();
            let away_id = format!("away-{name}");
            // If there is no room, it is refused.
            let mut away = scene.connecting(&away_id).persistent().send();
            let connect_result = super::connack_of(&mut away);
            if connect_result == SERVER_BUSY {
                return yes_if(true);
            }
            assert_eq!(connect_result, ACCEPTED);
            away.subscribe(&name, AtLeastOnce);
            away.disconnect();
            let payload = vec![b'x'; 1 << 20];
            let refused = (0..80).map(|_| client.publish(&name, AtLeastOnce, &payload)).find(|code| *code != 0);
            scene.connecting(&away_id).open().disconnect();
            yes_if(code(refused.unwrap_or(0)) == QUOTA_EXCEEDED)
        }),
        without: NO,
        with: YES,
    },
];

pub(super) const LOG: &[Row] = &[
    Row {
        keys: &["log.level"],
        file: "log.rate_limit_burst = 0\n{}\n",
        off: "log.level = \"debug\"",
        on: "log.level = \"error\"",
        see: After(|scene| yes_if(is_logged(scene, |log| lines(log, "refused connection")))),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["log.format"],
        file: "log.rate_limit_burst = 0\n{}\n",
        off: "",
        on: "log.format = \"json\"",
        see: After(|scene| yes_if(is_logged(scene, |log| lines(log, "{\"time\"")))),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["log.rate_limit_burst"],
        file: "log.rate_limit_interval_s = 3600\n{}\n",
        off: "log.rate_limit_burst = 0",
        on: "log.rate_limit_burst = 1",
        see: After(|scene| yes_if(are_five_logged(scene))),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["log.rate_limit_interval_s"],
        file: "log.rate_limit_burst = 1\n{}\n",
        off: "log.rate_limit_interval_s = 3600",
        on: "log.rate_limit_interval_s = 1",
        see: After(|scene| yes_if(is_logged(scene, |log| lines(log, "suppressed ")))),
        without: NO,
        with: YES,
    },
];

#[test]
fn files_named_in_the_configuration_can_change() {
    try_all(ROWS, &[]);
}

#[test]
fn ack_levels_and_persistence_change_on_reload() {
    let folder = Folder::new(&[]);
    let data = |threads: usize| format!("data.path={}", folder.path().join(threads.to_string()).display());
    try_with(1, KEPT, &[&data(1)]);
    try_with(2, KEPT, &[&data(2)]);
}

#[test]
fn log_settings_can_change() {
    let log: Vec<String> = LOG.iter().map(|row| row.keys.concat()).collect();
    assert!(log.iter().all(|key| key.starts_with("log.")));
    try_with(1, LOG, &[]);
}

/// The result of publishing a message.
pub(super) fn may_publish(_: &ReloadTest, mut client: Client) -> String {
    code(client.publish("x", AtLeastOnce, b""))
}

/// Rules that let everybody publish; the replacement revokes that.
pub(super) const PUBLISHERS: &str = "[[role]]\nname = \"all\"\nrules = [{ allow = [\"publish\", \"subscribe\"], topics = \"#\" }]\n\
     [[assign]]\neveryone = true\nroles = \"all\"\n";

/// Whether a retained message is withheld from a new subscriber, once its publisher may no longer publish.
fn is_withheld(scene: &ReloadTest, mut publisher: Client) -> String {
    let name = scene.name();
    let set_rules = |rules: &str| {
        scene.folder.write("publishers.toml", rules);
        scene.ask("POST", "/config/reload").expect(200);
    };
    assert_eq!(code(publisher.deliver(&OutgoingPublish::new(&name, AtLeastOnce, b"x").retained())), "0x10");
    let before = scene.metric("retained_withheld");
    set_rules(&PUBLISHERS.replace("\"publish\", ", ""));
    assert_eq!(code(publisher.publish("another", AtLeastOnce, b"")), "0x87");
    let mut subscriber = scene.connecting("subscriber").open();
    subscriber.subscribe(&name, AtLeastOnce);
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    // The one message is either withheld or delivered.
    let is_withheld = loop {
        let soon = Instant::now() + std::time::Duration::from_millis(50);
        if subscriber.next_before(soon).is_some() {
            break false;
        }
        if scene.metric("retained_withheld") > before {
            break true;
        }
        assert!(Instant::now() < deadline, "the message is neither delivered nor withheld");
    };
    set_rules(PUBLISHERS);
    yes_if(is_withheld)
}

/// Whether acknowledgements to a new client wait for the disk.
fn waits_for_the_disk(scene: &ReloadTest) -> String {
    let name = scene.name();
    let client = scene.connecting(&name).open();
    waits(scene, client)
}

/// Whether each persistent message waited for a separate write: then there are as many writes as messages.
fn waits(scene: &ReloadTest, mut client: Client) -> String {
    const MESSAGES: u64 = 60;
    let topic = format!("kept/{}", scene.name());
    let until = Instant::now() + EXPECT_TIMEOUT;
    let waits = loop {
        let before = scene.metric("data_syncs");
        // Without waiting, the log batches writes, unless this thread is slower than the log.
        for number in 0..MESSAGES {
            let text = number.to_string();
            let outgoing = OutgoingPublish::new(&topic, AtLeastOnce, text.as_bytes()).retained();
            assert_eq!(code(client.deliver(&outgoing)), "0x10");
        }
        let waits = scene.metric("data_syncs") - before >= MESSAGES;
        if !waits || scene.expected.get() == YES || Instant::now() >= until {
            break waits;
        }
    };
    let _ = client.deliver(&OutgoingPublish::new(&topic, AtLeastOnce, b"").retained());
    yes_if(waits)
}

fn lines(log: &str, text: &str) -> usize {
    log.lines().filter(|line| line.contains(text)).count()
}

fn log(scene: &ReloadTest) -> String {
    fs::read_to_string(scene.folder.path().join("log")).unwrap_or_default()
}

/// Whether each of five refusals has a log line.
fn are_five_logged(scene: &ReloadTest) -> bool {
    let count = || lines(&log(scene), "refused connection");
    let before = count();
    (0..5).for_each(|_| is_refused(scene));
    let until = Instant::now() + scene.patience(YES);
    while Instant::now() < until && count() < before + 5 {}
    count() >= before + 5
}

/// Whether the number of such lines grows soon, while clients are refused.
fn is_logged(scene: &ReloadTest, count: impl Fn(&str) -> usize) -> bool {
    let before = count(&log(scene));
    let until = Instant::now() + scene.patience(YES);
    while Instant::now() < until {
        is_refused(scene);
        if count(&log(scene)) > before {
            return true;
        }
    }
    false
}

/// Connects with unknown credentials.
fn is_refused(scene: &ReloadTest) {
    let connecting = scene.broker.connecting(V5, "nobody").property(METHOD);
    assert_eq!(super::connect_result(&connecting), "0x8c");
}

pub(super) const METHOD: tautwire_protocol::Property<'static> =
    tautwire_protocol::Property::AuthenticationMethod("KERBEROS");
