//! MQTT over Unix sockets.

use std::fs;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::connecting;
use crate::support::{AtLeastOnce, Broker, Client, ExactlyOnce, Folder, V5, Wire};

/// A client on a Unix socket.
fn dial(path: &Path) -> Client {
    let stream = UnixStream::connect(path).expect("the broker listens there");
    Client::on(Wire::Tcp(TcpStream::from(OwnedFd::from(stream))), V5)
}

fn connect(path: &Path, client_id: &str) -> Client {
    let mut client = dial(path);
    // The address is not used.
    let connect = connecting(([127, 0, 0, 1], 0).into(), client_id).bytes();
    client.send_bytes(&connect);
    client.expect_accepted();
    client
}

fn table(folder: &Folder, more: &str) -> String {
    format!("[[listener]]\nname = \"local\"\naddress = \"unix:{}\"\n{more}", folder.path().join("s").display())
}

/// With two threads, so that connections move.
#[test]
fn clients_of_a_unix_socket_are_served_like_others() {
    let folder = Folder::new(&[]);
    let broker = Broker::with_listeners(2, &folder, &table(&folder, ""), &["log.level=debug"]);
    let path = folder.path().join("s");
    assert_eq!(broker.other(0), format!("unix:{}", path.display()));
    let names: Vec<String> = (0..8).map(|number| format!("local-{number}")).collect();
    let mut locals: Vec<Client> = names.iter().map(|name| connect(&path, name)).collect();
    let mut remote = broker.connect(V5, "remote");
    for client in locals.iter_mut().chain([&mut remote]) {
        client.subscribe("t", ExactlyOnce);
    }
    let large = vec![7; 300_000];
    locals[0].publish("t", AtLeastOnce, &large);
    remote.publish("t", ExactlyOnce, b"x");
    for client in locals.iter_mut().chain([&mut remote]) {
        let mut lengths = [client.receive().payload().len(), client.receive().payload().len()];
        lengths.sort_unstable();
        assert_eq!(lengths, [1, large.len()]);
    }
    drop(locals);
    let uid = fs::metadata(folder.path()).expect("the folder exists").uid();
    let log = broker.end();
    assert!(log.contains(&format!("listener local: a connection from user {uid} of this machine")), "{log}");
}

/// Access rules use the peer's user as reported by the system.
#[test]
fn the_system_user_is_a_claim_for_rules() {
    let folder = Folder::new(&[]);
    let uid = fs::metadata(folder.path()).expect("the folder exists").uid();
    let rules = format!(
        "[[role]]\nname = \"own\"\nrules = [{{ allow = \"publish\", topics = \"{{claim.peer_uid}}/#\" }}]\n\
         [[assign]]\nlistener = \"local\"\nclaims = {{ peer_uid = \"{uid}\" }}\nroles = \"own\"\n"
    );
    folder.write("access.toml", &rules);
    let setting = format!("acl.file={}", folder.path().join("access.toml").display());
    let broker = Broker::with_listeners(2, &folder, &table(&folder, ""), &[&setting]);
    let (mut local, mut remote) = (connect(&folder.path().join("s"), "local"), broker.connect(V5, "remote"));
    let own = format!("{uid}/x");
    assert_eq!(local.publish(&own, AtLeastOnce, b"x"), 0x10);
    assert_eq!(local.publish(&format!("{}/x", uid.wrapping_add(1)), AtLeastOnce, b"x"), 0x87);
    assert_eq!(remote.publish(&own, AtLeastOnce, b"x"), 0x87);
}

#[test]
fn the_socket_file_has_its_mode_and_is_removed_on_stop() {
    let folder = Folder::new(&[]);
    let path = folder.path().join("s");
    for (more, mode) in [("", 0o660), ("mode = \"606\"\n", 0o606)] {
        let broker = Broker::with_listeners(1, &folder, &table(&folder, more), &[]);
        let found = fs::metadata(&path).expect("the broker listens there").permissions().mode();
        assert_eq!(found & 0o777, mode);
        broker.end();
        assert!(!path.exists());
    }
}

/// The socket file of a killed broker does not prevent a start; another program's does.
#[test]
fn a_stale_socket_is_replaced_and_one_in_use_is_not() {
    let folder = Folder::new(&[]);
    let path = folder.path().join("s");
    drop(Broker::with_listeners(1, &folder, &table(&folder, ""), &[]));
    assert!(path.exists(), "a killed broker leaves its socket file");
    let broker = Broker::with_listeners(1, &folder, &table(&folder, ""), &[]);
    connect(&path, "client").ping();
    broker.end();
    let other = UnixListener::bind(&path).expect("the address is free");
    let stderr = Broker::refused_with_listeners(&folder, &table(&folder, ""));
    assert!(stderr.contains("another program listens on the socket"), "{stderr}");
    drop(other);
    fs::remove_file(&path).expect("the socket file exists");
    fs::write(&path, "text").expect("writes");
    let stderr = Broker::refused_with_listeners(&folder, &table(&folder, ""));
    assert!(stderr.contains("the path exists and is not a socket"), "{stderr}");
    assert_eq!(fs::read_to_string(&path).expect("the file still exists"), "text");
}
