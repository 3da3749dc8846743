//! CONNECT waits for an authentication decision.

use tautwire_engine::{AuthDecision, AuthProgress, AuthRequest};
use tautwire_protocol::{Connect, ConnectReason, Packet, PacketType};

use crate::world::{World, identity};
use crate::{V3, V5, connack, connect, connect_v3, member};

use std::sync::Arc;

fn refused(reason: ConnectReason) -> AuthDecision {
    AuthDecision::Refused { reason, why: "no".into(), detail: None }
}

#[test]
fn packets_after_connect_wait_for_authentication() {
    for shards in [1, 2] {
        let mut world = World::new(shards);
        // Each shard has some of these sessions.
        for number in 0..8 {
            let name = format!("c{number}");
            let client = world.connection();
            let mut bytes = Vec::new();
            let sent = [Packet::Connect(connect(&name, &[])), Packet::PingReq, Packet::PingReq];
            sent.iter().for_each(|packet| {
                packet.append_to(V5, &mut bytes).expect("a valid packet");
            });
            let (first, rest) = bytes.split_at(bytes.len() - 3);
            world.send_bytes(client, first);
            world.send_bytes(client, rest);
            let Some(AuthRequest::Connect(attempt)) = world.auth_request(client) else {
                panic!("there is no authentication request")
            };
            assert_eq!((&*attempt.client_id, attempt.user_name.as_deref()), (&*name, Some("ann")));
            assert_eq!(attempt.password.as_deref(), Some(&b"secret"[..]));
            assert!(world.auth_request(client).is_none(), "there is a second authentication request");
            assert!(world.received(V5, client, |_| ()).is_empty(), "the broker answers before the decision");
            world.admit(client, "ann");
            let types = world.received(V5, client, |packet| packet.packet_type());
            assert_eq!(types, [PacketType::ConnAck, PacketType::PingResp, PacketType::PingResp]);
            assert_eq!(world.shard_of(client), Some(usize::from(world.exchange.owner(&name).0)));
        }
    }
}

#[test]
fn a_refusal_uses_the_codes_of_the_clients_version() {
    let mut world = World::new(2);
    let client = world.connection();
    world.send(client, &Packet::Connect(connect("a", &[])));
    world.apply_auth_decision(client, refused(ConnectReason::BadUserNameOrPassword));
    assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::BadUserNameOrPassword)]);
    assert!(world.is_closed(client));

    let client = world.connection();
    world.send_in_version(V3, client, &Packet::Connect(connect_v3("a")));
    world.apply_auth_decision(client, refused(ConnectReason::NotAuthorized));
    assert_eq!(world.received(V3, client, connack), [(false, ConnectReason::NotAuthorized)]);
    assert!(world.is_closed(client));
    for (reason, expected) in [
        (ConnectReason::Banned, ConnectReason::NotAuthorized),
        (ConnectReason::ServerBusy, ConnectReason::ServerUnavailable),
    ] {
        let client = world.connection();
        world.send_in_version(V3, client, &Packet::Connect(connect_v3("a")));
        world.apply_auth_decision(client, refused(reason));
        assert_eq!(world.received(V3, client, connack), [(false, expected)]);
    }
    assert_eq!(world.counters(0).connects_not_authenticated.get(), 4);
}

#[test]
fn no_session_is_taken_over_before_the_decision() {
    let mut world = World::new(2);
    let first = member(&mut world, "a", "ann");
    let second = world.connection();
    world.send(second, &Packet::Connect(connect("a", &[])));
    assert!(world.received(V5, first, |_| ()).is_empty() && !world.is_closed(first));
    world.apply_auth_decision(second, refused(ConnectReason::NotAuthorized));
    assert!(world.received(V5, first, |_| ()).is_empty() && !world.is_closed(first));

    let third = world.connection();
    world.send(third, &Packet::Connect(connect("a", &[])));
    world.admit(third, "ann");
    assert!(world.is_closed(first));
    assert_eq!(world.received(V5, third, connack), [(true, ConnectReason::Success)]);
}

#[test]
fn authentication_can_assign_the_client_identifier() {
    let mut world = World::new(2);
    let client = world.connection();
    world.send(client, &Packet::Connect(connect("whatever", &[])));
    let identity = tautwire_access::Identity { client_id: Some("device-7".into()), ..identity("ann") };
    world.apply_auth_decision(client, AuthDecision::Admitted { identity: Arc::new(identity), data: None });
    assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::Success)]);
    let other = world.connection();
    world.send(other, &Packet::Connect(connect("device-7", &[])));
    world.admit(other, "ann");
    assert!(world.is_closed(client), "the first connection of the same client stays open");
}

/// An identifier with U+0000 would name a session of another mount point.
#[test]
fn an_assigned_client_identifier_must_be_valid() {
    let mut world = World::new(1);
    let client = world.connection();
    world.send(client, &Packet::Connect(connect("a", &[])));
    let identity = tautwire_access::Identity { client_id: Some("mount/\0device-7".into()), ..identity("ann") };
    world.apply_auth_decision(client, AuthDecision::Admitted { identity: Arc::new(identity), data: None });
    assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::ClientIdentifierNotValid)]);
    assert!(world.is_closed(client));
}

#[test]
fn a_missing_decision_ends_the_connection_with_a_reason() {
    let mut world = World::new(1);
    let client = world.connection();
    world.send(client, &Packet::Connect(connect("a", &[])));
    world.pass(9_000);
    assert!(!world.is_closed(client));
    world.pass(2_000);
    assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::ServerUnavailable)]);
    assert!(world.is_closed(client));
    world.admit(client, "ann");
    assert_eq!(world.counters(0).connects.get(), 0, "a late decision was applied");
}

#[test]
fn a_client_that_disconnects_before_the_decision_leaves_no_memory() {
    let mut world = World::new(2);
    let before = world.held_bytes();
    let client = world.connection();
    let password = vec![b'p'; 50_000];
    let connect = Connect { password: Some(&password), ..connect("a", &[]) };
    world.send(client, &Packet::Connect(connect));
    let auth_request = world.auth_request(client);
    assert!(world.held_bytes() > before + 50_000, "the CONNECT packet is not charged");
    world.lose(client);
    drop(auth_request);
    assert_eq!(world.held_bytes(), before);
}

#[test]
fn an_identity_ends_at_its_expiry() {
    let mut world = World::new(2);
    let client = world.connection();
    world.send(client, &Packet::Connect(connect("a", &[])));
    let ends_at_ms = Some(world.now_ms + 5_000);
    let identity = tautwire_access::Identity { ends_at_ms, ..identity("ann") };
    world.apply_auth_decision(client, AuthDecision::Admitted { identity: Arc::new(identity), data: None });
    assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::Success)]);
    world.pass(4_999);
    assert!(!world.is_closed(client));
    world.pass(1);
    assert_eq!(crate::code(&mut world, client).as_u8(), 0x87);
    assert!(world.is_closed(client));
}

/// Seconds until a client is refused. Authentication makes progress in the seconds for which `moves` returns true.
fn refused_after(moves: impl Fn(u64) -> bool) -> u64 {
    let mut world = World::new(2);
    let progress = Arc::new(AuthProgress::default());
    let counted = progress.clone();
    world.config_cell.change(move |next| next.auth_progress = counted);
    let client = world.connection();
    world.send(client, &Packet::Connect(connect("waits", &[])));
    let mut seconds = 0;
    while !world.is_closed(client) {
        assert!(seconds < 1_000, "the client is not refused within 1,000 s");
        seconds += 1;
        if moves(seconds) {
            progress.note();
        }
        world.pass(1_000);
    }
    assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::ServerUnavailable)]);
    seconds
}

#[test]
fn no_timeout_applies_while_the_authentication_queue_makes_progress() {
    // The connect timeout is 10 s.
    assert_eq!(refused_after(|_| false), 10);
    let while_it_moves = refused_after(|second| second <= 95);
    assert!((106..=115).contains(&while_it_moves), "{while_it_moves} s");
    let slowly = refused_after(|second| second % 9 == 0 && second < 200);
    assert!((201..=220).contains(&slowly), "{slowly} s");
}

#[test]
fn a_client_is_accepted_after_a_long_wait() {
    let mut world = World::new(2);
    let progress = Arc::new(AuthProgress::default());
    let counted = progress.clone();
    world.config_cell.change(move |next| next.auth_progress = counted);
    let client = world.connection();
    world.send(client, &Packet::Connect(connect("waits", &[])));
    for _ in 0..300 {
        progress.note();
        world.pass(1_000);
    }
    world.admit(client, "ann");
    assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::Success)]);
    world.pass(15_000);
    assert!(!world.is_closed(client));
}
