//! Commands that the access rules deny say so, at once, with what has to be allowed.

use crate::contracts::Folder;
use crate::process::{Broker, Ended};

const MANIFEST: &str =
    "[[contract]]\nname = \"state\"\ntopics = \"state/#\"\nformat = \"json\"\nschema = \"state.json\"\n";

/// A broker whose clients may do what `rules` say, with a contract.
fn broker(rules: &str) -> (Broker, Folder) {
    let rules =
        format!("[[role]]\nname = \"all\"\nrules = [{rules}]\n\n[[assign]]\neveryone = true\nroles = \"all\"\n");
    let folder = Folder::new(&[("contracts.toml", MANIFEST), ("state.json", "{}"), ("access.toml", &rules)]);
    let set = [format!("contracts.path={}", folder.path("")), format!("acl.file={}", folder.path("access.toml"))];
    (Broker::with(&set.each_ref().map(String::as_str)), folder)
}

/// Each command that asks for contracts.
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
        let said = ended.expect(3).stderr;
        let denied =
            "access to $SYS/contracts/request is denied: Not authorized (0x87): the access rules do not allow this";
        assert!(said.contains(denied), "{said}");
        assert!(
            said.contains("the access rules must allow this client to publish to $SYS/contracts/request"),
            "{said}"
        );
    }
    // Its acknowledgement cannot say so.
    for ended in each(&broker, "3.1.1") {
        let said = ended.expect(2).stderr;
        assert!(said.contains("took the request on $SYS/contracts/request and did not answer"), "{said}");
        assert!(said.contains("the access rules deny this client to publish there") && said.contains("-V 5"), "{said}");
    }
}

#[test]
fn a_broker_without_discovery_says_so() {
    let folder = Folder::new(&[("contracts.toml", MANIFEST), ("state.json", "{}")]);
    let broker = Broker::with(&[&format!("contracts.path={}", folder.path("")), "contracts.discovery=false"]);
    let said = broker.discover(&[]).expect(3).stderr;
    assert!(said.contains("contracts.discovery must be true"), "{said}");
}

#[test]
fn contracts_are_asked_for_where_the_broker_has_qos_0_alone() {
    let folder = Folder::new(&[("contracts.toml", MANIFEST), ("state.json", "{}")]);
    let broker = Broker::with(&[&format!("contracts.path={}", folder.path("")), "mqtt.max_qos=0"]);
    assert!(broker.discover(&[]).expect(0).text().contains("state/#"));
}

/// Changes of contracts are then not seen; everything else works.
#[test]
fn payloads_are_decoded_for_who_may_ask_and_not_subscribe_below_sys() {
    let rules = r##"{ allow = ["publish", "subscribe"], topics = "#" }, { allow = "publish", topics = "$SYS/contracts/request" }"##;
    let (broker, _folder) = broker(rules);
    for version in ["5", "3.1.1"] {
        let subscriber = broker.subscribe(&["-V", version, "--decode", "-C", "1", "state/#"]);
        broker.publish(&["-V", version, "-q", "1", "--json", "{\"on\":true}", "state/lamp"]).expect(0);
        let ended = subscriber.end().expect(0);
        assert_eq!(ended.text(), "{\"on\":true}\n");
        assert!(ended.stderr.contains("changes of the contracts are not seen: the server refused"), "{}", ended.stderr);
    }
}

#[test]
fn a_denied_topic_or_filter_is_named_with_what_must_be_allowed() {
    let (broker, _folder) = broker(r#"{ allow = ["publish", "subscribe"], topics = "state/#" }"#);
    let said = broker.subscribe_to_end(&["secret/#"]).expect(3).stderr;
    assert!(said.contains("secret/#: Not authorized (0x87)"), "{said}");
    assert!(said.contains("must allow this client to subscribe to every topic that secret/# matches"), "{said}");
    let said = broker.subscribe_to_end(&["-V", "3.1.1", "secret/#"]).expect(3).stderr;
    assert!(said.contains("the access rules may deny secret/#") && said.contains("-V 5"), "{said}");
    let said = broker.publish(&["-q", "1", "secret/a", "x"]).expect(3).stderr;
    assert!(said.contains("must allow this client to publish to secret/a"), "{said}");
}
