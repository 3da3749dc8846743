//! The ways between servers, which may be slow: each server is reached by the others through a socket of ours, which holds back what goes by it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What has been read, and when it is to go on.
type Part = (Instant, Vec<u8>);

pub(crate) struct SlowRoutes {
    delay_ms: Arc<AtomicU64>,
    ports: Vec<u16>,
}

impl SlowRoutes {
    /// A way to each of these ports, with no delay.
    pub(crate) fn to(routes: impl Iterator<Item = u16>) -> SlowRoutes {
        let delay_ms = Arc::new(AtomicU64::new(0));
        let ports = routes.map(|port| lead_to(port, &delay_ms)).collect();
        SlowRoutes { delay_ms, ports }
    }

    pub(crate) fn port(&self, server: usize) -> u16 {
        self.ports[server]
    }

    /// Whatever a server says to another one from now on arrives so much later.
    pub(crate) fn delay(&self, delay_ms: u64) {
        self.delay_ms.store(delay_ms, Ordering::Relaxed);
    }
}

/// Takes connections until the process ends; gives where.
fn lead_to(port: u16, delay_ms: &Arc<AtomicU64>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = listener.local_addr().expect("an address").port();
    let delay_ms = delay_ms.clone();
    thread::spawn(move || {
        for from in listener.incoming().flatten() {
            if let Ok(to) = TcpStream::connect(("127.0.0.1", port)) {
                let _ = (from.set_nodelay(true), to.set_nodelay(true));
                hold_back(&from, &to, &delay_ms);
                hold_back(&to, &from, &delay_ms);
            }
        }
    });
    own
}

fn hold_back(from: &TcpStream, to: &TcpStream, delay_ms: &Arc<AtomicU64>) {
    let (from, to, delay_ms) =
        (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"), delay_ms.clone());
    let (parts, deferred) = channel();
    thread::spawn(move || read(from, &parts, &delay_ms));
    thread::spawn(move || write(to, &deferred));
}

fn read(mut from: TcpStream, parts: &Sender<Part>, delay_ms: &AtomicU64) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        let at = Instant::now() + Duration::from_millis(delay_ms.load(Ordering::Relaxed));
        if parts.send((at, buffer[..len].to_vec())).is_err() {
            return;
        }
    }
}

fn write(mut to: TcpStream, deferred: &Receiver<Part>) {
    while let Ok((at, part)) = deferred.recv() {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&part).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
