//! Extended authentication (section 4.12), packet by packet.

use tautwire_client::{Authenticator, Error, Options, ProtocolVersion};
use tautwire_protocol::{
    Auth, AuthReason, ConnAck, ConnectReason, Disconnect, DisconnectReason, OwnedPacket, Packet, Properties, Property,
};

use crate::scripted::{Script, options};

/// Doubles its input.
struct Doubling;

impl Authenticator for Doubling {
    fn method(&self) -> &str {
        "doubling"
    }

    fn begin(&mut self) -> Result<Option<Vec<u8>>, Error> {
        Ok(Some(vec![1]))
    }

    fn respond(&mut self, data: Option<&[u8]>) -> Result<Option<Vec<u8>>, Error> {
        match data {
            Some([number]) => Ok(Some(vec![number * 2])),
            _ => Err(Error::Authentication("no number".into())),
        }
    }

    fn finish(&mut self, data: Option<&[u8]>) -> Result<(), Error> {
        match data {
            Some(b"done") => Ok(()),
            _ => Err(Error::Authentication("no proof".into())),
        }
    }
}

fn with<'d>(data: &'d [u8]) -> [Property<'d>; 2] {
    [Property::AuthenticationMethod("doubling"), Property::AuthenticationData(data)]
}

fn auth<'p>(reason: AuthReason, properties: &'p [Property<'p>]) -> Packet<'p> {
    Packet::Auth(Auth { reason, properties: Properties::from_list(properties) })
}

fn connack<'p>(properties: &'p [Property<'p>]) -> Packet<'p> {
    let properties = Properties::from_list(properties);
    Packet::ConnAck(ConnAck { session_present: false, reason: ConnectReason::Success, properties })
}

/// The reason and the data of the only AUTH that was sent.
fn only_auth(script: &mut Script) -> (AuthReason, Vec<u8>) {
    let sent = script.sent();
    match &sent.iter().map(OwnedPacket::as_packet).collect::<Vec<_>>()[..] {
        [Packet::Auth(auth)] => {
            // [MQTT-4.12.0-5]
            assert_eq!(auth.properties.authentication_method(), Some("doubling"));
            (auth.reason, auth.properties.authentication_data().expect("data").to_vec())
        }
        other => panic!("no AUTH: {other:?}"),
    }
}

fn connecting(options: Options) -> Script {
    let mut script = Script::new(options, ProtocolVersion::V5);
    script.machine.opened(0).expect("CONNECT can be written");
    script
}

/// Connected with the method.
fn open() -> Script {
    let mut script = connecting(options().authenticator(Doubling));
    script.sent();
    script.says(&connack(&with(b"done"))).expect("the proof is right");
    script
}

/// [MQTT-4.12.0-3], [MQTT-4.12.0-5], [MQTT-4.12.1-1].
#[test]
fn an_exchange_takes_several_steps_on_connect_and_later() {
    let mut script = connecting(options().authenticator(Doubling));
    let sent = script.sent();
    let Packet::Connect(connect) = sent[0].as_packet() else { panic!("{sent:?}") };
    assert_eq!(connect.properties.authentication_method(), Some("doubling"));
    assert_eq!(connect.properties.authentication_data(), Some(&[1][..]));
    script.says(&auth(AuthReason::ContinueAuthentication, &with(&[21]))).expect("due");
    assert_eq!(only_auth(&mut script), (AuthReason::ContinueAuthentication, vec![42]));
    script.says(&connack(&with(b"done"))).expect("the proof is right");
    assert_eq!(script.seen.connected, 1);

    script.machine.reauthenticate(7).expect("open");
    assert_eq!(only_auth(&mut script), (AuthReason::ReAuthenticate, vec![1]));
    assert_eq!(script.machine.reauthenticate(8).expect_err("one is under way").code(), "invalid_argument");
    assert!(script.sent().is_empty());
    script.says(&auth(AuthReason::ContinueAuthentication, &with(&[4]))).expect("due");
    assert_eq!(only_auth(&mut script), (AuthReason::ContinueAuthentication, vec![8]));
    assert!(script.seen.reauthenticated.is_empty());
    script.says(&auth(AuthReason::Success, &with(b"done"))).expect("the proof is right");
    assert_eq!(script.seen.reauthenticated, [7]);
    script.machine.reauthenticate(9).expect("the last one is over");
}

/// [MQTT-4.12.1-2].
#[test]
fn a_failed_reauthentication_ends_the_connection() {
    let mut script = open();
    script.machine.reauthenticate(1).expect("open");
    script.sent();
    script.says(&auth(AuthReason::Success, &with(b"nope"))).expect_err("the proof is wrong");
    assert_eq!(script.disconnect_reason(), DisconnectReason::NotAuthorized);
    assert!(!script.machine.is_open());
    assert_eq!(script.machine.take_reauthentication(), Some(1));

    let mut script = open();
    script.machine.reauthenticate(2).expect("open");
    script.sent();
    let refused = script.says(&Packet::Disconnect(Disconnect::new(DisconnectReason::NotAuthorized)));
    assert!(matches!(refused, Err(Error::Disconnected { reason: DisconnectReason::NotAuthorized, .. })));
    script.machine.lost();
    assert_eq!(script.machine.take_reauthentication(), Some(2));
}

#[test]
fn a_wrong_proof_fails_the_connection() {
    for data in [&b"nope"[..], b""] {
        let mut script = connecting(options().authenticator(Doubling));
        script.says(&connack(&with(data))).expect_err("the proof is wrong");
        assert!(!script.machine.is_open() && script.seen.connected == 0);
    }
}

/// [MQTT-4.12.0-5].
#[test]
fn a_server_that_does_not_repeat_the_method_is_refused() {
    let another = [Property::AuthenticationMethod("halving"), Property::AuthenticationData(b"done")];
    for properties in [&another[..], &[]] {
        let mut script = connecting(options().authenticator(Doubling));
        assert_eq!(script.says(&connack(properties)).expect_err("another method").code(), "protocol_error");
        assert_eq!(script.seen.connected, 0);
    }
    let mut script = connecting(options().authenticator(Doubling));
    let challenge = auth(AuthReason::ContinueAuthentication, &another);
    assert_eq!(script.says(&challenge).expect_err("another method").code(), "protocol_error");
}

/// [MQTT-4.12.0-6], [MQTT-4.12.0-7].
#[test]
fn without_a_method_auth_is_neither_sent_nor_accepted() {
    let mut script = connecting(options());
    script.sent();
    script.says(&connack(&[])).expect("accepted");
    assert_eq!(script.machine.reauthenticate(1).expect_err("no method").code(), "invalid_argument");
    assert!(script.sent().is_empty());
    let challenge = with(&[21]);
    let error = script.says(&auth(AuthReason::ContinueAuthentication, &challenge)).expect_err("no method");
    assert_eq!(error.code(), "protocol_error");
    assert_eq!(script.disconnect_reason(), DisconnectReason::ProtocolError);
}

#[test]
fn unexpected_auth_is_refused() {
    for reason in [AuthReason::ContinueAuthentication, AuthReason::Success] {
        let mut script = open();
        assert_eq!(script.says(&auth(reason, &with(b"done"))).expect_err("not due").code(), "protocol_error");
        assert_eq!(script.disconnect_reason(), DisconnectReason::ProtocolError);
    }
}
