//! Restrictions of a listener or the configuration: versions, empty identifiers, QoS, topic aliases.

use std::num::NonZeroU16;

use tautwire_protocol::{Property, QoS, ReasonCode};

use super::connecting;
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, ConnectBuilder, ExactlyOnce, Folder, OutgoingPublish, Transport, V3_1,
    V3_1_1, V5, WillMessage, every_thread_count, options,
};

/// `mqtt.protocol_versions`: another version is refused with 0x84, or with return code 1 for versions before 5.0 [MQTT-3.1.2-2].
#[test]
fn a_version_that_is_not_enabled_is_refused() {
    for (accepted, refused) in [("3.1.1", [V3_1, V5]), ("5.0", [V3_1, V3_1_1]), ("3.1", [V3_1_1, V5])] {
        let broker = Broker::set(&[&format!("mqtt.protocol_versions={accepted}")]);
        for version in [V3_1, V3_1_1, V5] {
            let connecting = broker.connecting(version, "client");
            if refused.contains(&version) {
                assert_eq!(connecting.refused(), if version.is_v5() { 0x84 } else { 1 }, "{version} of {accepted}");
            } else {
                connecting.open().ping();
            }
        }
    }
}

/// The refusal comes before a password is checked, and the setting of a listener overrides the global one.
#[test]
fn a_listener_has_its_own_versions() {
    let folder = Folder::new(&[("users", "")]);
    let tables = "[mqtt]\nprotocol_versions = \"3.1.1\"\n\
                  [[listener]]\naddress = \"127.0.0.1:0\"\nmqtt.protocol_versions = [\"5.0\"]\nauth.anonymous = true\n\
                  [[listener]]\naddress = \"127.0.0.1:0\"\nauth.anonymous = false\nauth.password_file = \"users\"\n";
    let broker = Broker::with_listeners(1, &folder, tables, &[]);
    let to = |index, version| ConnectBuilder::new(Transport::Tcp(broker.other_address(index)), version, "client");
    to(0, V5).open().ping();
    assert_eq!(to(0, V3_1_1).refused(), 1);
    assert_eq!(to(1, V5).user_name("nobody").password(b"x").refused(), 0x84);
    assert_eq!(to(1, V3_1_1).user_name("nobody").password(b"x").refused(), 4);
}

/// `mqtt.allow_empty_client_id`: 0x85 [MQTT-3.1.3-8], return code 2 [3.1.1: MQTT-3.1.3-8].
#[test]
fn an_empty_client_identifier_is_refused_if_configured() {
    let broker = Broker::set(&["mqtt.allow_empty_client_id=false"]);
    for (version, code) in [(V5, 0x85), (V3_1_1, 2)] {
        assert_eq!(broker.connecting(version, "").refused(), code);
        broker.connecting(version, "named").open().ping();
    }
    let folder = Folder::new(&[]);
    let tables = "[mqtt]\nallow_empty_client_id = false\n\
                  [[listener]]\naddress = \"127.0.0.1:0\"\nmqtt.allow_empty_client_id = true\n\
                  mqtt.assigned_client_id_prefix = \"gate-\"\n";
    let broker = Broker::with_listeners(2, &folder, tables, &[]);
    let mut client = connecting(broker.other_address(0), "").open();
    client.ping();
    assert!(assigned(&client).starts_with("gate-"), "{}", assigned(&client));
}

fn assigned(client: &Client) -> String {
    let found = client.connack().properties.iter().find_map(|property| match property {
        Property::AssignedClientIdentifier(id) => Some(id.to_owned()),
        _ => None,
    });
    found.expect("an identifier is assigned [MQTT-3.2.2-16]")
}

/// `mqtt.assigned_client_id_prefix`: on each shard, and the client can resume its session with it.
#[test]
fn assigned_identifiers_have_the_configured_prefix() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["mqtt.assigned_client_id_prefix=dév-"]);
        let client = broker.connecting(V5, "").open();
        let id = assigned(&client);
        assert!(id.starts_with("dév-") && id.len() == "dév-".len() + 16, "{id}");
        client.disconnect();
        broker.connecting(V5, &id).open().ping();
    });
    let stderr = Broker::refused(&["mqtt.assigned_client_id_prefix=a-long-prefix-", "limits.client_id_bytes=23"]);
    assert!(stderr.contains("client identifiers of 30 bytes, but limits.client_id_bytes is 23"), "{stderr}");
}

/// `mqtt.max_qos` of a listener: CONNACK announces it [MQTT-3.2.2-9], SUBSCRIBE of any QoS is accepted [MQTT-3.2.2-10], and a PUBLISH above
/// it ends the connection [MQTT-3.2.2-11]. A will above it is refused [MQTT-3.2.2-12].
#[test]
fn a_listener_has_its_own_maximum_qos() {
    let folder = Folder::new(&[]);
    let tables = "[[listener]]\naddress = \"127.0.0.1:0\"\nmqtt.max_qos = 1\n\
                  [[listener]]\naddress = \"127.0.0.1:0\"\nmqtt.max_qos = 0\n";
    for threads in [1, 2] {
        let broker = Broker::with_listeners(threads, &folder, tables, &[]);
        for (index, version) in [(0, V5), (0, V3_1_1), (1, V5), (1, V3_1_1)] {
            let max_qos = [AtLeastOnce, AtMostOnce][index];
            let client_id = format!("client-{index}");
            let connecting = || ConnectBuilder::new(Transport::Tcp(broker.other_address(index)), version, &client_id);
            let mut client = connecting().open();
            if version.is_v5() {
                let properties: Vec<Property<'_>> = client.connack().properties.iter().collect();
                assert!(properties.contains(&Property::MaximumQoS(max_qos)), "{properties:?}");
            }
            assert_eq!(client.subscribe_all(&[("t", options(ExactlyOnce))], &[]), [max_qos as u8]);
            client.publish("t", max_qos, b"x");
            assert_eq!(client.receive().text(), "x");
            client.send_publish(&OutgoingPublish::new("t", above(max_qos), b"x"));
            client.expect_server_disconnect(ReasonCode::QoSNotSupported);
            let mut refused = connecting().will(WillMessage::new("t", b"x").qos(above(max_qos))).send();
            if version.is_v5() {
                assert_eq!(refused.expect_connack_code(), 0x9B);
            }
            refused.expect_closed();
        }
        // Listeners without the setting accept all.
        let mut client = broker.connect(V5, "all");
        client.subscribe("u", ExactlyOnce);
        client.publish("u", ExactlyOnce, b"x");
        assert_eq!(client.receive().qos(), ExactlyOnce);
    }
}

fn above(qos: QoS) -> QoS {
    if qos == AtMostOnce { AtLeastOnce } else { ExactlyOnce }
}

/// A listener may allow more than the global setting.
#[test]
fn a_listener_can_offer_more_than_the_others() {
    let folder = Folder::new(&[]);
    let tables = "[mqtt]\nmax_qos = 0\ntopic_alias_maximum = 0\n\
                  [[listener]]\naddress = \"127.0.0.1:0\"\nmqtt.max_qos = 2\nmqtt.topic_alias_maximum = 3\n";
    let broker = Broker::with_listeners(1, &folder, tables, &[]);
    let mut client = connecting(broker.other_address(0), "more").open();
    client.subscribe("t", ExactlyOnce);
    let alias = NonZeroU16::new(3).map(Property::TopicAlias).expect("not 0");
    client.deliver(&OutgoingPublish::new("t", ExactlyOnce, b"x").property(alias));
    assert_eq!(client.receive().qos(), ExactlyOnce);
}

/// `mqtt.topic_alias_maximum` of a listener [MQTT-3.2.2-17]; 0 is expressed by omitting the property.
#[test]
fn a_listener_has_its_own_topic_alias_maximum() {
    let folder = Folder::new(&[]);
    let tables = "[[listener]]\naddress = \"127.0.0.1:0\"\nmqtt.topic_alias_maximum = 2\n\
                  [[listener]]\naddress = \"127.0.0.1:0\"\nmqtt.topic_alias_maximum = 0\n";
    let broker = Broker::with_listeners(1, &folder, tables, &[]);
    for (index, most) in [(0, 2), (1, 0)] {
        let mut client = connecting(broker.other_address(index), "client").open();
        let maximum = client.connack().properties.iter().find_map(|property| match property {
            Property::TopicAliasMaximum(maximum) => Some(maximum),
            _ => None,
        });
        assert_eq!(maximum.unwrap_or(0), most);
        let mut publish = |alias| {
            let alias = NonZeroU16::new(alias).map(Property::TopicAlias).expect("not 0");
            client.send_publish(&OutgoingPublish::new("t", AtMostOnce, b"x").property(alias));
        };
        if most > 0 {
            publish(most);
        }
        publish(most + 1);
        client.expect_server_disconnect(ReasonCode::TopicAliasInvalid);
    }
}
