//! A broker for each test, and a relay in front of it that cuts connections.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tautwire_client::{Options, Reconnect};
use tautwire_engine::Settings;
use tautwire_reactor::{AcceptOptions, Broker, ListenerConfig};
use tautwire_router::RetainedLimits;
use tautwire_session::AckLevel;

/// The time limit for every step; a test that exceeds it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A broker that is stopped at the end of the test.
pub(crate) struct Running(Option<Broker>);

impl Running {
    pub(crate) fn start() -> Running {
        Running::listening(ListenerConfig::plain(any_port(), AckLevel::default()))
    }

    pub(crate) fn listening(listen: ListenerConfig) -> Running {
        // Without `$SYS` topics no thread wakes by chance.
        let settings = Settings { sys_interval_s: 0, session_queue_messages: 100_000, ..Settings::default() };
        let retained = RetainedLimits { messages: 1000, bytes: 10 << 20 };
        Running(Some(
            Broker::start(settings, retained, Default::default(), AcceptOptions::open(&[listen]), 1, None)
                .expect("a broker starts on a port of the kernel's choice"),
        ))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.as_ref().expect("it runs until it is dropped").addresses()[0]
    }

    pub(crate) fn options(&self) -> Options {
        options(self.address())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(broker) = self.0.take() {
            broker.stop();
        }
    }
}

pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// Options for tests, with short reconnect delays.
pub(crate) fn options(address: SocketAddr) -> Options {
    let quick = Reconnect { min: Duration::from_millis(2), max: Duration::from_millis(20) };
    Options::new(&format!("mqtt://{address}")).expect("an address").reconnect(Some(quick))
}

/// Awaits a future with a time limit.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Forwards bytes in both directions, until the connection is cut.
pub(crate) struct Relay {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<[TcpStream; 2]>>>,
    refuses: Arc<AtomicBool>,
}

impl Relay {
    pub(crate) fn to(target: SocketAddr) -> Relay {
        let listener = TcpListener::bind(any_port()).expect("a port");
        let relay = Relay {
            address: listener.local_addr().expect("bound"),
            connections: Arc::default(),
            refuses: Arc::default(),
        };
        let (connections, refuses) = (relay.connections.clone(), relay.refuses.clone());
        std::thread::spawn(move || {
            for incoming in listener.incoming().map_while(Result::ok) {
                // Locked until both ends are in the list, so that every open connection can be cut.
                let mut connections = connections.lock().expect("not poisoned");
                if refuses.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(outgoing) = TcpStream::connect(target) else { continue };
                for stream in [&incoming, &outgoing] {
                    stream.set_nodelay(true).expect("a socket takes options");
                }
                pass_on(&incoming, &outgoing);
                pass_on(&outgoing, &incoming);
                connections.push([incoming, outgoing]);
            }
        });
        relay
    }

    pub(crate) fn address(&self) -> String {
        format!("mqtt://{}", self.address)
    }

    pub(crate) fn options(&self) -> Options {
        options(self.address)
    }

    /// Closes all connections without DISCONNECT.
    pub(crate) fn cut(&self) {
        for [incoming, outgoing] in self.connections.lock().expect("not poisoned").drain(..) {
            let _ = incoming.shutdown(Shutdown::Both);
            let _ = outgoing.shutdown(Shutdown::Both);
        }
    }

    /// Refuses new connections, or accepts them again.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }
}

fn pass_on(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) =
        (from.try_clone().expect("a socket can be shared"), to.try_clone().expect("a socket can be shared"));
    std::thread::spawn(move || {
        let mut bytes = [0; 16 << 10];
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
            && to.write_all(&bytes[..count]).is_ok()
        {}
        let _ = to.shutdown(Shutdown::Write);
    });
}
