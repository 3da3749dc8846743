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
fn clients_are_looked_at_and_ended() {
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
    assert!(ask(&["sessions", "list", "--away"]).expect(0).text().contains("meter 7 "));
    let why = ask(&["why", "-q", "0", "meter 7", "power/3/kwh"]).expect(3).text();
    assert!(why.contains("[away_qos_0]"), "{why}");
    ask(&["sessions", "delete", "meter 7"]).expect(0);
    ask(&["clients", "show", "meter 7"]).expect(3);
}

#[test]
fn bans_listeners_and_counters_are_shown() {
    let (broker, secrets) = broker();
    let token = secrets.path("token");
    let ask = |words: &[&str]| -> Ended {
        let admin = ["--admin", broker.admin(), "--token-file", &token];
        run(&[words, &admin].concat())
    };
    ask(&["bans", "add", "user", "eve", "--for", "3600", "--why", "said \"no\""]).expect(0);
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
fn what_is_not_understood_is_said() {
    for (words, part) in [
        (&["clients"][..], "tautwire clients list"),
        (&["clients", "lst"], "tautwire clients list"),
        (&["clients", "list"], "--admin and --token-file are needed"),
        (&["clients", "list", "x"], "unexpected argument"),
        (&["clients", "show"], "write the Client Identifier"),
        (&["why", "a"], "write CLIENT and TOPIC"),
        (&["client"], "did you mean clients?"),
    ] {
        let ended = run(words).expect(1);
        assert!(ended.stderr.contains(part), "{words:?}: {}", ended.stderr);
    }
}
