//! Capabilities offered to new connections: in CONNACK, by TLS, by WebSocket.

use std::io::Write as _;

use tautwire_protocol::{Property, PropertyId};

use super::users::delivered_of_two;
use super::{ACCEPTED, After, NO, ReloadTest, Row, YES, try_all, yes_if};
use crate::support::websocket::{BINARY, FIN, WebSocket, request};
use crate::support::{Client, Transport, V5};

pub(super) const ROWS: &[Row] = &[
    Row {
        keys: &["mqtt.receive_maximum"],
        file: "{}\n",
        off: "",
        on: "mqtt.receive_maximum = 7",
        see: After(|scene| connect_result(scene, PropertyId::ReceiveMaximum)),
        without: "1024",
        with: "7",
    },
    Row {
        keys: &["mqtt.maximum_packet_size"],
        file: "{}\n",
        off: "",
        on: "mqtt.maximum_packet_size = 5000",
        see: After(|scene| connect_result(scene, PropertyId::MaximumPacketSize)),
        without: "16777216",
        with: "5000",
    },
    Row {
        keys: &["mqtt.topic_alias_maximum"],
        file: "{}\n",
        off: "",
        on: "mqtt.topic_alias_maximum = 3",
        see: After(|scene| connect_result(scene, PropertyId::TopicAliasMaximum)),
        without: "64",
        with: "3",
    },
    Row {
        keys: &["mqtt.max_keep_alive_s"],
        file: "{}\n",
        off: "",
        on: "mqtt.max_keep_alive_s = 5",
        see: After(|scene| connect_result(scene, PropertyId::ServerKeepAlive)),
        without: "none",
        with: "5",
    },
    Row {
        keys: &["mqtt.max_qos"],
        file: "{}\n",
        off: "",
        on: "mqtt.max_qos = 1",
        see: After(|scene| connect_result(scene, PropertyId::MaximumQoS)),
        without: "none",
        with: "AtLeastOnce",
    },
    Row {
        keys: &["mqtt.retain_available"],
        file: "{}\n",
        off: "",
        on: "mqtt.retain_available = false",
        see: After(|scene| connect_result(scene, PropertyId::RetainAvailable)),
        without: "none",
        with: "false",
    },
    Row {
        keys: &["mqtt.wildcard_subscription_available"],
        file: "{}\n",
        off: "",
        on: "mqtt.wildcard_subscription_available = false",
        see: After(|scene| connect_result(scene, PropertyId::WildcardSubscriptionAvailable)),
        without: "none",
        with: "false",
    },
    Row {
        keys: &["mqtt.shared_subscription_available"],
        file: "{}\n",
        off: "",
        on: "mqtt.shared_subscription_available = false",
        see: After(|scene| connect_result(scene, PropertyId::SharedSubscriptionAvailable)),
        without: "none",
        with: "false",
    },
    Row {
        keys: &["mqtt.subscription_identifier_available"],
        file: "{}\n",
        off: "",
        on: "mqtt.subscription_identifier_available = false",
        see: After(|scene| connect_result(scene, PropertyId::SubscriptionIdentifierAvailable)),
        without: "none",
        with: "false",
    },
    Row {
        keys: &["mqtt.response_information"],
        file: "{}\n",
        off: "",
        on: "mqtt.response_information = \"answers/\"",
        see: After(|scene| yes_if(connect_result(scene, PropertyId::ResponseInformation).contains("answers/"))),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["mqtt.max_session_expiry_s"],
        file: "{}\n",
        off: "",
        on: "mqtt.max_session_expiry_s = 5",
        see: After(|scene| connect_result(scene, PropertyId::SessionExpiryInterval)),
        without: "none",
        with: "5",
    },
    Row {
        keys: &["mqtt.protocol_versions"],
        file: "{}\n",
        off: "",
        on: "mqtt.protocol_versions = \"3.1.1\"",
        see: After(ReloadTest::connects),
        without: ACCEPTED,
        with: "0x84",
    },
    Row {
        keys: &["mqtt.allow_empty_client_id"],
        file: "{}\n",
        off: "",
        on: "mqtt.allow_empty_client_id = false",
        see: After(connects_without_client_id),
        without: ACCEPTED,
        with: "0x85",
    },
    Row {
        keys: &["mqtt.assigned_client_id_prefix"],
        file: "{}\n",
        off: "",
        on: "mqtt.assigned_client_id_prefix = \"gate-\"",
        see: After(is_assigned_prefixed_client_id),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["mqtt.connect_timeout_s"],
        file: "{}\n",
        off: "mqtt.connect_timeout_s = 3600",
        on: "mqtt.connect_timeout_s = 1",
        see: After(|scene| {
            let silent = Client::dial(Transport::Tcp(scene.broker.address()), V5);
            yes_if(silent.has_input_within(scene.patience(YES)))
        }),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.in_flight_per_client"],
        file: "{}\n",
        off: "",
        on: "limits.in_flight_per_client = 1",
        see: After(|scene| delivered_of_two(scene, scene.connecting(&scene.name()).open())),
        without: "2",
        with: "1",
    },
    Row {
        keys: &["limits.websocket_frame_bytes"],
        file: "{}\n",
        off: "",
        on: "limits.websocket_frame_bytes = 1000",
        see: After(|scene| takes_by_websocket(scene, 1)),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.websocket_message_bytes"],
        file: "{}\n",
        off: "",
        on: "limits.websocket_message_bytes = 1000",
        see: After(|scene| takes_by_websocket(scene, 4)),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["websocket.allowed_origins"],
        file: "{}\n",
        off: "",
        on: "websocket.allowed_origins = [\"https://example.org\"]",
        see: After(|scene| {
            let mut websocket = WebSocket::dial(scene.broker.websocket_address());
            let changed = [("Host", "broker.example.com"), ("Origin", "https://example.org")];
            websocket.stream.write_all(request("/mqtt", &changed).as_bytes()).expect("the request is sent");
            websocket.answer().split(' ').nth(1).unwrap_or_default().to_owned()
        }),
        without: "403",
        with: "101",
    },
];

#[test]
fn server_capabilities_apply_to_new_connections() {
    try_all(ROWS, &[]);
}

/// A property of CONNACK for a client that requests a session of a minute and Response Information.
pub(super) fn connect_result(scene: &ReloadTest, property: PropertyId) -> String {
    let name = scene.name();
    let connecting = scene.connecting(&name).session_expiry_s(60);
    let client = connecting.property(Property::RequestResponseInformation(true)).open();
    let connect_result = client.connack().properties.get(property).map(|property| format!("{property:?}"));
    // NAME: VALUE
    let connect_result =
        connect_result.map_or("none".to_owned(), |connect_result| connect_result.split(": ").skip(1).collect());
    client.disconnect();
    connect_result
}

/// The result for a client without an identifier.
pub(super) fn connects_without_client_id(scene: &ReloadTest) -> String {
    super::connect_result(&scene.connecting(""))
}

/// Whether the assigned identifier of such a client starts with `gate-`.
pub(super) fn is_assigned_prefixed_client_id(scene: &ReloadTest) -> String {
    let client = scene.connecting("").open();
    let assigned = client.connack().properties.get(PropertyId::AssignedClientIdentifier);
    let Some(Property::AssignedClientIdentifier(id)) = assigned else { panic!("an identifier is assigned") };
    yes_if(id.starts_with("gate-"))
}

/// Whether a message of 1,600 bytes is accepted over WebSocket in this many frames.
fn takes_by_websocket(scene: &ReloadTest, frames: usize) -> String {
    let name = "n".repeat(1_000);
    let long = "x".repeat(500);
    let connect = scene.broker.websocket_builder(V5, &name).user_name(&long).bytes();
    let mut websocket = WebSocket::open(scene.broker.websocket_address());
    let piece = connect.len().div_ceil(frames);
    for (number, bytes) in connect.chunks(piece).enumerate() {
        let opcode = if number == 0 { BINARY } else { crate::support::websocket::CONTINUATION };
        let fin = if (number + 1) * piece >= connect.len() { FIN } else { 0 };
        // The connection may be closed by then.
        let _ = websocket.stream.write_all(&crate::support::websocket::frame(fin | opcode, bytes));
    }
    yes_if(
        websocket.frame().is_some_and(|frame| frame.payload.first() == Some(&0x20) && frame.payload.get(3) == Some(&0)),
    )
}
