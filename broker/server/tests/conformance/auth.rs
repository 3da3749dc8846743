//! AUTH and authentication methods, of which this broker has none configured.

use tautwire_protocol::{Auth, AuthReason, Properties, Property};

use crate::support::{Broker, V3_1_1, V5};

/// [MQTT-4.12.0-1]
#[test]
fn an_unknown_authentication_method_is_refused() {
    let broker = Broker::start();
    let connecting = broker.connecting(V5, "client").property(Property::AuthenticationMethod("SCRAM-SHA-256"));
    assert_eq!(connecting.refused(), 0x8c);
    let with_data = connecting.property(Property::AuthenticationData(b"client-first"));
    assert_eq!(with_data.refused(), 0x8c);
}

/// 3.1.2.11.10 of 5.0: data without a method is a Protocol Error.
#[test]
fn authentication_data_without_a_method_is_refused() {
    let broker = Broker::start();
    let mut client = broker.dial(V5);
    // CONNECT, 5.0, clean start, Authentication Data "x", client id "a".
    client.send_bytes(b"\x10\x12\x00\x04MQTT\x05\x02\x00\x3c\x04\x16\x00\x01x\x00\x01a");
    assert_eq!(client.expect_connack_code(), 0x82);
    client.expect_closed();
}

/// [MQTT-4.12.0-7]: AUTH without a method agreed on at CONNECT is a Protocol Error.
#[test]
fn auth_without_an_agreed_method_is_refused() {
    let broker = Broker::start();
    for reason in [AuthReason::ContinueAuthentication, AuthReason::ReAuthenticate] {
        let mut client = broker.connect(V5, "client");
        client.send_auth(Auth { reason, properties: Properties::from(&[Property::AuthenticationMethod("X")][..]) });
        assert_eq!(client.expect_disconnect(), 0x82);
    }
}

/// 3.15.2.1 of 5.0: the short form means success with no properties; it is a Protocol Error here all the same.
#[test]
fn a_short_auth_is_refused() {
    let broker = Broker::start();
    let mut client = broker.connect(V5, "client");
    client.send_bytes(&[0xf0, 0x00]);
    assert_eq!(client.expect_disconnect(), 0x82);
}

/// [MQTT-3.15.1-1]
#[test]
fn auth_with_wrong_flags_is_malformed() {
    let broker = Broker::start();
    let mut client = broker.connect(V5, "client");
    client.send_bytes(&[0xf1, 0x00]);
    assert_eq!(client.expect_disconnect(), 0x81);
}

/// 3.1.1, 2.2.1: packet type 15 is reserved.
#[test]
fn auth_does_not_exist_in_3_1_1() {
    let broker = Broker::start();
    let mut client = broker.connect(V3_1_1, "client");
    client.send_bytes(&[0xf0, 0x00]);
    client.expect_closed();
}

/// [MQTT-3.1.0-1]
#[test]
fn auth_before_connect_closes_the_connection() {
    let broker = Broker::start();
    let mut client = broker.dial(V5);
    client.send_bytes(&[0xf0, 0x00]);
    client.expect_closed();
}

/// [MQTT-4.12.0-6]: the broker sends no AUTH and no Authentication Method if the client named none.
#[test]
fn connack_has_no_authentication_method_unless_requested() {
    let broker = Broker::start();
    let client = broker.connecting(V5, "client").user_name("someone").password(b"secret").open();
    let properties = client.connack().properties;
    assert!(
        !properties.iter().any(|property| {
            matches!(property, Property::AuthenticationMethod(_) | Property::AuthenticationData(_))
        })
    );
}
