//! Clients on a Unix socket.

use std::path::PathBuf;

use tautwire_client::{Client, Error, Options, Publication, QoS, Reconnect, Subscribe, blocking};
use tautwire_reactor::{ListenAddress, ListenerConfig};
use tautwire_session::AckLevel;

use crate::support::{PATIENCE, Running, any_port, soon};

/// A path for a socket, removed on drop.
struct Socket(PathBuf);

impl Socket {
    fn new(name: &str) -> Socket {
        Socket(std::env::temp_dir().join(format!("tautwire-client-{name}-{}", std::process::id())))
    }

    fn serve(&self) -> Running {
        let place = ListenAddress::Unix { path: self.0.clone(), mode: 0o600 };
        Running::listening(ListenerConfig { place, ..ListenerConfig::plain(any_port(), AckLevel::default()) })
    }

    fn options(&self) -> Options {
        Options::new(&format!("unix:{}", self.0.display())).expect("an address")
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn threads_connect_and_reconnect_through_a_unix_socket() {
    let socket = Socket::new("threads");
    let broker = socket.serve();
    let quick = Reconnect { min: std::time::Duration::from_millis(2), ..Reconnect::default() };
    let client = blocking::Client::connect(socket.options().reconnect(Some(quick))).expect("connects");
    let mut stream = client.subscribe(Subscribe::to("a").qos(QoS::ExactlyOnce)).expect("granted");
    let large = vec![7; 1 << 20];
    client.publish(Publication::new("a", &large).qos(QoS::ExactlyOnce)).expect("taken");
    assert_eq!(stream.next_timeout(PATIENCE).expect("arrives").payload(), large);
    drop(broker);
    let _broker = socket.serve();
    // It subscribes again: the earlier session is gone.
    let again = client.publish(Publication::new("a", "again").qos(QoS::AtLeastOnce)).expect("taken");
    again.wait().expect("acknowledged by the new broker");
    client.disconnect().expect("ends cleanly");
}

#[tokio::test]
async fn tasks_connect_through_a_unix_socket() {
    let socket = Socket::new("tasks");
    let _broker = socket.serve();
    let client = Client::connect(socket.options()).await.expect("connects");
    let mut stream = client.subscribe(Subscribe::to("a").qos(QoS::ExactlyOnce)).await.expect("granted");
    let large = vec![7; 1 << 20];
    client.publish(Publication::new("a", &large).qos(QoS::ExactlyOnce)).await.expect("taken");
    assert_eq!(soon(stream.next()).await.expect("arrives").payload(), large);
    client.disconnect().await.expect("ends cleanly");
}

#[tokio::test]
async fn a_closed_socket_file_is_named() {
    let socket = Socket::new("nobody");
    let named = |error: Error| error.to_string().contains(&format!("unix:{}", socket.0.display()));
    let never = || socket.options().reconnect(None);
    assert!(named(blocking::Client::connect(never()).expect_err("nobody is there")));
    assert!(named(Client::connect(never()).await.expect_err("nobody is there")));
}
