//! Routes between servers that can be delayed: the others reach each server through a proxy of ours.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Data that was read, with the time to forward it.
type Part = (Instant, Vec<u8>);

pub(crate) struct SlowRoutes {
    delay_ms: Arc<AtomicU64>,
    ports: Vec<u16>,
}

impl SlowRoutes {
    /// Creates a route to each of these ports, without delay.
    pub(crate) fn to(routes: impl Iterator<Item = u16>) -> SlowRoutes {
        let delay_ms = Arc::new(AtomicU64::new(0));
        let ports = routes.map(|port| lead_to(port, &delay_ms)).collect();
        SlowRoutes { delay_ms, ports }
    }

    pub(crate) fn port(&self, server: usize) -> u16 {
        self.ports[server]
    }

    /// Delays all messages between servers from now on.
    pub(crate) fn delay(&self, delay_ms: u64) {
        self.delay_ms.store(delay_ms, Ordering::Relaxed);
    }
}

/// Forwards connections until the process ends. Returns the port.
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
