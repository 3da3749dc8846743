//! Enhanced authentication [MQTT 5.0 section 4.12].

use std::sync::Arc;

use tautwire_access::Identity;
use tautwire_engine::{AuthDecision, AuthRequest};
use tautwire_protocol::{Auth, AuthReason, ConnectReason, Packet, PacketType, Properties, Property, QoS, ReasonCode};

use crate::world::{Client, World, identity};
use crate::{V5, code, connack, connect, publish};

const METHOD: Property<'static> = Property::AuthenticationMethod("M");

fn challenge(data: &[u8], state: u32) -> AuthDecision {
    AuthDecision::Challenge { data: data.into(), state: Box::new(state) }
}

fn admitted(user: &str, data: &[u8]) -> AuthDecision {
    AuthDecision::Admitted { identity: Arc::new(identity(user)), data: Some(data.into()) }
}

fn send_auth(world: &mut World, client: Client, reason: AuthReason, method: &str, data: &[u8]) {
    let properties = [Property::AuthenticationMethod(method), Property::AuthenticationData(data)];
    world.send(client, &Packet::Auth(Auth { reason, properties: Properties::from_list(&properties) }));
}

/// An AUTH or CONNACK: whether it is AUTH, its reason code, and its authentication data.
fn step(packet: &Packet<'_>) -> (bool, u8, Vec<u8>) {
    let (is_auth, code, properties) = match packet {
        Packet::Auth(auth) => (true, auth.reason.as_u8(), auth.properties),
        Packet::ConnAck(connack) => (false, connack.reason.as_u8(), connack.properties),
        other => panic!("{other:?}"),
    };
    assert_eq!(properties.authentication_method(), Some("M"), "[MQTT-4.12.0-5]");
    (is_auth, code, properties.authentication_data().unwrap_or_default().to_vec())
}

/// A client that has sent CONNECT and has received a challenge.
fn challenged_client(world: &mut World, client_id: &str) -> Client {
    let client = world.connection();
    let properties = [METHOD, Property::AuthenticationData(b"one")];
    world.send(client, &Packet::Connect(connect(client_id, &properties)));
    let Some(AuthRequest::Connect(attempt)) = world.auth_request(client) else {
        panic!("there is no authentication request")
    };
    assert_eq!((attempt.method.as_deref(), attempt.data.as_deref()), (Some("M"), Some(&b"one"[..])));
    world.apply_auth_decision(client, challenge(b"two", 2));
    assert_eq!(world.received(V5, client, step), [(true, 0x18, b"two".to_vec())]);
    client
}

fn connected_client(world: &mut World, client_id: &str) -> Client {
    let client = challenged_client(world, client_id);
    send_auth(world, client, AuthReason::ContinueAuthentication, "M", b"three");
    let Some(AuthRequest::Continue { data, state }) = world.auth_request(client) else {
        panic!("the exchange does not continue")
    };
    assert_eq!((&*data, state.downcast_ref::<u32>()), (&b"three"[..], Some(&2)));
    world.apply_auth_decision(client, challenge(b"four", 4));
    assert_eq!(world.received(V5, client, step), [(true, 0x18, b"four".to_vec())]);
    // Byte by byte.
    let properties = [METHOD, Property::AuthenticationData(b"five")];
    let auth = Auth { reason: AuthReason::ContinueAuthentication, properties: Properties::from_list(&properties) };
    let mut bytes = Vec::new();
    Packet::Auth(auth).append_to(V5, &mut bytes).expect("a valid packet");
    for byte in bytes {
        world.send_bytes(client, &[byte]);
    }
    assert!(matches!(world.auth_request(client), Some(AuthRequest::Continue { .. })));
    world.apply_auth_decision(client, admitted("ann", b"six"));
    assert_eq!(world.received(V5, client, step), [(false, 0, b"six".to_vec())]);
    client
}

#[test]
fn the_exchange_continues_until_connack_on_any_shard() {
    let mut world = World::new(2);
    for number in 0..8 {
        let client = connected_client(&mut world, &format!("c{number}"));
        world.send(client, &Packet::PingReq);
        assert_eq!(
            world.received(V5, client, |packet| packet.packet_type()),
            [PacketType::PingResp],
            "AUTH is handled twice"
        );
    }
}

#[test]
fn only_auth_is_accepted_before_connack() {
    for packet in [Packet::PingReq, Packet::Connect(connect("b", &[]))] {
        let mut world = World::new(1);
        let client = challenged_client(&mut world, "a");
        world.send(client, &packet);
        assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::ProtocolError)]);
        assert!(world.is_closed(client));
    }
    for (reason, method) in [(AuthReason::ContinueAuthentication, "N"), (AuthReason::ReAuthenticate, "M")] {
        let mut world = World::new(1);
        let client = challenged_client(&mut world, "a");
        send_auth(&mut world, client, reason, method, b"x");
        assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::ProtocolError)]);
    }
}

#[test]
fn a_client_can_publish_while_it_reauthenticates() {
    let mut world = World::new(2);
    let client = connected_client(&mut world, "a");
    send_auth(&mut world, client, AuthReason::ReAuthenticate, "M", b"again");
    let Some(AuthRequest::Reauthenticate(attempt)) = world.auth_request(client) else {
        panic!("there is no second authentication request")
    };
    assert_eq!((&*attempt.client_id, attempt.data.as_deref()), ("a", Some(&b"again"[..])));
    publish(&mut world, client, "t", QoS::AtLeastOnce, false);
    assert_eq!(code(&mut world, client), ReasonCode::NoMatchingSubscribers);
    world.apply_auth_decision(client, challenge(b"more", 1));
    assert_eq!(world.received(V5, client, step), [(true, 0x18, b"more".to_vec())]);
    send_auth(&mut world, client, AuthReason::ContinueAuthentication, "M", b"x");
    assert!(world.auth_request(client).is_some());
    let same_client = Identity { client_id: Some("a".into()), ..identity("ann") };
    world.apply_auth_decision(
        client,
        AuthDecision::Admitted { identity: Arc::new(same_client), data: Some((*b"done").into()) },
    );
    assert_eq!(world.received(V5, client, step), [(true, 0, b"done".to_vec())]);
    assert!(!world.is_closed(client));
}

#[test]
fn a_failed_reauthentication_disconnects_the_client() {
    let other_client = Identity { client_id: Some("b".into()), ..identity("ann") };
    let decisions = [
        AuthDecision::Refused { reason: ConnectReason::NotAuthorized, why: "no".into(), detail: None },
        admitted("another user", b""),
        AuthDecision::Admitted { identity: Arc::new(other_client), data: None },
    ];
    for decision in decisions {
        let mut world = World::new(2);
        let client = connected_client(&mut world, "a");
        send_auth(&mut world, client, AuthReason::ReAuthenticate, "M", b"again");
        world.apply_auth_decision(client, decision);
        assert_eq!(code(&mut world, client), ReasonCode::NotAuthorized);
        assert!(world.is_closed(client));
    }
}

#[test]
fn auth_out_of_turn_is_a_protocol_error() {
    let reauthenticate = |world: &mut World, client| send_auth(world, client, AuthReason::ReAuthenticate, "M", b"x");
    type Step<'s> = &'s dyn Fn(&mut World, Client);
    let steps: [Step<'_>; 4] = [
        &|world, client| send_auth(world, client, AuthReason::ContinueAuthentication, "M", b"x"),
        &|world, client| send_auth(world, client, AuthReason::ReAuthenticate, "N", b"x"),
        &|world, client| {
            world.send(client, &Packet::Auth(Auth { reason: AuthReason::Success, properties: Properties::EMPTY }))
        },
        &|world, client| {
            reauthenticate(world, client);
            reauthenticate(world, client);
        },
    ];
    for step in steps {
        let mut world = World::new(1);
        let client = connected_client(&mut world, "a");
        step(&mut world, client);
        assert_eq!(code(&mut world, client), ReasonCode::ProtocolError);
        assert!(world.is_closed(client));
    }
}

/// [MQTT-3.1.2-24]
#[test]
fn a_challenge_above_the_maximum_packet_size_ends_the_connection() {
    let mut world = World::new(2);
    let client = world.connection();
    let maximum = std::num::NonZeroU32::new(64).expect("not 0");
    let properties = [METHOD, Property::AuthenticationData(b"one"), Property::MaximumPacketSize(maximum)];
    world.send(client, &Packet::Connect(connect("a", &properties)));
    world.apply_auth_decision(client, challenge(&[b'x'; 100], 1));
    assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::PacketTooLarge)]);
    assert!(world.is_closed(client));
}
