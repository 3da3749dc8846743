//! Where the API is served. A reload may move it: the new socket is bound before the old one is closed, and requests under way end as
//! they have begun.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use tautwire_tls::Server;

use super::Admin;
use crate::config::value::AdminAddress;

/// Connections answered with 503 that are kept until others come.
const REFUSED_KEPT: usize = 16;
/// Time between accepting one connection and the next after that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time to wake a thread that accepts, by a connection.
const WAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// What serves the API, at one address or at none.
#[derive(Default)]
pub(crate) struct Serving {
    admin: OnceLock<Arc<Admin>>,
    history: OnceLock<()>,
    door: Mutex<Option<Door>>,
}

/// A socket at which requests are taken.
struct Door {
    /// As it is configured.
    address: AdminAddress,
    bound: SocketAddr,
    state: Arc<DoorState>,
}

/// What the thread that accepts looks at for each connection.
struct DoorState {
    is_closed: AtomicBool,
    /// Where it speaks TLS.
    tls: RwLock<Option<Arc<Server>>>,
}

/// A change that has been prepared, and cannot fail any more.
pub(crate) enum NextDoor {
    Closed,
    Same(AdminAddress, Option<Arc<Server>>),
    Other(OpeningDoor),
}

/// A socket that is bound, and a thread that waits to be told to accept. It goes away where it is dropped.
pub(crate) struct OpeningDoor {
    door: Door,
    begins: Sender<Arc<Admin>>,
}

impl Serving {
    /// What answers. It is said once, before anything is adopted.
    pub(crate) fn by(&self, admin: Admin) -> Arc<Admin> {
        self.admin.get_or_init(|| Arc::new(admin)).clone()
    }

    /// Binds what is to be bound; nothing changes yet.
    ///
    /// # Errors
    /// There cannot be listened.
    pub(crate) fn prepare(&self, address: Option<AdminAddress>, tls: Option<Arc<Server>>) -> Result<NextDoor, String> {
        let Some(address) = address else { return Ok(NextDoor::Closed) };
        let held = self.door().as_ref().map(|door| (door.address.socket, door.bound));
        if held.is_some_and(|(socket, _)| socket == address.socket) {
            return Ok(NextDoor::Same(address, tls));
        }
        let opened = open(address, tls).map_err(|error| {
            let is_own = held.is_some_and(|(_, bound)| bound.port() == address.socket.port());
            if is_own && error.kind() == ErrorKind::AddrInUse {
                return format!(
                    "cannot serve the admin API at {address}: it has this port at another address; choose another port, or take \
                     admin.listen away by a reload of its own first [admin.listen]"
                );
            }
            format!("cannot serve the admin API at {address}: {error} [admin.listen]")
        });
        opened.map(NextDoor::Other)
    }

    /// From now on it is so. Says where it is served, where that is new.
    pub(crate) fn adopt(&self, next: NextDoor) -> Option<String> {
        let admin = self.admin.get()?;
        let mut door = self.door();
        let before = match (next, &mut *door) {
            (NextDoor::Same(address, tls), Some(door)) => {
                *door.state.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
                let has_changed = door.address != address;
                door.address = address;
                return has_changed.then(|| door.url());
            }
            (NextDoor::Other(OpeningDoor { door: next, begins }), _) => {
                self.history.get_or_init(|| {
                    if let Err(error) = admin.history.keep(&admin.control) {
                        log::warn!("the admin API has no history: its thread cannot be started: {error}");
                    }
                });
                let _ = begins.send(admin.clone());
                door.replace(next)
            }
            (NextDoor::Closed | NextDoor::Same(..), door) => door.take(),
        };
        if let Some(before) = before {
            before.close();
        }
        door.as_ref().map(Door::url)
    }

    fn door(&self) -> MutexGuard<'_, Option<Door>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    fn url(&self) -> String {
        AdminAddress { socket: self.bound, ..self.address }.to_string()
    }

    /// No more connections are taken than those that have come.
    fn close(self) {
        self.state.is_closed.store(true, Ordering::Release);
        let here = match self.bound.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        if let Err(error) = TcpStream::connect_timeout(&SocketAddr::new(here, self.bound.port()), WAKE_TIMEOUT) {
            log::warn!("the admin API is at {} until somebody comes there once more: {error}", self.url());
        }
    }
}

impl DoorState {
    fn tls(&self) -> Option<Arc<Server>> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Binds the address, and starts its thread.
fn open(address: AdminAddress, tls: Option<Arc<Server>>) -> io::Result<OpeningDoor> {
    let listener = TcpListener::bind(address.socket)?;
    let bound = listener.local_addr()?;
    let state = Arc::new(DoorState { is_closed: AtomicBool::new(false), tls: RwLock::new(tls) });
    let (begins, begun) = channel();
    let of_thread = state.clone();
    thread::Builder::new().name("admin".to_owned()).spawn(move || accept(&listener, &of_thread, &begun))?;
    Ok(OpeningDoor { door: Door { address, bound, state }, begins })
}

/// Takes connections until the door is closed.
fn accept(listener: &TcpListener, state: &DoorState, begun: &Receiver<Arc<Admin>>) {
    // Without, the reload has come to nothing.
    let Ok(admin) = begun.recv() else { return };
    // A connection that is closed while its client still writes may lose its answer on the way.
    let mut refused = VecDeque::new();
    let mut is_last = false;
    loop {
        if !is_last && state.is_closed.load(Ordering::Acquire) {
            // Those that have come already are served.
            is_last = true;
            if listener.set_nonblocking(true).is_err() {
                return;
            }
        }
        match listener.accept() {
            Ok((stream, peer)) => {
                let _ = stream.set_nonblocking(false);
                if let Err(stream) = admin.clone().admit(stream, peer, state.tls()) {
                    refused.truncate(REFUSED_KEPT - 1);
                    refused.push_front(stream);
                }
            }
            Err(_) if is_last => return,
            Err(error) => {
                log::warn!("the admin API cannot accept a connection: {error}");
                thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}
