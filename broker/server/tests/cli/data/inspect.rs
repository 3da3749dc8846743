//! `data check`, `stats` and `dump` of an intact directory.

use crate::data::world::{MESSAGES, World};
use crate::process::run;

#[test]
fn check_describes_the_directory_and_changes_nothing() {
    let world = World::closed(6_000);
    let before = world.files();
    let text = world.data("check", &[]).expect(0).text();
    for part in [
        ": intact\n",
        "format     2\n",
        "snapshot   none\n",
        "log        45 frames with 112 records, in ",
        "; closed cleanly\n",
        "state      3 sessions and 1 retained message\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = world.data("check", &["--json"]).expect(0).text();
    for part in [
        "\"status\":\"intact\"",
        "\"frames\":45",
        "\"sessions\":3",
        "\"closed\":true",
        "\"torn\":null",
        "\"damage\":[]",
    ] {
        assert!(json.contains(part), "{part}: {json}");
    }
    assert_eq!(world.files().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert!(world.files() == before, "it was changed");
}

#[test]
fn the_directory_can_come_from_the_configuration() {
    let world = World::closed(100);
    let file = world.beside("tautwire.toml");
    std::fs::write(&file, "threads = 1\n[data]\npath = \"data\"\n").expect("can be written");
    for arguments in [&["--config", &file][..], &["--set", &world.setting()]] {
        let ended = run(&[&["data", "check"], arguments].concat()).expect(0);
        assert!(ended.text().contains("3 sessions"), "{ended:?}");
    }
}

#[test]
fn a_path_that_is_not_a_data_directory_is_refused() {
    let world = World::empty();
    let folder = world.beside("folder");
    std::fs::create_dir(&folder).expect("can be made");
    for command in ["check", "stats", "dump", "compact"] {
        let stderr_text = run(&["data", command, "--data", &folder]).expect(1).stderr;
        assert!(stderr_text.contains("the directory contains no journal [journal_empty]"), "{command}: {stderr_text}");
        let stderr_text = world.data(command, &[]).expect(1).stderr;
        assert!(stderr_text.contains("directory not found"), "{command}: {stderr_text}");
    }
    assert_eq!(std::fs::read_dir(&folder).expect("is there").count(), 0, "nothing was made in it");
    assert!(!world.path().exists());
}

#[test]
fn stats_count_sessions_messages_and_the_largest_queues() {
    let world = World::closed(6_000);
    let json = world.data("stats", &["--json"]).expect(0).text();
    for part in [
        "\"sessions\":3,\"subscriptions\":3,\"wills\":0,\"queued_messages\":60,",
        "\"in_flight_messages\":0,",
        "\"retained_messages\":1,",
        "\"spares\":0,",
        "\"snapshot\":null,\"snapshot_age_s\":null,",
        "\"largest_queues\":[{\"client_id\":\"first\",\"messages\":40,\"bytes\":",
        "},{\"client_id\":\"second\",\"messages\":20,\"bytes\":",
    ] {
        assert!(json.contains(part), "{part}: {json}");
    }
    let number = |name: &str| -> u64 {
        let (_, rest) = json.split_once(&format!("\"{name}\":")).expect("is there");
        rest.split([',', '}']).next().and_then(|digits| digits.parse().ok()).expect("a number")
    };
    assert!(number("queued_bytes") > 60 * 6_000 && number("queued_bytes") < 60 * 7_000, "{json}");
    // Within one frame of a snapshot, several sessions share one copy of a message.
    assert!(number("live_bytes") > 40 * 6_000 && number("live_bytes") < 41 * 6_100 + 4_000, "{json}");
    let text = world.data("stats", &[]).expect(0).text();
    assert!(
        text.contains("queued messages                  60   ") && text.contains("messages  \"first\"\n"),
        "{text}"
    );

    world.data("compact", &[]).expect(0);
    let text = world.data("stats", &[]).expect(0).text();
    assert!(text.contains("queued messages                  60   ") && text.contains(" s ago\n"), "{text}");
}

#[test]
fn dump_has_a_line_for_each_record_and_hides_payloads_by_default() {
    let world = World::closed(100);
    let text = world.data("dump", &[]).expect(0).text();
    assert_eq!(text.lines().count(), 112, "{text}");
    let first = text.lines().next().expect("is there");
    assert_eq!(first, "log 8192 0000000012345678 0 1 Opened session=1 client_id=\"first\" at_ms=1");
    assert!(
        text.contains(" Message message=\"0000000000005eed-3e8\" topic=\"kept\" qos=1 retain=true payload_bytes=8\n"),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
    let text = world.data("dump", &["--payloads"]).expect(0).text();
    assert!(text.contains(" payload_bytes=8 payload=\"a secret\"\n"), "{text}");

    let json = world.data("dump", &["--json"]).expect(0).text();
    assert_eq!(json.lines().count(), 112);
    let queued = json.lines().find(|line| line.contains("\"record\":\"Queued\"")).expect("is there");
    for part in [
        "{\"from\":\"log\",\"position\":",
        "\"epoch\":\"0000000012345678\",\"shard\":0,\"turn\":3,",
        "\"client_id\":\"first\"",
    ] {
        assert!(queued.contains(part), "{part}: {queued}");
    }
    assert!(!json.contains("secret"), "{json}");
}

#[test]
fn dump_shows_one_session_or_one_topic() {
    let world = World::closed(100);
    let count = |arguments: &[&str], name: &str| {
        let text = world.data("dump", arguments).expect(0).text();
        text.lines().filter(|line| line.split(' ').nth(5) == Some(name)).count() as u64
    };
    for (client_id, messages) in [("first", MESSAGES), ("second", MESSAGES / 2), ("late", 0)] {
        let of_session = ["--session", client_id];
        assert_eq!(count(&of_session, "Opened"), 1);
        assert_eq!((count(&of_session, "Queued"), count(&of_session, "Message")), (messages, messages), "{client_id}");
    }
    assert_eq!((count(&["--topic", "t/4"], "Queued"), count(&["--topic", "t/4"], "Message")), (2, 1));
    assert_eq!(count(&["--topic", "kept"], "RetainedSet"), 1);
    assert_eq!(count(&["--topic", "t/#"], "Subscribed"), 3);
    let both = ["--topic", "t/4", "--session", "second"];
    assert_eq!((count(&both, "Queued"), count(&both, "Message"), count(&both, "Opened")), (1, 1, 0));
}

#[test]
fn a_directory_can_be_inspected_while_a_broker_writes() {
    let world = World::closed(6_000);
    let broker = world.serve(&[]);
    broker.publish(&["t/x", "hi", "-q", "1"]).expect(0);
    let text = world.data("check", &[]).expect(0).text();
    assert!(text.contains("end        a broker is running: read up to position "), "{text}");
    let stats = world.data("stats", &["--json"]).expect(0).text();
    assert!(stats.contains("\"in_use\":true") && stats.contains("\"queued_messages\":63,"), "{stats}");
    let dump = world.data("dump", &["--topic", "t/x"]).expect(0).text();
    assert_eq!(dump.lines().filter(|line| line.contains(" Queued ")).count(), 3, "{dump}");
    assert!(broker.stop().contains("stopping"));
}
