//! Switching from root to another user. The tests only run as root.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use crate::faults::{is_root, skipped};
use crate::listeners::connecting;
use crate::support::tls::Authority;
use crate::support::{AtLeastOnce, Broker, Folder, TOKEN, V5, admin};

/// A user without an entry: numeric IDs need none.
const UID: u32 = 54_321;
const GID: u32 = 54_322;

/// The kernel's status of each thread of a process.
fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the broker runs");
    let status = |task: Result<fs::DirEntry, _>| fs::read_to_string(task.expect("a thread").path().join("status"));
    tasks.map(|task| status(task).expect("the thread exists")).collect()
}

fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_broker_started_as_root_drops_all_privileges_in_all_threads() {
    if !is_root() {
        return skipped("needs root");
    }
    let folder = Folder::new(&[("token", TOKEN)]);
    let path = folder.path();
    let authority = Authority::new();
    authority.write(&folder, "server");
    fs::set_permissions(path.join("server.key"), fs::Permissions::from_mode(0o600))
        .expect("the permissions are changed");
    fs::create_dir(path.join("state")).expect("there is room");
    chown(path.join("state"), Some(UID), Some(GID)).expect("this is root");
    let tables = format!(
        "[tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n[audit]\nfile = \"state/audit.log\"\n\
                          [[listener]]\nname = \"tls\"\naddress = \"mqtts://127.0.0.1:0\"\n\
                          [[listener]]\nname = \"local\"\naddress = \"unix:{}\"\n",
        path.join("s").display()
    );
    let settings = [
        format!("user={UID}:{GID}"),
        format!("data.path={}", path.join("state/data").display()),
        format!("admin.token_file={}", path.join("token").display()),
        "admin.listen=127.0.0.1:0".to_owned(),
    ];
    let broker = Broker::with_listeners(2, &folder, &tables, &settings.each_ref().map(String::as_str));

    let threads = threads(broker.pid());
    assert!(threads.len() > 4, "the broker has threads: {}", threads.len());
    for thread in &threads {
        // Real, effective, saved, and file system ID.
        assert_eq!(field(thread, "Uid"), [UID; 4].map(|id| id.to_string()).join(" "), "{thread}");
        assert_eq!(field(thread, "Gid"), [GID; 4].map(|id| id.to_string()).join(" "), "{thread}");
        assert_eq!(field(thread, "Groups"), GID.to_string(), "{thread}");
        for rights in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(field(thread, rights).trim_start_matches('0'), "", "{thread}");
        }
    }
    for own in ["s", "state/audit.log", "state/data"] {
        let found = fs::metadata(path.join(own)).expect("the broker made it");
        assert_eq!((found.uid(), found.gid()), (UID, GID), "{own}");
    }

    // It works: messages are stored, and TLS has the key that only root can read.
    let mut client = broker.connect(V5, "client");
    client.subscribe("t", AtLeastOnce);
    assert_eq!(client.publish("t", AtLeastOnce, b"x"), 0);
    let tls = broker.other_address(0);
    let mut secured = authority.connect(TcpStream::connect(tls).expect("it listens"), None);
    secured.open(&connecting(tls, "secured").bytes());

    // The key is read again by the unprivileged broker, which reports the error and continues with the old key.
    let reload = || admin(broker.admin_address(), "POST", "/config/reload", "");
    let refused = reload();
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(refused.body.contains("server.key cannot be read: Permission denied"), "{}", refused.body);
    secured.ping();
    chown(path.join("server.key"), None, Some(GID)).expect("this is root");
    fs::set_permissions(path.join("server.key"), fs::Permissions::from_mode(0o640))
        .expect("the permissions are changed");
    let done = reload();
    assert_eq!(done.status, 200, "{}", done.body);

    // A renamed audit log is created again by the new user.
    fs::rename(path.join("state/audit.log"), path.join("state/old.log")).expect("the audit log exists");
    broker.signal("HUP");
    let log = broker.end();
    assert!(log.contains(&format!("the broker now runs as user {UID} (group {GID})")), "{log}");
    assert!(!log.contains("the broker runs as root"), "{log}");
    let audit = fs::metadata(path.join("state/audit.log")).expect("it is reopened");
    assert_eq!(audit.uid(), UID);
}

/// The state belongs to the user too: a directory that only root can write is refused at startup, not with the first message.
#[test]
fn a_folder_that_the_user_cannot_write_prevents_the_start() {
    if !is_root() {
        return skipped("needs root");
    }
    let folder = Folder::new(&[]);
    let data = format!("data.path={}", folder.path().join("data").display());
    let stderr = Broker::refused(&[&format!("user={UID}:{GID}"), &data]);
    assert!(stderr.contains("Permission denied") && stderr.contains("data directory"), "{stderr}");
}

#[test]
fn running_as_root_is_a_warning_unless_configured() {
    if !is_root() {
        return skipped("needs root");
    }
    assert!(Broker::start().end().contains("the broker runs as root without need"));
    assert!(!Broker::set(&["user=root"]).end().contains("runs as root"));
}

#[test]
fn a_user_that_does_not_exist_is_refused() {
    let stderr = Broker::refused(&["user=nobody-at-all"]);
    assert!(stderr.contains("no user \"nobody-at-all\" in /etc/passwd"), "{stderr}");
}
