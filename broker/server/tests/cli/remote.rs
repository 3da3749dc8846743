//! `tautwire clients`, `sessions`, `subscriptions` and `why`, on a running broker.

use crate::contracts::Folder;
use crate::process::{Broker, Ended, run};

const TOKEN: &str = "a-token-for-tests-0123456789";

fn broker() -> (Broker, Folder) {
    let secrets = Folder::new(&[("token", TOKEN)]);
    let token = format!("admin.token_file={}", secrets.path("token"));
    (Broker::with(&[&token, "admin.listen=127.0.0.1:0"]), secrets)
}

#[test]
fn clients_are_listed_and_disconnected() {
    let (broker, secrets) = broker();
    let token = secrets.path("token");
    let ask = |words: &[&str]| -> Ended {
        let admin = ["--admin", broker.admin(), "--token-file", &token];
        run(&[words, &admin].concat())
    };
    let subscriber = broker.subscribe(&["-i", "meter 7", "-c", "-x", "600", "-q", "1", "power/+/kwh"]);

    let list = ask(&["clients", "list", "--sort", "subscriptions", "--descending"]).expect(0).text();
    assert!(list.starts_with("client ") && list.contains("meter 7 ") && list.ends_with("1 of 1\n"), "{list}");
    let shown = ask(&["clients", "show", "meter 7"]).expect(0).text();
    assert!(shown.contains("connected                  yes\n"), "{shown}");
    let subscriptions = ask(&["subscriptions", "list", "meter 7"]).expect(0).text();
    assert!(subscriptions.contains("power/+/kwh  1 "), "{subscriptions}");
    let json = ask(&["subscriptions", "list", "meter 7", "--json"]).expect(0).text();
    assert!(json.starts_with("{\"subscriptions\":[{\"filter\":\"power/+/kwh\",\"qos\":1,"), "{json}");

    let why = ask(&["why", "meter 7", "power/3/kwh"]).expect(0).text();
    assert!(why.starts_with("a message would arrive\n- the subscription power/+/kwh matches"), "{why}");
    let why = ask(&["why", "meter 7", "power/3/kw"]).expect(3).text();
    assert!(why.contains("nearest: power/+/kwh [not_subscribed]\n  to change it: "), "{why}");

    ask(&["clients", "disconnect", "meter 7"]).expect(0);
    assert_eq!(subscriber.end().code, Some(2));
    assert!(ask(&["clients", "list"]).expect(0).text().ends_with("0 of 0\n"));
    assert!(ask(&["sessions", "list", "--offline"]).expect(0).text().contains("meter 7 "));
    let why = ask(&["why", "-q", "0", "meter 7", "power/3/kwh"]).expect(3).text();
    assert!(why.contains("[offline_qos_0]"), "{why}");
    ask(&["sessions", "delete", "meter 7"]).expect(0);
    ask(&["clients", "show", "meter 7"]).expect(3);
}

#[test]
fn a_search_of_counters_without_a_match_is_reported() {
    let folder = Folder::new(&[("token", TOKEN)]);
    let token = folder.path("token");
    let broker = Broker::with(&[&format!("admin.token_file={token}"), "admin.listen=127.0.0.1:0"]);
    let search = |text: &str| {
        run(&["stats", "show", "--search", text, "--admin", broker.admin(), "--token-file", &token]).expect(0)
    };
    for (text, reason) in
        [("no_such_counter", "no metric has such a name"), ("violations_rejected", "all matching metrics are 0")]
    {
        let ended = search(text);
        assert_eq!(ended.text(), "");
        assert!(ended.stderr.contains(text) && ended.stderr.contains(reason), "{}", ended.stderr);
    }
    assert_eq!(search("admin_requests").stderr, "");
}

#[test]
fn the_api_is_used_over_tls() {
    let folder = Folder::new(&[("token", TOKEN)]);
    let (tls, token) = (folder.path("tls"), folder.path("token"));
    run(&["cert", "--dir", &tls]).expect(0);
    let file = |key: &str, name: &str| format!("{key}={tls}/{name}");
    let settings = [
        format!("admin.token_file={token}"),
        file("admin.certificate", "server.pem"),
        file("admin.key", "server.key"),
        "admin.listen=https://127.0.0.1:0".to_owned(),
    ];
    let broker = Broker::with(&settings.each_ref().map(String::as_str));
    assert!(broker.admin().starts_with("https://127.0.0.1:"), "{}", broker.admin());
    let ca = format!("{tls}/ca.pem");
    let ask = |words: &[&str], more: &[&str]| {
        run(&[words, &["--admin", broker.admin(), "--token-file", &token], more].concat())
    };
    ask(&["clients", "list"], &["--ca", &ca]).expect(0);
    ask(&["config", "diff"], &["--ca", &ca]).expect(0);
    // The broker cannot prove its identity, so the token is not sent.
    let stranger = ask(&["clients", "list"], &["--ca", &format!("{tls}/server.pem")]);
    assert!(stranger.code == Some(2) && stranger.stderr.contains("certificate"), "{stranger:?}");
    let plain = broker.admin().replace("https://", "http://");
    let plain = run(&["clients", "list", "--admin", &plain, "--token-file", &token]).expect(3);
    assert!(plain.stderr.contains("[https_required]"), "{}", plain.stderr);
    let useless =
        run(&["clients", "list", "--admin", "http://127.0.0.1:1", "--token-file", &token, "--ca", &ca]).expect(1);
    assert!(useless.stderr.contains("https://"), "{}", useless.stderr);
}

#[test]
fn bans_listeners_and_counters_are_shown() {
    let (broker, secrets) = broker();
    let token = secrets.path("token");
    let ask = |words: &[&str]| -> Ended {
        let admin = ["--admin", broker.admin(), "--token-file", &token];
        run(&[words, &admin].concat())
    };
    ask(&["bans", "add", "user", "eve", "--duration", "3600", "--reason", "said \"no\""]).expect(0);
    ask(&["bans", "add", "network", "192.0.2.0/24"]).expect(0);
    let list = ask(&["bans", "list"]).expect(0).text();
    assert!(list.contains("user     eve") && list.contains("said \"no\"") && list.contains("192.0.2.0/24"), "{list}");
    ask(&["bans", "delete", "user", "eve"]).expect(0);
    ask(&["bans", "delete", "user", "eve"]).expect(3);
    assert!(!ask(&["bans", "list", "--json"]).expect(0).text().contains("eve"));
    ask(&["bans", "add", "network", "nowhere"]).expect(3);
    ask(&["bans", "add", "colour", "red"]).expect(1);

    broker.publish(&["a", "b"]).expect(0);
    let listeners = ask(&["listeners", "list"]).expect(0).text();
    assert!(listeners.starts_with("name ") && listeners.contains("127.0.0.1:"), "{listeners}");
    let stats = ask(&["stats", "show", "--search", "publishes_received"]).expect(0).text();
    assert_eq!(stats.split_whitespace().collect::<Vec<_>>(), ["publishes_received", "1"]);
}

#[test]
fn retained_messages_are_listed_shown_and_removed() {
    let (broker, secrets) = broker();
    let token = secrets.path("token");
    let ask = |words: &[&str]| -> Ended {
        let admin = ["--admin", broker.admin(), "--token-file", &token];
        run(&[words, &admin].concat())
    };
    for topic in ["power/3/kwh", "power/4/kwh", "water"] {
        broker.publish(&["-r", "-q", "1", topic, "17 & more"]).expect(0);
    }
    let list = ask(&["retained", "list", "power/#", "--limit", "1"]).expect(0).text();
    assert!(list.starts_with("topic        qos  bytes") && list.contains("power/3/kwh  1    9"), "{list}");
    assert!(list.ends_with("1 of 2\nmore: --after 'power/3/kwh'\n"), "{list}");
    let shown = ask(&["retained", "show", "power/3/kwh"]).expect(0).text();
    assert!(shown.ends_with("payload       17 & more\n"), "{shown}");
    ask(&["retained", "show", "power"]).expect(3);
    assert_eq!(ask(&["retained", "delete", "power/#"]).expect(0).text(), "deleted 2\n");
    let json = ask(&["retained", "list", "--json"]).expect(0).text();
    assert!(json.starts_with("{\"matched\":1,\"messages\":[{\"topic\":\"water\""), "{json}");
    ask(&["retained", "delete", "$SYS/#"]).expect(3);
    ask(&["retained", "delete"]).expect(1);
}

#[test]
fn the_overview_of_the_broker_is_shown() {
    let (broker, secrets) = broker();
    let token = secrets.path("token");
    let ask = |words: &[&str]| -> Ended {
        let admin = ["--admin", broker.admin(), "--token-file", &token];
        run(&[words, &admin].concat())
    };
    broker.publish(&["-r", "-q", "1", "power/3/kwh", "17"]).expect(0);
    let shown = ask(&["top", "--once"]).expect(0).text();
    assert!(shown.starts_with("tautwire ") && shown.contains("\nmessages in - out -"), "{shown}");
    assert!(shown.contains("\npower/#  1\n") && shown.contains("\nclient  connected"), "{shown}");
    let json = ask(&["top", "--once", "--json"]).expect(0).text();
    assert!(json.starts_with("{\"overview\":{\"version\":") && json.lines().count() == 1, "{json}");
    assert!(json.contains(",\"clients\":{\"matched\":") && json.contains(",\"topics\":{\"levels\":["), "{json}");
    ask(&["top", "--once", "--interval", "0"]).expect(1);
    assert!(ask(&["acl", "list"]).expect(0).text().starts_with("there are no access rules"));
}

#[test]
fn access_rules_are_listed_with_their_place() {
    let rules = "[[role]]\nname = \"all\"\nrules = [{ allow = \"subscribe\", topics = \"#\" }]\n";
    let folder = Folder::new(&[("token", TOKEN), ("access.toml", rules)]);
    let (token, file) = (folder.path("token"), folder.path("access.toml"));
    let settings =
        [format!("admin.token_file={token}"), format!("acl.file={file}"), "admin.listen=127.0.0.1:0".to_owned()];
    let broker = Broker::with(&settings.each_ref().map(String::as_str));
    let listed = run(&["acl", "list", "--admin", broker.admin(), "--token-file", &token]).expect(0).text();
    assert!(listed.contains(&format!("{file}:3")) && listed.ends_with("\n1 of 1\n"), "{listed}");
}

#[test]
fn published_messages_can_be_watched() {
    let secrets = Folder::new(&[("token", TOKEN)]);
    let token = secrets.path("token");
    let setting = format!("admin.token_file={token}");
    let broker = Broker::with(&[&setting, "admin.listen=127.0.0.1:0", "sys.interval_s=1"]);
    let admin = ["--admin", broker.admin(), "--token-file", &token];
    // The broker publishes this topic every second.
    let shown = run(&[&["tap", "-C", "2", "$SYS/broker/uptime"], &admin[..]].concat()).expect(0).text();
    assert_eq!(shown.lines().count(), 2, "{shown}");
    assert!(shown.lines().all(|line| line.contains(" - $SYS/broker/uptime ")), "{shown}");
    let json = run(&[&["tap", "-C", "1", "--json", "--rate", "500", "$SYS/#"], &admin[..]].concat()).expect(0).text();
    assert!(json.starts_with("{\"at_ms\":") && json.contains("\"text\":\""), "{json}");
    let wrong = run(&[&["tap", "--rate", "501"], &admin[..]].concat()).expect(3);
    assert!(wrong.stderr.contains("[bad_query]"), "{}", wrong.stderr);
}

#[test]
fn invalid_arguments_are_reported() {
    for (words, part) in [
        (&["clients"][..], "tautwire clients list"),
        (&["clients", "lst"], "tautwire clients list"),
        (&["clients", "list"], "--admin and --token-file are required"),
        (&["clients", "list", "x"], "unexpected argument"),
        (&["clients", "show"], "expected the client identifier"),
        (&["why", "a"], "expected CLIENT and TOPIC"),
        (&["client"], "did you mean clients?"),
    ] {
        let ended = run(words).expect(1);
        assert!(ended.stderr.contains(part), "{words:?}: {}", ended.stderr);
    }
}
