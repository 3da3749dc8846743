//! Settings of a `[[listener]]` table that override the global ones: access rules, MQTT settings, limits.

use std::num::{NonZeroU16, NonZeroU32};
use std::process::Command;
use std::time::Instant;

use tautwire_protocol::{Property, ReasonCode};

use super::{connect, connecting};
use crate::support::{
    AtLeastOnce, Broker, Client, EXPECT_TIMEOUT, ExactlyOnce, Folder, NEVER, OutgoingPublish, TOKEN, admin, options,
    program,
};

fn rules(filter: &str) -> String {
    format!(
        "[[role]]\nname = \"all\"\nrules = [{{ allow = [\"publish\", \"subscribe\"], topics = \"{filter}\" }}]\n\
         [[assign]]\neveryone = true\nroles = \"all\"\n"
    )
}

/// Whether a client may publish to the topic.
fn may_publish(client: &mut Client, topic: &str) -> bool {
    client.publish(topic, AtLeastOnce, b"") != 0x87
}

/// `acl.file` of a table overrides the global one, and is reloaded with it.
#[test]
fn a_listener_has_its_own_access_rules() {
    for threads in [1, 2] {
        let folder = Folder::new(&[]);
        folder.write("all.toml", &rules("common/#"));
        folder.write("own.toml", &rules("own/#"));
        folder.write("token", TOKEN);
        let tables = "[acl]\nfile = \"all.toml\"\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"token\"\n\
                      [[listener]]\naddress = \"127.0.0.1:0\"\nname = \"own\"\nacl.file = \"own.toml\"\n\
                      [[listener]]\naddress = \"127.0.0.1:0\"\nname = \"open\"\nacl.file = \"\"\n\
                      [[listener]]\naddress = \"127.0.0.1:0\"\nname = \"common\"\n";
        let broker = Broker::with_listeners(threads, &folder, tables, &["admin.listen=127.0.0.1:0"]);
        let mut own = connect(broker.other_address(0), "own");
        let mut open = connect(broker.other_address(1), "open");
        let mut common = connect(broker.other_address(2), "common");
        assert!(may_publish(&mut own, "own/a") && !may_publish(&mut own, "common/a"));
        assert!(may_publish(&mut open, "own/a") && may_publish(&mut open, "common/a"));
        assert!(may_publish(&mut common, "common/a") && !may_publish(&mut common, "own/a"));
        let requests = ["own/x", "common/x"].map(|filter| (filter, options(AtLeastOnce)));
        assert_eq!(own.subscribe_all(&requests, &[]), [1, 0x87]);
        assert_eq!(common.subscribe_all(&requests, &[]), [0x87, 1]);

        folder.write("own.toml", &rules("other/#"));
        let answer = admin(broker.admin_address(), "POST", "/config/reload", "").expect(200).body;
        assert!(answer.contains("\"rules\":2"), "{answer}");
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        while may_publish(&mut own, "own/a") {
            assert!(Instant::now() < deadline, "the rules of the listener were not reloaded");
        }
        assert!(may_publish(&mut own, "other/a") && may_publish(&mut common, "common/a"));
        let taken = || admin(broker.admin_address(), "GET", "/metrics", "").number("subscriptions_revoked");
        while taken() == 0 {
            assert!(Instant::now() < deadline, "the subscription was not removed");
        }
        open.publish("common/x", AtLeastOnce, b"still there");
        assert_eq!(common.receive().text(), "still there");
        assert_eq!(taken(), 1);
        // Errors in them are reported like those in the global rules, and nothing changes.
        folder.write("own.toml", "");
        let body = admin(broker.admin_address(), "POST", "/config/reload", "").expect(422).body;
        assert!(body.contains("own.toml") && body.contains("access_empty"), "{body}");
        assert!(may_publish(&mut own, "other/a"));
    }
}

#[test]
fn explain_names_the_rules_of_a_listener() {
    let folder = Folder::new(&[]);
    folder.write("all.toml", &rules("common/#"));
    folder.write("own.toml", &rules("own/#"));
    folder.write(
        "tautwire.toml",
        "[acl]\nfile = \"all.toml\"\n[[listener]]\naddress = \"127.0.0.1:1883\"\nname = \"own\"\nacl.file = \"own.toml\"\n\
         [[listener]]\naddress = \"127.0.0.1:1884\"\nname = \"common\"\n",
    );
    let explain = |listener: &str, topic: &str| {
        let mut command = Command::new(program());
        command.args(["acl", "explain", "--config"]).arg(folder.path().join("tautwire.toml"));
        let output = command.args(["--listener", listener, "client", "publish", topic]).output().expect("it runs");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        (output.status.code(), text)
    };
    let (code, text) = explain("own", "own/a");
    assert!(code == Some(0) && text.contains("own.toml:3, role all"), "{text}");
    assert_eq!(explain("common", "own/a").0, Some(3));
    let (code, text) = explain("common", "common/a");
    assert!(code == Some(0) && text.contains("all.toml:3, role all"), "{text}");
    let (code, text) = explain("nowhere", "a");
    assert!(code == Some(1) && text.contains("unknown listener \"nowhere\"; configured are own, common"), "{text}");
}

/// The keys of the table override those of `[mqtt]`, which apply to other listeners.
#[test]
fn a_listener_offers_the_features_of_its_table() {
    let folder = Folder::new(&[]);
    let tables = "[mqtt]\nmaximum_packet_size = 2000\n\
                  [[listener]]\naddress = \"127.0.0.1:0\"\n[listener.mqtt]\nreceive_maximum = 2\nmaximum_packet_size = 100\n\
                  max_keep_alive_s = 30\nmax_session_expiry_s = 60\n\
                  [[listener]]\naddress = \"127.0.0.1:0\"\nmqtt.maximum_packet_size = 4000\n";
    let broker = Broker::with_listeners(2, &folder, tables, &[]);
    let (few, more) = (broker.other_address(0), broker.other_address(1));
    let open = || connecting(few, "few").keep_alive_s(0).session_expiry_s(NEVER).open();
    let mut client = open();
    let properties: Vec<Property<'_>> = client.connack().properties.iter().collect();
    for property in [
        NonZeroU16::new(2).map(Property::ReceiveMaximum),
        NonZeroU32::new(100).map(Property::MaximumPacketSize),
        Some(Property::ServerKeepAlive(30)),
        Some(Property::SessionExpiryInterval(60)),
    ] {
        assert!(property.is_some_and(|property| properties.contains(&property)), "{property:?}: {properties:?}");
    }
    // Fixed header, topic, packet identifier, property length.
    let most = 100 - 2 - 3 - 2 - 1;
    assert_eq!(client.publish("t", AtLeastOnce, &vec![0; most]), 0x10);
    client.send_publish(&OutgoingPublish::new("t", AtLeastOnce, &vec![0; most + 1]));
    client.expect_server_disconnect(ReasonCode::PacketTooLarge);
    let mut client = open();
    for _ in 0..3 {
        client.send_publish(&OutgoingPublish::new("t", ExactlyOnce, b""));
    }
    for id in [1, 2] {
        client.expect_pubrec(id);
    }
    client.expect_server_disconnect(ReasonCode::ReceiveMaximumExceeded);
    assert!(connecting(few, "few").clean_start(false).open().session_present());

    let mut client = connecting(more, "more").keep_alive_s(0).session_expiry_s(NEVER).open();
    let properties: Vec<Property<'_>> = client.connack().properties.iter().collect();
    assert!(
        NonZeroU32::new(4000).is_some_and(|maximum| properties.contains(&Property::MaximumPacketSize(maximum))),
        "{properties:?}"
    );
    assert!(
        !properties
            .iter()
            .any(|property| matches!(property, Property::ServerKeepAlive(_) | Property::SessionExpiryInterval(_)))
    );
    assert_eq!(client.publish("t", AtLeastOnce, &[0; 3_000]), 0x10);
    let mut common = connect(broker.address(), "common");
    common.send_publish(&OutgoingPublish::new("t", AtLeastOnce, &[0; 3_000]));
    common.expect_server_disconnect(ReasonCode::PacketTooLarge);
}

/// 3.1.1 has no property for it, but the limit applies.
#[test]
fn session_expiry_is_limited_by_the_listener() {
    let folder = Folder::new(&[]);
    let tables = "[[listener]]\naddress = \"127.0.0.1:0\"\nmqtt.max_session_expiry_s = 0\n";
    let broker = Broker::with_listeners(1, &folder, tables, &[]);
    let persistent = |address| connecting(address, "client").persistent().open();
    persistent(broker.other_address(0)).disconnect();
    assert!(!persistent(broker.other_address(0)).session_present());
    persistent(broker.address()).disconnect();
    assert!(persistent(broker.other_address(0)).session_present(), "it was kept for the other listener");
}

fn is_accepted(folder: &mut Vec<Client>, connecting: &crate::support::ConnectBuilder<'_>) -> bool {
    let mut client = connecting.send_unless_closed();
    let is_closed = client.is_closed_without_data();
    if !is_closed {
        client.expect_accepted();
        folder.push(client);
    }
    !is_closed
}

/// The limits of a table apply in addition to the global ones.
#[test]
fn a_listener_has_its_own_address_and_rate_limits() {
    for (limits, key, most) in [
        ("connections_per_address = 2", "limits.connections_per_address", 2),
        ("connect_rate = 1\nconnect_burst = 3", "limits.connect_rate", 3),
        ("connect_rate_per_address = 1\nconnect_burst_per_address = 3", "limits.connect_rate_per_address", 3),
    ] {
        let folder = Folder::new(&[]);
        let table = format!("[[listener]]\nname = \"few\"\naddress = \"127.0.0.1:0\"\n[listener.limits]\n{limits}\n");
        let broker = Broker::with_listeners(1, &folder, &table, &["limits.connections_per_address=30"]);
        let started_at = Instant::now();
        let mut open = Vec::new();
        let names: Vec<String> = (0..10).map(|number| format!("client-{number}")).collect();
        let count = |address, open: &mut Vec<Client>| {
            names.iter().filter(|name| is_accepted(open, &connecting(address, name))).count()
        };
        let accepted = count(broker.other_address(0), &mut open);
        let most = most + if key.contains("rate") { started_at.elapsed().as_secs() as usize + 1 } else { 0 };
        assert!((2..=most).contains(&accepted), "{key}: {accepted}");
        assert_eq!(count(broker.address(), &mut open), 10, "{key}: the limit applies to one listener only");
        drop(open);
        let log = broker.end();
        assert!(
            log.contains(&format!("refused connection: {key} is reached listener=few address=127.0.0.1:")),
            "{log}"
        );
    }
}
