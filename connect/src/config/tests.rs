use std::path::Path;

use super::*;

fn errors(text: &str) -> Vec<String> {
    let found = Config::parse(Path::new("connect.toml"), text).err().unwrap_or_default();
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn errors_have_line_column_and_code() {
    let head = "[broker]\nurl = 'mqtt://127.0.0.1'\nclient_id = 'c'\n[[sink]]\nname = 'a'\ntype = 'postgresql'\nurl = 'postgresql://h'\n";
    for (rest, expected) in [
        (
            "table = 't'\ntopics = ['a/+', 'a/{b}']",
            "connect.toml:9:18: a/{b} and a/+ match the same topics, which would be stored twice [config_overlap]",
        ),
        ("table = 't'\ntopics = ['a/#']\nqos = 0", "connect.toml:10:7: qos is 0; it must be 1 or 2 [config_value]"),
        (
            "table = 't'\ntopics = ['a/#']\ncontract = 'x'",
            "connect.toml:10:12: there is no contract x; set contracts.path, or correct the name [config_contract]",
        ),
        ("topics = ['a/#']", "connect.toml:5:8: the key table is missing in this sink [config_missing]"),
        (
            "table = 't'\ntopics = ['a/#']\nsubject = 's'",
            "connect.toml:10:11: a sink of this type has no key subject [config_unknown_key]",
        ),
        (
            "table = 't'\ntopics = ['a/#']\ndead_letter = 'a/b'",
            "connect.toml:10:15: the dead-letter topic a/b is one of the sink's own topics (a/#) [config_dead_letter]",
        ),
        (
            "table = 't'\ntopics = ['a/#']\nkey = ['x']",
            "connect.toml:10:8: there is no column x; the columns are topic, payload, received_at [config_key]",
        ),
        (
            "table = 't'\ntopics = ['a/#']\nreceive_maximum = 20000",
            "connect.toml:10:19: receive_maximum is 20000; it must be between 1 and 16384 [config_value]",
        ),
    ] {
        assert_eq!(errors(&format!("{head}{rest}\n")), [expected]);
    }
    assert!(errors(&format!("{head}tabel = 't'\n"))[0].starts_with("connect.toml:8:1: unknown field `tabel`"));
}

#[test]
fn a_configuration_has_defaults() {
    let text = "[broker]\nurl = 'mqtt://127.0.0.1'\nclient_id = 'c'\n[[sink]]\nname = 'a'\ntype = 'webhook'\nurl = 'http://h'\ntopics = ['a/{b}']\nshare = 'g'\n";
    let config = Config::parse(Path::new("connect.toml"), text).expect("valid");
    let sink = &config.sinks[0];
    assert_eq!(
        (&*sink.client_id, &*sink.filters, &*sink.dead_letter),
        ("c.a", &["$share/g/a/+".to_owned()][..], "dead-letter/c.a")
    );
    assert_eq!(sink.qos, tautwire_client::QoS::ExactlyOnce);
}
