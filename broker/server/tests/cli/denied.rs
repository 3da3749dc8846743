//! Commands that the access rules deny report it at once, with what must be allowed.

use crate::contracts::Folder;
use crate::process::{Broker, Ended};

const MANIFEST: &str =
    "[[contract]]\nname = \"state\"\ntopics = \"state/#\"\nformat = \"json\"\nschema = \"state.json\"\n";

/// A broker with a contract and these access rules.
fn broker(rules: &str) -> (Broker, Folder) {
    let rules =
        format!("[[role]]\nname = \"all\"\nrules = [{rules}]\n\n[[assign]]\neveryone = true\nroles = \"all\"\n");
    let folder = Folder::new(&[("contracts.toml", MANIFEST), ("state.json", "{}"), ("access.toml", &rules)]);
    let set = [format!("contracts.path={}", folder.path("")), format!("acl.file={}", folder.path("access.toml"))];
    (Broker::with(&set.each_ref().map(String::as_str)), folder)
}

/// Each command that fetches contracts.
fn each(broker: &Broker, version: &str) -> [Ended; 3] {
    [
        broker.discover(&["-V", version]),
        broker.publish(&["-V", version, "-q", "1", "--json", "{}", "state/lamp"]),
        broker.subscribe_to_end(&["-V", version, "--decode", "state/#"]),
    ]
}

#[test]
fn a_denied_contract_request_is_reported() {
    let (broker, _folder) = broker(r##"{ allow = ["publish", "subscribe"], topics = "#" }"##);
    for ended in each(&broker, "5") {
        let stderr_text = ended.expect(3).stderr;
        let denied =
            "access to $SYS/contracts/request is denied: Not authorized (0x87): the access rules do not allow this";
        assert!(stderr_text.contains(denied), "{stderr_text}");
        assert!(
            stderr_text.contains("the access rules must allow this client to publish to $SYS/contracts/request"),
            "{stderr_text}"
        );
    }
    // An acknowledgement of 3.1.1 has no reason code.
    for ended in each(&broker, "3.1.1") {
        let stderr_text = ended.expect(2).stderr;
        assert!(
            stderr_text.contains("accepted the request on $SYS/contracts/request but did not respond"),
            "{stderr_text}"
        );
        assert!(
            stderr_text.contains("the access rules do not allow this client to publish there")
                && stderr_text.contains("-V 5"),
            "{stderr_text}"
        );
    }
}

#[test]
fn a_broker_without_discovery_is_reported() {
    let folder = Folder::new(&[("contracts.toml", MANIFEST), ("state.json", "{}")]);
    let broker = Broker::with(&[&format!("contracts.path={}", folder.path("")), "contracts.discovery=false"]);
    let stderr_text = broker.discover(&[]).expect(3).stderr;
    assert!(stderr_text.contains("contracts.discovery must be true"), "{stderr_text}");
}

#[test]
fn contracts_are_requested_from_a_broker_limited_to_qos_0() {
    let folder = Folder::new(&[("contracts.toml", MANIFEST), ("state.json", "{}")]);
    let broker = Broker::with(&[&format!("contracts.path={}", folder.path("")), "mqtt.max_qos=0"]);
    assert!(broker.discover(&[]).expect(0).text().contains("state/#"));
}

/// Only changes of contracts are not seen then.
#[test]
fn payloads_are_decoded_with_only_permission_to_request() {
    let rules = r##"{ allow = ["publish", "subscribe"], topics = "#" }, { allow = "publish", topics = "$SYS/contracts/request" }"##;
    let (broker, _folder) = broker(rules);
    for version in ["5", "3.1.1"] {
        let subscriber = broker.subscribe(&["-V", version, "--decode", "-C", "1", "state/#"]);
        broker.publish(&["-V", version, "-q", "1", "--json", "{\"on\":true}", "state/lamp"]).expect(0);
        let ended = subscriber.end().expect(0);
        assert_eq!(ended.text(), "{\"on\":true}\n");
        assert!(
            ended.stderr.contains("cannot subscribe to changes of the contracts: the server refused"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_denied_topic_or_filter_is_reported_with_the_missing_permission() {
    let (broker, _folder) = broker(r#"{ allow = ["publish", "subscribe"], topics = "state/#" }"#);
    let stderr_text = broker.subscribe_to_end(&["secret/#"]).expect(3).stderr;
    assert!(stderr_text.contains("secret/#: Not authorized (0x87)"), "{stderr_text}");
    assert!(
        stderr_text.contains("must allow this client to subscribe to every topic that secret/# matches"),
        "{stderr_text}"
    );
    let stderr_text = broker.subscribe_to_end(&["-V", "3.1.1", "secret/#"]).expect(3).stderr;
    assert!(
        stderr_text.contains("the access rules may deny secret/#") && stderr_text.contains("-V 5"),
        "{stderr_text}"
    );
    let stderr_text = broker.publish(&["-q", "1", "secret/a", "x"]).expect(3).stderr;
    assert!(stderr_text.contains("must allow this client to publish to secret/a"), "{stderr_text}");
}
