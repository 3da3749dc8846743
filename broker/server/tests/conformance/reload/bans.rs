//! Bans end the affected connections at once, and survive a restart.

use std::net::SocketAddr;
use std::time::Instant;

use super::World;
use super::files::await_line;
use super::listeners::added;
use crate::support::{Broker, Client, ConnectBuilder, EXPECT_TIMEOUT, Folder, Transport, V3_1_1, V5, admin};
use crate::tokens::{now_s, token};

fn ban(world: &World, who: &str) {
    admin(world.broker.admin_address(), "POST", "/bans", &format!("{{{who},\"why\":\"a test\"}}")).expect(201);
}

fn unban(world: &World, who: &str) {
    admin(world.broker.admin_address(), "DELETE", "/bans", &format!("{{{who}}}")).expect(204);
}

/// [MQTT 5.0 section 3.14.2.1]: DISCONNECT has no reason code Banned, CONNACK has.
#[test]
fn a_ban_disconnects_only_the_banned_client() {
    for threads in [1, 2] {
        let world = World::new(threads, "", &[]);
        let mut eve = world.broker.connect(V5, "eve");
        let mut old = world.broker.connect(V3_1_1, "old");
        let mut bob = world.broker.connect(V5, "bob");
        ban(&world, "\"client_id\":\"eve\"");
        assert_eq!(eve.expect_disconnect(), 0x98);
        ban(&world, "\"client_id\":\"old\"");
        old.expect_closed();
        bob.ping();
        assert_eq!(world.broker.connecting(V5, "eve").refused(), 0x8A);
        unban(&world, "\"client_id\":\"eve\"");
        world.broker.connect(V5, "eve").ping();
        // The address is no longer stored, and is read from the socket.
        ban(&world, "\"network\":\"192.0.2.0/24\"");
        bob.ping();
        ban(&world, "\"network\":\"127.0.0.0/8\"");
        assert_eq!(bob.expect_disconnect(), 0x98);
        assert!(Client::dial(Transport::Tcp(world.broker.address()), V5).is_closed_without_data());
        unban(&world, "\"network\":\"127.0.0.0/8\"");
        world.broker.connect(V5, "bob").ping();
    }
}

fn by_proxy(address: SocketAddr, from: &str, client_id: &str) -> Client {
    let mut client = send_by_proxy(address, from, &ConnectBuilder::new(Transport::Tcp(address), V5, client_id));
    client.expect_accepted();
    client
}

fn send_by_proxy(address: SocketAddr, from: &str, connecting: &ConnectBuilder<'_>) -> Client {
    let mut client = Client::dial(Transport::Tcp(address), V5);
    client.send_bytes(format!("PROXY TCP4 {from} 192.0.2.1 40000 1883\r\n").as_bytes());
    client.send_bytes(&connecting.bytes());
    client
}

#[test]
fn behind_a_proxy_the_proxied_address_counts() {
    let world = World::new(2, "", &[]);
    let table = "[auth]\nanonymous = true\n[[listener]]\nname = \"proxied\"\naddress = \"127.0.0.1:0\"\nproxy.trusted_networks = [\"127.0.0.1\"]\n";
    let address = added(&world.reload(table).expect(200), "proxied");
    let mut one = by_proxy(address, "192.0.2.7", "one");
    let mut other = by_proxy(address, "192.0.2.8", "other");
    ban(&world, "\"network\":\"192.0.2.7\"");
    assert_eq!(one.expect_disconnect(), 0x98);
    other.ping();
}

#[test]
fn bans_survive_a_restart_with_persistence() {
    let folder = Folder::new(&[]);
    let data = format!("data.path={}", folder.path().join("data").display());
    let world = World::within(folder, 1, "", &[&data]);
    ban(&world, "\"client_id\":\"eve\"");
    ban(&world, "\"client_id\":\"bob\"");
    ban(&world, "\"client_id\":\"gone\",\"seconds\":0");
    unban(&world, "\"client_id\":\"bob\"");
    let World { broker, folder, threads } = world;
    drop(broker);
    let world = World::within(folder, threads, "", &[&data]);
    assert_eq!(world.broker.connecting(V5, "eve").refused(), 0x8A);
    world.broker.connect(V5, "bob").ping();
    let list = admin(world.broker.admin_address(), "GET", "/bans", "").expect(200).body;
    assert!(list.contains("eve") && !list.contains("bob") && !list.contains("gone"), "{list}");
    // An invalid file is not ignored: it may contain bans.
    let World { broker, folder, .. } = world;
    drop(broker);
    folder.write("data/bans.json", "{\"bans\":[{}]}");
    let stderr = Broker::refused(&[&data]);
    assert!(stderr.contains("bans.json") && stderr.contains("bans_file"), "{stderr}");
}

/// Bans made for failures survive until they expire, whether the broker is stopped or killed.
#[test]
fn automatic_bans_survive_a_restart_and_expire() {
    let rules = "auth.ban_rules=2 failures by user in 60 ban 600, 2 by client_id in 60 ban 3";
    for is_killed in [false, true] {
        let folder = Folder::new(&[("users", &format!("{DAVE}{}", DAVE.replace("dave", "ada")))]);
        let data = format!("data.path={}", folder.path().join("data").display());
        let users = "[auth]\npassword_file = \"users\"\n";
        let world = World::within(folder, 2, users, &[&data, rules]);
        // Consecutive bans within a second, the last of which must be persisted too.
        for user in ["ada", "dave"] {
            let wrong = || world.broker.connecting(V5, user).user_name(user).password(b"wrong").refused();
            assert_eq!([wrong(), wrong()], [0x86, 0x86]);
        }
        if is_killed {
            await_line(&world.folder, "data/bans.json", "\"dave\"");
        }
        let World { broker, folder, threads } = world;
        if is_killed {
            drop(broker);
        } else {
            broker.end();
        }
        let kept = folder.read("data/bans.json");
        for who in ["\"user\":\"ada\"", "\"user\":\"dave\"", "\"client_id\":\"ada\"", "\"client_id\":\"dave\""] {
            assert!(kept.contains(who) && kept.contains("failures within 60 s"), "no {who}: {kept}");
        }
        let world = World::within(folder, threads, users, &[&data]);
        let comes = |client_id: &str, user: &str| {
            let mut client = world.broker.connecting(V5, client_id).user_name(user).password(b"password").send();
            client.expect_connack_code()
        };
        assert_eq!([comes("x", "dave"), comes("x", "ada")], [0x8A; 2]);
        // Of the two bans that match this name, that of the Client Identifier expires soon.
        unban(&world, "\"user\":\"dave\"");
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        while comes("dave", "dave") != 0 {
            assert!(Instant::now() < deadline, "a ban of three seconds outlasts its time");
        }
        assert_eq!(comes("x", "ada"), 0x8A);
    }
}

#[test]
fn a_broker_without_persistence_persists_no_bans() {
    let world = World::new(1, "", &[]);
    ban(&world, "\"client_id\":\"eve\"");
    let World { broker, folder, threads } = world;
    drop(broker);
    let world = World::within(folder, threads, "", &[]);
    world.broker.connect(V5, "eve").ping();
}

pub(crate) const DAVE: &str =
    "dave:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4\n";

/// Bans by rule are enforced like those of operators.
#[test]
fn an_automatic_ban_disconnects_only_matching_connections() {
    for by in ["user", "client_id", "address"] {
        let folder = Folder::new(&[("users", DAVE)]);
        let file = "[auth]\npassword_file = \"users\"\nanonymous = true\nplaintext_passwords = true\n";
        let world = World::within(folder, 2, file, &[&format!("auth.ban_rules=2 failures by {by} in 60 ban 600")]);
        let table =
            "[[listener]]\nname = \"proxied\"\naddress = \"127.0.0.1:0\"\nproxy.trusted_networks = [\"127.0.0.1\"]\n";
        let address = added(&world.reload(&format!("{file}{table}")).expect(200), "proxied");
        let as_dave = |client_id, password: &'static [u8]| {
            ConnectBuilder::new(Transport::Tcp(address), V5, client_id).user_name("dave").password(password)
        };
        let mut dave = send_by_proxy(address, "192.0.2.7", &as_dave("d", b"password"));
        dave.expect_accepted();
        let mut nobody = by_proxy(address, "192.0.2.8", "n");
        for _ in 0..2 {
            assert_eq!(send_by_proxy(address, "192.0.2.7", &as_dave("d", b"wrong")).expect_connack_code(), 0x86);
        }
        assert_eq!(dave.expect_disconnect(), 0x98, "by {by}");
        nobody.ping();
    }
}

/// Clients accepted without authentication stay only if they would be accepted now.
#[test]
fn anonymous_clients_are_disconnected_when_anonymous_is_refused() {
    for threads in [1, 2] {
        let folder = Folder::new(&[("users", DAVE)]);
        let world = World::within(folder, threads, "", &[]);
        let mut nobody = world.broker.connect(V5, "nobody");
        world.reload("[auth]\npassword_file = \"users\"\nanonymous = true\n").expect(200);
        nobody.ping();
        let mut dave = world.broker.connecting(V5, "d").user_name("dave").password(b"password").open();
        let mut also = world.broker.connect(V5, "also-nobody");
        world.reload("[auth]\npassword_file = \"users\"\nanonymous = false\n").expect(200);
        assert_eq!(nobody.expect_disconnect(), 0x87);
        assert_eq!(also.expect_disconnect(), 0x87);
        dave.ping();
    }
}

/// If tokens are no longer accepted, or the hook is removed, clients authenticated by them are no longer known.
#[test]
fn clients_of_a_removed_auth_link_are_disconnected() {
    const SECRET: &str = "a secret of at least thirty-two bytes";
    for threads in [1, 2] {
        let folder = Folder::new(&[("secret", SECRET), ("other", "another secret of thirty-two bytes and more")]);
        let by_secret = |name: &str| format!("[auth]\nanonymous = true\njwt_secret_file = \"{name}\"\n");
        let world = World::within(folder, threads, &by_secret("secret"), &[]);
        let token = token(&format!("{{\"sub\":\"ann\",\"exp\":{}}}", now_s() + 3_600), SECRET);
        let mut ann = world.broker.connecting(V5, "a").user_name("").password(&token).open();
        let mut nobody = world.broker.connect(V5, "nobody");
        world.reload(&by_secret("other")).expect(200);
        ann.ping();
        world.reload("[auth]\nanonymous = true\n").expect(200);
        assert_eq!(ann.expect_disconnect(), 0x87);
        nobody.ping();
    }
}
