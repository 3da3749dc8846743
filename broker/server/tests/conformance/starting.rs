//! Startup: checks before listening, system limits, and notifications to the service manager.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::support::{Broker, EXPECT_TIMEOUT, Folder, TOKEN, V5};

fn env(variables: &[String]) -> Vec<String> {
    ["env".to_owned()].iter().chain(variables).cloned().collect()
}

/// Otherwise clients and operators would connect to a broker that ends a second later. The test occupies the ports to fail a broker that
/// listens first.
#[test]
fn a_locked_directory_is_reported_before_listening() {
    let folder = Folder::new(&[]);
    let data = format!("data.path={}", folder.path().join("data").display());
    let first = Broker::with_wrapper(&env(&[]), &[], &[&data]);
    let taken = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port is free"));
    let [mqtt, admin] = taken.each_ref().map(|listener| listener.local_addr().expect("is bound").to_string());
    let admin = format!("admin.listen={admin}");
    folder.write("token", TOKEN);
    let token = format!("admin.token_file={}", folder.path().join("token").display());
    let stderr = Broker::refused_by(&env(&[]), &["--listen", &mqtt], &[&data, &admin, &token]);
    assert!(stderr.contains("another broker uses it"), "{stderr}");
    first.connect(V5, "still").disconnect();
}

fn with_ulimit(limit: &str) -> Vec<String> {
    ["sh", "-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")].map(str::to_owned).to_vec()
}

/// The soft and the hard limit of open files.
fn limits(broker: &Broker) -> [u64; 2] {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", broker.pid())).expect("it runs");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("it says so");
    let mut numbers = line.split_whitespace().map(|number| number.parse().unwrap_or(u64::MAX));
    [(); 2].map(|()| numbers.next().expect("a number"))
}

#[test]
fn the_limit_of_open_files_is_raised_to_its_maximum() {
    let broker = Broker::with_wrapper(&with_ulimit("-Sn 64"), &[], &["limits.connections=100"]);
    let [soft, hard] = limits(&broker);
    assert!(soft == hard && hard > 64, "{soft} {hard}");
    let log = broker.end();
    assert!(!log.contains("[descriptors]"), "{log}");
}

#[test]
fn an_open_files_limit_below_the_connection_limit_is_reported() {
    let broker = Broker::with_wrapper(&with_ulimit("-n 400"), &[], &["limits.connections=5000"]);
    assert_eq!(limits(&broker), [400, 400]);
    let log = broker.end();
    let parts = [" WARN ", "limits.connections is 5000", "may open only 400 files", "to 5256", "[descriptors]"];
    for part in parts {
        assert!(log.contains(part), "{part}: {log}");
    }
}

/// The receiving side of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn at(address: &SocketAddr) -> Manager {
        let socket = UnixDatagram::bind_addr(address).expect("can be bound");
        socket.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("can be set");
        Manager(socket)
    }

    fn received(&self) -> String {
        let mut text = [0; 1_000];
        let bytes = self.0.recv(&mut text).expect("a notification arrives");
        String::from_utf8_lossy(&text[..bytes]).into_owned()
    }

    fn expect_silence(&self) {
        self.0.set_nonblocking(true).expect("can be set");
        assert!(self.0.recv(&mut [0; 100]).is_err(), "an unexpected notification");
    }
}

/// See sd_notify(3).
#[test]
fn the_service_manager_is_notified_of_ready_reload_and_stop() {
    let folder = Folder::new(&[]);
    let path = folder.path().join("notify");
    let by_path = (SocketAddr::from_pathname(&path).expect("is short"), path.display().to_string());
    let name = format!("tautwire-notify-{}", std::process::id());
    let by_name = (SocketAddr::from_abstract_name(&name).expect("is short"), format!("@{name}"));
    for (address, variable) in [by_path, by_name] {
        let manager = Manager::at(&address);
        // A watchdog set for another process is ignored.
        let variables =
            [format!("NOTIFY_SOCKET={variable}"), "WATCHDOG_USEC=1000".to_owned(), "WATCHDOG_PID=1".to_owned()];
        let broker = Broker::with_wrapper(&env(&variables), &[], &[]);
        assert_eq!(manager.received(), "READY=1");
        broker.connect(V5, "client").disconnect();
        broker.signal("HUP");
        let reloading = manager.received();
        let moment =
            reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|moment| moment.parse::<u64>().ok());
        assert!(moment.is_some_and(|moment| moment > 0), "{reloading}");
        assert_eq!(manager.received(), "READY=1");
        broker.end();
        assert_eq!(manager.received(), "STOPPING=1");
        manager.expect_silence();
    }
}

#[test]
fn the_watchdog_is_notified_while_all_threads_respond() {
    let folder = Folder::new(&[]);
    let path = folder.path().join("notify");
    let manager = Manager::at(&SocketAddr::from_pathname(&path).expect("is short"));
    let variables = [format!("NOTIFY_SOCKET={}", path.display()), "WATCHDOG_USEC=2000000".to_owned()];
    let _broker = Broker::with_wrapper(&env(&variables), &[], &[]);
    assert_eq!(manager.received(), "READY=1");
    for _ in 0..2 {
        assert_eq!(manager.received(), "WATCHDOG=1");
    }
}

#[test]
fn a_missing_service_manager_is_logged_and_not_awaited() {
    let folder = Folder::new(&[]);
    let path = folder.path().join("nobody");
    let broker = Broker::with_wrapper(&env(&[format!("NOTIFY_SOCKET={}", path.display())]), &[], &[]);
    broker.connect(V5, "client").disconnect();
    let log = broker.end();
    assert!(log.contains("cannot send \"READY=1\" to the service manager"), "{log}");
}
