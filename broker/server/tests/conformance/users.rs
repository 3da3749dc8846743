//! Client authentication: passwords, SCRAM, or anonymous.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

use ring::{digest, hmac, pbkdf2};
use tautwire_protocol::{Auth, AuthReason, ConnectReason, Packet, Properties, Property};

use crate::support::base64::{base64, unbase64};
use crate::support::{AtLeastOnce, Broker, Client, Folder, TOKEN, V3_1_1, V5, admin, program};

/// A broker with a password file, and access rules by user.
pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) folder: Folder,
}

pub(crate) const RULES: &str = r##"
[[role]]
name = "own"
rules = [{ allow = ["publish", "subscribe"], topics = "users/{user}/#" }]

[[assign]]
user = "*"
roles = "own"
"##;

impl World {
    pub(crate) fn new(threads: usize, settings: &[&str]) -> World {
        let folder = Folder::new(&[("access.toml", RULES), ("token", TOKEN)]);
        user(&folder, &["add", "ann"], "pencil");
        user(&folder, &["add", "bob"], "rubber");
        World::within(folder, threads, settings)
    }

    pub(crate) fn within(folder: Folder, threads: usize, settings: &[&str]) -> World {
        let at = |name: &str| folder.path().join(name).display().to_string();
        let own = [
            format!("auth.password_file={}", at("users")),
            format!("acl.file={}", at("access.toml")),
            format!("admin.token_file={}", at("token")),
            "admin.listen=127.0.0.1:0".to_owned(),
            // A busy machine takes long for a hash.
            "mqtt.connect_timeout_s=300".to_owned(),
        ];
        let settings: Vec<&str> = own.iter().map(String::as_str).chain(settings.iter().copied()).collect();
        World { broker: Broker::with(threads, &settings), folder }
    }
}

/// `tautwire user …` on the password file of a folder.
pub(crate) fn user(folder: &Folder, arguments: &[&str], password: &str) {
    let mut command = Command::new(program());
    command.arg("user").arg(arguments[0]).arg("--file").arg(folder.path().join("users")).args(&arguments[1..]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the program starts");
    // The command may not read a password.
    let _ = child.stdin.take().expect("a pipe").write_all(password.as_bytes());
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_password_authenticates_only_its_user() {
    for threads in [1, 2] {
        let world = World::new(threads, &[]);
        for (version, wrong, unknown) in [(V5, 0x86, 0x87), (V3_1_1, 4, 5)] {
            let connecting = || world.broker.connecting(version, "client");
            let mut ann = connecting().user_name("ann").password(b"pencil").open();
            assert_eq!(ann.publish("users/ann/x", AtLeastOnce, b"x"), if version == V5 { 0x10 } else { 0 });
            assert_eq!(connecting().user_name("ann").password(b"rubber").refused(), wrong);
            assert_eq!(connecting().user_name("eve").password(b"pencil").refused(), wrong);
            assert_eq!(connecting().refused(), unknown, "nobody");
            ann.ping();
        }
    }
}

#[test]
fn rules_use_the_authenticated_user() {
    let world = World::new(2, &["auth.anonymous=true"]);
    let mut ann = world.broker.connecting(V5, "a").user_name("ann").password(b"pencil").open();
    assert_eq!(ann.publish("users/ann/x", AtLeastOnce, b"x"), 0x10);
    assert_eq!(ann.publish("users/bob/x", AtLeastOnce, b"x"), 0x87);
    // It is accepted, but is anonymous.
    let mut anonymous = world.broker.connecting(V5, "b").open();
    assert_eq!(anonymous.publish("users/ann/x", AtLeastOnce, b"x"), 0x87);
    assert_eq!(world.broker.connecting(V5, "c").user_name("ann").refused(), 0x86, "a user name alone is not enough");
}

/// Hashing takes long, and connected clients are not affected.
#[test]
fn many_simultaneous_clients_are_all_authenticated() {
    // A busy machine hashes slowly.
    let world = World::new(2, &[]);
    let mut bystander = world.broker.connecting(V5, "bystander").user_name("ann").password(b"pencil").open();
    thread::scope(|scope| {
        for number in 0..24 {
            let broker = &world.broker;
            scope.spawn(move || {
                let name = format!("client-{number}");
                let connecting = broker.connecting(V5, &name).user_name("bob");
                if number % 2 == 0 {
                    connecting.password(b"rubber").open();
                } else {
                    assert_eq!(connecting.password(b"wrong").refused(), 0x86);
                }
            });
        }
        for _ in 0..50 {
            bystander.ping();
        }
    });
}

#[test]
fn a_removed_user_is_disconnected_at_the_reload() {
    let world = World::new(2, &[]);
    let mut ann = world.broker.connecting(V5, "a").user_name("ann").password(b"pencil").open();
    let mut bob = world.broker.connecting(V5, "b").user_name("bob").password(b"rubber").open();
    let mut old = world.broker.connecting(V3_1_1, "c").user_name("bob").password(b"rubber").open();
    user(&world.folder, &["remove", "bob"], "");
    ann.ping();
    bob.ping();
    admin(world.broker.admin_address(), "POST", "/config/reload", "").expect(200);
    assert_eq!(bob.expect_disconnect(), 0x87);
    old.expect_closed();
    assert_eq!(world.broker.connecting(V5, "b").user_name("bob").password(b"rubber").refused(), 0x86);
    ann.ping();
}

/// Failed passwords are in the audit log with the given names. A long User Name may be a token: it is truncated.
#[test]
fn the_audit_log_names_the_refused_user() {
    let folder = Folder::new(&[("access.toml", RULES), ("token", TOKEN)]);
    user(&folder, &["add", "ann"], "pencil");
    let audit = format!("audit.file={}", folder.path().join("audit.log").display());
    let world = World::within(folder, 1, &[&audit]);
    let token = format!("{}.secret", "é".repeat(80));
    for version in [V5, V3_1_1] {
        world.broker.connecting(version, "thief").user_name("ann").password(b"wrong-one").refused();
        world.broker.connecting(version, "other").user_name(&token).password(b"wrong-one").refused();
    }
    world.broker.end();
    let log = world.folder.read("audit.log");
    assert_eq!(log.matches(r#""event":"refused","client_id":"thief","user":"ann","#).count(), 2, "{log}");
    let expected = format!(r#""event":"refused","client_id":"other","user":"{}","#, "é".repeat(64));
    assert_eq!(log.matches(&expected).count(), 2, "{log}");
    assert!(!log.contains("secret") && !log.contains("wrong-one"), "{log}");
}

#[test]
fn an_invalid_file_changes_nothing_and_the_error_has_its_location() {
    let world = World::new(1, &[]);
    let good = world.folder.read("users");
    world.folder.write(
        "users",
        &format!("{good}\neve:$argon2id$v=19$m=9999999,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA\n"),
    );
    let body = admin(world.broker.admin_address(), "POST", "/config/reload", "").expect(422).body;
    assert!(body.contains("users:"), "{body}");
    world.broker.connecting(V5, "a").user_name("ann").password(b"pencil").open();
}

#[test]
fn password_files_of_mosquitto_are_read_unchanged() {
    // By mosquitto_passwd 2.0, and by its older format.
    let salt = [7; 12];
    let mut hash = [0; 64];
    let iterations = std::num::NonZeroU32::new(101).expect("not 0");
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA512, iterations, &salt, b"pencil", &mut hash);
    let new = format!("new:$7$101${}${}", base64(&salt), base64(&hash));
    let old = digest::digest(&digest::SHA512, &[b"pencil", &salt[..]].concat());
    let old = format!("old:$6${}${}", base64(&salt), base64(old.as_ref()));
    let folder = Folder::new(&[("passwd", &format!("{new}\n{old}\n"))]);
    let setting = format!("auth.password_file={}", folder.path().join("passwd").display());
    let broker = Broker::set(&[&setting]);
    for user in ["new", "old"] {
        broker.connecting(V3_1_1, "client").user_name(user).password(b"pencil").open();
        assert_eq!(broker.connecting(V3_1_1, "client").user_name(user).password(b"Pencil").refused(), 4);
    }
}

/// [MQTT-4.12.0-2], [MQTT-4.12.0-4], [MQTT-4.12.0-5], RFC 7677.
#[test]
fn scram_authenticates_without_sending_the_password() {
    for threads in [1, 2] {
        let world = World::new(threads, &[]);
        for name in ["a", "b", "c", "d"] {
            let mut client = scram(&world.broker, name, "ann", b"pencil").expect("the password is right");
            assert_eq!(client.publish("users/ann/x", AtLeastOnce, b"x"), 0x10);
            assert_eq!(client.publish("users/bob/x", AtLeastOnce, b"x"), 0x87);
            // It re-authenticates, and continues.
            let first = first_message("ann", "again");
            send_auth(&mut client, AuthReason::ReAuthenticate, first.as_bytes());
            let challenge = expect_auth(&mut client, AuthReason::ContinueAuthentication);
            let (last, signature) = last_message("ann", "again", &challenge, b"pencil");
            send_auth(&mut client, AuthReason::ContinueAuthentication, last.as_bytes());
            assert_eq!(expect_auth(&mut client, AuthReason::Success), signature);
            client.ping();
        }
        assert_eq!(scram(&world.broker, "x", "ann", b"rubber").err(), Some(0x86));
        assert_eq!(scram(&world.broker, "x", "eve", b"pencil").err(), Some(0x86));
        let unknown = world.broker.connecting(V5, "x").property(Property::AuthenticationMethod("KERBEROS"));
        assert_eq!(unknown.refused(), 0x8c);
    }
}

/// [MQTT-4.12.1-2]
#[test]
fn a_client_whose_identity_changes_is_disconnected() {
    let world = World::new(1, &[]);
    let mut client = scram(&world.broker, "a", "ann", b"pencil").expect("the password is right");
    send_auth(&mut client, AuthReason::ReAuthenticate, first_message("bob", "again").as_bytes());
    let challenge = expect_auth(&mut client, AuthReason::ContinueAuthentication);
    let (last, _) = last_message("bob", "again", &challenge, b"rubber");
    send_auth(&mut client, AuthReason::ContinueAuthentication, last.as_bytes());
    assert_eq!(client.expect_disconnect(), 0x87);
}

#[test]
fn a_banned_client_is_disconnected_and_cannot_reconnect() {
    let folder = Folder::new(&[("token", TOKEN)]);
    let token = format!("admin.token_file={}", folder.path().join("token").display());
    let broker = Broker::with(2, &[&token, "admin.listen=127.0.0.1:0"]);
    let api = broker.admin_address();
    let mut client = broker.connect(V5, "noisy");
    let mut other = broker.connect(V5, "other");
    let ban = r#"{"client_id": "noisy", "seconds": 3600, "reason": "too loud"}"#;
    admin(api, "POST", "/bans", ban).expect(201);
    assert_eq!(client.expect_disconnect(), 0x98);
    assert_eq!(broker.connecting(V5, "noisy").refused(), 0x8a);
    other.ping();
    let listed = admin(api, "GET", "/bans", "").expect(200).body;
    assert!(listed.contains("\"client_id\":\"noisy\"") && listed.contains("\"reason\":\"too loud\""), "{listed}");
    admin(api, "DELETE", "/bans", ban).expect(204);
    admin(api, "DELETE", "/bans", ban).expect(404);
    broker.connect(V5, "noisy").ping();

    admin(api, "POST", "/bans", r#"{"network": "127.0.0.0/8"}"#).expect(201);
    let mut refused = broker.connecting(V5, "x").send_unless_closed();
    assert!(refused.bytes_until_closed().is_empty(), "nothing is sent to a banned address");
    assert_eq!(other.expect_disconnect(), 0x98);
    for wrong in
        [r#"{"user": "a", "client_id": "b"}"#, r#"{"network": "1.2.3.4/40"}"#, r#"{"user": "a", "seconds": "x"}"#]
    {
        admin(api, "POST", "/bans", wrong).expect(422);
    }
}

#[test]
fn repeated_auth_failures_ban_the_client() {
    let world = World::new(1, &["auth.ban_rules=3 failures by user in 60 ban 600"]);
    let connecting = |password: &'static [u8]| world.broker.connecting(V5, "c").user_name("ann").password(password);
    for _ in 0..3 {
        assert_eq!(connecting(b"wrong").refused(), 0x86);
    }
    assert_eq!(connecting(b"pencil").refused(), 0x8a);
    world.broker.connecting(V5, "d").user_name("bob").password(b"rubber").open();
}

#[test]
fn an_open_listener_must_be_configured() {
    for (arguments, expected) in
        [(["--listen", "0.0.0.0:1883"], "auth.anonymous"), (["--set", "auth.anonymous=false"], "auth.password_file")]
    {
        let checked = Command::new(program()).args(["config", "check"]).args(arguments).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&checked.stderr);
        assert!(
            checked.status.code() == Some(1)
                && stderr.contains("no client can authenticate")
                && stderr.contains(expected),
            "{stderr}"
        );
    }
    let log = Broker::set(&["auth.anonymous=true"]).end();
    assert!(!log.contains("open to the network"), "{log}");
}

/// A session belongs to its Client Identifier. Another user with that identifier only receives what it may receive itself, also after a
/// restart, when the broker does not know the previous user.
#[test]
fn another_user_gets_nothing_of_a_foreign_session() {
    for restarts in [false, true] {
        let data = Folder::new(&[]);
        let data = format!("data.path={}", data.path().join("data").display());
        let mut world = World::new(2, &[&data]);
        let ann = |broker: &Broker, client_id: &str| {
            broker.connecting(V5, client_id).user_name("ann").password(b"pencil").persistent().open()
        };
        let mut hers = ann(&world.broker, "shared");
        hers.subscribe("users/ann/#", AtLeastOnce);
        hers.disconnect();
        let mut publisher = ann(&world.broker, "publisher");
        assert_eq!(publisher.publish("users/ann/secret", AtLeastOnce, b"before"), 0);
        drop(publisher);
        if restarts {
            let World { broker, folder } = world;
            drop(broker);
            world = World::within(folder, 2, &[&data]);
        }
        let bob = world.broker.connecting(V5, "shared").user_name("bob").password(b"rubber");
        let mut his = bob.persistent().open();
        assert!(his.session_present(), "the session belongs to the Client Identifier");
        his.ping();
        assert_eq!(ann(&world.broker, "publisher").publish("users/ann/secret", AtLeastOnce, b"after"), 0x10);
        his.ping();
    }
}

const METHOD: Property<'static> = Property::AuthenticationMethod("SCRAM-SHA-256");

/// Connects with SCRAM-SHA-256, or returns the code of CONNACK.
fn scram(broker: &Broker, client_id: &str, user: &str, password: &[u8]) -> Result<Client, u8> {
    let first = first_message(user, "nonce");
    let connecting = broker.connecting(V5, client_id).property(METHOD);
    let mut client = connecting.property(Property::AuthenticationData(first.as_bytes())).send();
    let challenge = expect_auth(&mut client, AuthReason::ContinueAuthentication);
    let (last, signature) = last_message(user, "nonce", &challenge, password);
    send_auth(&mut client, AuthReason::ContinueAuthentication, last.as_bytes());
    let packet = client.next();
    let Packet::ConnAck(connack) = packet.as_packet() else { panic!("expected CONNACK, got {packet:?}") };
    if connack.reason != ConnectReason::Success {
        client.expect_closed();
        return Err(connack.reason.as_u8());
    }
    assert_eq!(connack.properties.authentication_method(), Some("SCRAM-SHA-256"));
    assert_eq!(
        connack.properties.authentication_data(),
        Some(&signature[..]),
        "the broker proves that it knows the password"
    );
    Ok(client)
}

fn first_message(user: &str, nonce: &str) -> String {
    format!("n,,n={user},r={nonce}")
}

/// The client's last message, and the expected answer of the server.
fn last_message(user: &str, nonce: &str, challenge: &[u8], password: &[u8]) -> (String, Vec<u8>) {
    let challenge = str::from_utf8(challenge).expect("text");
    let mut parts = challenge.split(',').map(|part| &part[2..]);
    let (whole_nonce, salt, iterations) = (parts.next(), parts.next(), parts.next());
    let (whole_nonce, salt) = (whole_nonce.expect("a nonce"), unbase64(salt.expect("a salt")));
    assert!(whole_nonce.starts_with(nonce) && whole_nonce.len() > nonce.len());
    let iterations = iterations.and_then(|text| text.parse().ok()).expect("a number");
    let mut salted = [0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password, &mut salted);
    let mac = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    let without_proof = format!("c=biws,r={whole_nonce}");
    let message = format!("n={user},r={nonce},{challenge},{without_proof}");
    let client_key = mac(&salted, b"Client Key");
    let stored = digest::digest(&digest::SHA256, client_key.as_ref());
    let signature = mac(stored.as_ref(), message.as_bytes());
    let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
    let server = mac(mac(&salted, b"Server Key").as_ref(), message.as_bytes());
    (format!("{without_proof},p={}", base64(&proof)), format!("v={}", base64(server.as_ref())).into_bytes())
}

fn send_auth(client: &mut Client, reason: AuthReason, data: &[u8]) {
    let properties = [METHOD, Property::AuthenticationData(data)];
    client.send_auth(Auth { reason, properties: Properties::from(&properties[..]) });
}

fn expect_auth(client: &mut Client, expected: AuthReason) -> Vec<u8> {
    let packet = client.next();
    let Packet::Auth(auth) = packet.as_packet() else { panic!("expected AUTH, got {packet:?}") };
    assert_eq!((auth.reason, auth.properties.authentication_method()), (expected, Some("SCRAM-SHA-256")));
    auth.properties.authentication_data().expect("data").to_vec()
}
