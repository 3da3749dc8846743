//! The client library authenticates by SCRAM, with the broker and with an impostor.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tautwire_client::{
    Error, Options, Publication, QoS, ReasonCode, Reconnect, Refused, Scram, ScramFault, Status, Subscribe, blocking,
};
use tautwire_protocol::{
    Auth, AuthReason, ConnAck, ConnectReason, DecodeOptions, DisconnectReason, OwnedPacket, Packet, Properties,
    Property, ProtocolVersion, decode,
};

use crate::support::{Broker, Folder, TOKEN, admin, program};

/// A generous upper bound for each step.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A broker with two users, whose passwords are `pencil`.
fn broker() -> (Broker, Folder) {
    let folder = Folder::new(&[("token", TOKEN)]);
    for name in ["ann", "a=b,c"] {
        set_password(&folder, &["add", name], "pencil");
    }
    let at = |name: &str| folder.path().join(name).display().to_string();
    let settings = [
        format!("auth.password_file={}", at("users")),
        format!("admin.token_file={}", at("token")),
        "admin.listen=127.0.0.1:0".to_owned(),
    ];
    (Broker::set(&settings.each_ref().map(String::as_str)), folder)
}

fn set_password(folder: &Folder, arguments: &[&str], password: &str) {
    let mut command = Command::new(program());
    command.arg("user").arg(arguments[0]).arg("--file").arg(folder.path().join("users")).args(&arguments[1..]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the program starts");
    child.stdin.take().expect("a pipe").write_all(password.as_bytes()).expect("it reads");
    assert!(child.wait().expect("it ends").success());
}

fn options(address: SocketAddr, scram: Result<Scram, Error>) -> Options {
    let quick = Reconnect { min: Duration::from_millis(2), max: Duration::from_millis(20) };
    let options = Options::new(&format!("mqtt://{address}")).expect("an address").reconnect(Some(quick));
    options.authenticator(scram.expect("credentials of ASCII"))
}

/// RFC 7677, [MQTT-4.12.0-2], [MQTT-4.12.0-3].
#[test]
fn only_the_correct_password_authenticates() {
    let (broker, _folder) = broker();
    for make in [Scram::sha256, Scram::sha512] {
        for user in ["ann", "a=b,c"] {
            let client = blocking::Client::connect(options(broker.address(), make(user, b"pencil")));
            client.expect("the password is right").disconnect().expect("ends cleanly");
            let refused = blocking::Client::connect(options(broker.address(), make(user, b"rubber")));
            let expected = ReasonCode::BadUserNameOrPassword;
            match refused {
                Err(Error::Refused { what: Refused::Connection, reason, .. }) => assert_eq!(reason, expected),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// [MQTT-4.12.1-1].
#[test]
fn a_client_reauthenticates_while_messages_flow() {
    let (broker, _folder) = broker();
    let client =
        blocking::Client::connect(options(broker.address(), Scram::sha256("ann", "pencil"))).expect("connects");
    let mut stream = client.subscribe(Subscribe::to("t").qos(QoS::AtLeastOnce)).expect("granted");
    for round in 0..5_u8 {
        let sent: Vec<_> = (0..20_u8)
            .map(|number| client.publish(Publication::new("t", &[round, number]).qos(QoS::AtLeastOnce)).expect("taken"))
            .collect();
        client.reauthenticate().expect("the password is still right");
        for (number, sent) in (0..).zip(sent) {
            sent.wait().expect("acknowledged");
            let message = stream.next_timeout(TIMEOUT).expect("arrives");
            assert_eq!(message.payload(), [round, number]);
        }
    }
    assert_eq!(client.counters().machine.connections, 1);
}

/// [MQTT-4.12.1-2].
#[test]
fn reauthentication_with_an_old_password_disconnects_the_client() {
    let (broker, folder) = broker();
    let client =
        blocking::Client::connect(options(broker.address(), Scram::sha256("ann", "pencil"))).expect("connects");
    set_password(&folder, &["passwd", "ann"], "rubber");
    admin(broker.admin_address(), "POST", "/config/reload", "").expect(200);
    let refused = client.reauthenticate().expect_err("the password has changed");
    assert!(matches!(refused, Error::Disconnected { reason: DisconnectReason::NotAuthorized, .. }), "{refused}");
    assert!(matches!(client.status(), Status::Closed(_)), "{:?}", client.status());
}

#[test]
fn a_client_that_reconnects_authenticates_again() {
    let (broker, _folder) = broker();
    let relay = Relay::to(broker.address());
    let client = blocking::Client::connect(options(relay.address, Scram::sha512("ann", "pencil"))).expect("connects");
    for _ in 0..3 {
        relay.cut();
        let publication = Publication::new("t", "x").qos(QoS::AtLeastOnce);
        client.publish(publication).expect("accepted").wait().expect("acknowledged after the client has reconnected");
    }
    assert!(client.counters().machine.connections > 1);
    client.reauthenticate().expect("the password is still right");
}

/// The impostor knows neither the password nor its keys, and accepts everybody.
#[test]
fn a_server_that_does_not_know_the_password_is_refused() {
    let challenge = |iterations: u32| move |nonce: &str| format!("r={nonce}server,s=c2FsdA==,i={iterations}");
    let unproved = |address| blocking::Client::connect(options(address, Scram::sha256("ann", "pencil")));
    let zeros = format!("v={}=", "A".repeat(43));
    let (address, server) = impostor(challenge(4_096), zeros);
    let refused = unproved(address).expect_err("the server has proved nothing");
    assert!(matches!(refused, Error::Scram(ScramFault::ServerSignature)), "{refused}");
    assert!(refused.is_permanent() && refused.to_string().contains("has not proved that it knows the password"));
    assert!(server.join().expect("no panic"), "the client has answered the challenge");

    for (iterations, code) in [(4_095, "scram_iterations"), (1_000_000_000, "scram_iterations")] {
        let (address, server) = impostor(challenge(iterations), String::new());
        assert_eq!(unproved(address).expect_err("the number of iterations").code(), code);
        assert!(!server.join().expect("no panic"), "the client sends nothing that allows guessing");
    }
    let (address, server) = impostor(|_| "r=another,s=c2FsdA==,i=4096".to_owned(), String::new());
    assert_eq!(unproved(address).expect_err("the nonce").code(), "scram_nonce");
    assert!(!server.join().expect("no panic"));
}

/// A server for one client. Returns whether the client has sent a proof.
fn impostor(
    challenge: impl FnOnce(&str) -> String + Send + 'static,
    signature: String,
) -> (SocketAddr, thread::JoinHandle<bool>) {
    const METHOD: Property<'static> = Property::AuthenticationMethod("SCRAM-SHA-256");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket takes options");
        let mut unread = Vec::new();
        let connect = next(&mut stream, &mut unread).expect("CONNECT");
        let Packet::Connect(connect) = connect.as_packet() else { panic!("{connect:?}") };
        let first = connect.properties.authentication_data().expect("data");
        let nonce = str::from_utf8(first).expect("text").rsplit_once("r=").expect("a nonce").1;
        let challenge = challenge(nonce);
        let properties = [METHOD, Property::AuthenticationData(challenge.as_bytes())];
        let properties = Properties::from(&properties[..]);
        send_packet(&mut stream, &Packet::Auth(Auth { reason: AuthReason::ContinueAuthentication, properties }));
        let Some(proof) = next(&mut stream, &mut unread) else { return false };
        assert!(matches!(proof.as_packet(), Packet::Auth(_)), "{proof:?}");
        let properties = [METHOD, Property::AuthenticationData(signature.as_bytes())];
        let properties = Properties::from(&properties[..]);
        send_packet(
            &mut stream,
            &Packet::ConnAck(ConnAck { session_present: false, reason: ConnectReason::Success, properties }),
        );
        assert!(next(&mut stream, &mut unread).is_none(), "the client works with it");
        true
    });
    (address, server)
}

fn send_packet(stream: &mut TcpStream, packet: &Packet<'_>) {
    let mut bytes = Vec::new();
    packet.append_to(ProtocolVersion::V5, &mut bytes).expect("valid");
    stream.write_all(&bytes).expect("the client reads");
}

/// The next packet, or `None` if the client has disconnected.
fn next(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<OwnedPacket> {
    loop {
        if let Ok((packet, length)) = decode(unread, &DecodeOptions::new(ProtocolVersion::V5)) {
            let packet = packet.to_owned_packet().expect("decoded");
            unread.drain(..length);
            return Some(packet);
        }
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes) {
            Ok(0) => return None,
            Ok(count) => unread.extend_from_slice(&bytes[..count]),
            // A process was stopped and continued: with a timeout the kernel does not restart the call.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("the client neither sends nor closes: {error}"),
        }
    }
}

/// Forwards bytes in both directions until cut.
struct Relay {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    fn to(target: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let relay = Relay { address: listener.local_addr().expect("bound"), connections: Arc::default() };
        let connections = relay.connections.clone();
        thread::spawn(move || {
            for incoming in listener.incoming().map_while(Result::ok) {
                // Locked until both ends are in the list, so that every connection can be cut.
                let mut connections = connections.lock().expect("not poisoned");
                let Ok(outgoing) = TcpStream::connect(target) else { continue };
                for (from, to) in [(&incoming, &outgoing), (&outgoing, &incoming)] {
                    let (mut from, mut to) = (from.try_clone().expect("shared"), to.try_clone().expect("shared"));
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
                connections.extend([incoming, outgoing]);
            }
        });
        relay
    }

    /// Closes all connections without DISCONNECT.
    fn cut(&self) {
        for stream in self.connections.lock().expect("not poisoned").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
