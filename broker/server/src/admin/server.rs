//! Where the API is served. A reload may move it: the new socket is bound before the old one is closed, and requests under way end as
//! they have begun.

use std::future::{Future as _, poll_fn};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tautwire_tls::TlsServer;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Admin;
use super::connections::Activity;
use super::exchange::{self, HANDLERS_MAX};
use crate::config::value::AdminAddress;

/// Time between accepting one connection and the next after that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What serves the API, at one address or at none.
#[derive(Default)]
pub(crate) struct AdminServer {
    admin: OnceLock<Arc<Admin>>,
    history: OnceLock<()>,
    listener: Mutex<Option<AdminListener>>,
}

/// A socket at which requests are taken.
struct AdminListener {
    /// As it is configured.
    address: AdminAddress,
    bound: SocketAddr,
    accept_state: watch::Sender<AcceptState>,
}

/// What holds for new connections. When it changes, those that are open end after the request under way.
#[derive(Clone)]
pub(super) struct AcceptState {
    is_closed: bool,
    /// Where it speaks TLS.
    tls: Option<Arc<TlsServer>>,
}

/// A change that has been prepared, and cannot fail any more.
pub(crate) enum ListenerChange {
    Closed,
    Same(AdminAddress, Option<Arc<TlsServer>>),
    Other(PendingListener),
}

/// A socket that is bound, and a thread that waits to be told to accept. It goes away where it is dropped.
pub(crate) struct PendingListener {
    listener: AdminListener,
    begins: Sender<Arc<Admin>>,
}

impl AdminServer {
    /// What answers. It is said once, before anything is adopted.
    pub(crate) fn by(&self, admin: Admin) -> Arc<Admin> {
        self.admin.get_or_init(|| Arc::new(admin)).clone()
    }

    /// Binds what is to be bound; nothing changes yet.
    ///
    /// # Errors
    /// There cannot be listened.
    pub(crate) fn prepare(
        &self,
        address: Option<AdminAddress>,
        tls: Option<Arc<TlsServer>>,
    ) -> Result<ListenerChange, String> {
        let Some(address) = address else { return Ok(ListenerChange::Closed) };
        let held = self.listener().as_ref().map(|listener| (listener.address.socket, listener.bound));
        if held.is_some_and(|(socket, _)| socket == address.socket) {
            return Ok(ListenerChange::Same(address, tls));
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
        opened.map(ListenerChange::Other)
    }

    /// From now on it is so. Says where it is served, where that is new.
    pub(crate) fn adopt(&self, next: ListenerChange) -> Option<String> {
        let admin = self.admin.get()?;
        let mut listener = self.listener();
        let before = match (next, &mut *listener) {
            (ListenerChange::Same(address, tls), Some(listener)) => {
                listener.accept_state.send_replace(AcceptState { is_closed: false, tls });
                let has_changed = listener.address != address;
                listener.address = address;
                return has_changed.then(|| listener.url());
            }
            (ListenerChange::Other(PendingListener { listener: next, begins }), _) => {
                self.history.get_or_init(|| {
                    if let Err(error) = admin.history.start_recording(&admin.control) {
                        log::warn!("the admin API has no history: its thread cannot be started: {error}");
                    }
                });
                let _ = begins.send(admin.clone());
                listener.replace(next)
            }
            (ListenerChange::Closed | ListenerChange::Same(..), listener) => listener.take(),
        };
        if let Some(before) = before {
            before.close();
        }
        listener.as_ref().map(AdminListener::url)
    }

    fn listener(&self) -> MutexGuard<'_, Option<AdminListener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdminListener {
    fn url(&self) -> String {
        AdminAddress { socket: self.bound, ..self.address }.to_string()
    }

    /// No more connections are taken than those that have come.
    fn close(self) {
        self.accept_state.send_modify(|accept_state| accept_state.is_closed = true);
    }
}

/// Binds the address, and starts its thread.
fn open(address: AdminAddress, tls: Option<Arc<TlsServer>>) -> io::Result<PendingListener> {
    let listener = TcpListener::bind(address.socket)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(HANDLERS_MAX)
        .thread_name("admin-request")
        .build()?;
    let (accept_state, staged) = watch::channel(AcceptState { is_closed: false, tls });
    let (begins, begun) = channel();
    thread::Builder::new().name("admin".to_owned()).spawn(move || run(&runtime, listener, staged, &begun))?;
    Ok(PendingListener { listener: AdminListener { address, bound, accept_state }, begins })
}

/// Serves connections until the door is closed, and those that are open then to their ends.
fn run(
    runtime: &Runtime,
    listener: TcpListener,
    accept_state: watch::Receiver<AcceptState>,
    begun: &Receiver<Arc<Admin>>,
) {
    // Without, the reload has come to nothing.
    let Ok(admin) = begun.recv() else { return };
    runtime.block_on(async {
        let mut connections = JoinSet::new();
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => accept(&admin, listener, accept_state, &mut connections).await,
            Err(error) => log::error!("the admin API cannot accept connections: {error}"),
        }
        while connections.join_next().await.is_some() {}
    });
}

/// Accepts connections until the door is closed, and those that have come before that.
async fn accept(
    admin: &Arc<Admin>,
    listener: tokio::net::TcpListener,
    mut accept_state: watch::Receiver<AcceptState>,
    connections: &mut JoinSet<()>,
) {
    loop {
        let is_last = accept_state.borrow_and_update().is_closed;
        let accepted = {
            let mut changed = pin!(accept_state.changed());
            poll_fn(|cx| {
                while let Poll::Ready(Some(_)) = connections.poll_join_next(cx) {}
                let accepted = listener.poll_accept(cx);
                let is_over = is_last || changed.as_mut().poll(cx).is_ready();
                if is_over && accepted.is_pending() { Poll::Ready(None) } else { accepted.map(Some) }
            })
            .await
        };
        match accepted {
            Some(Ok((stream, peer))) => begin(admin, (stream, peer), &accept_state, connections),
            Some(Err(_)) if is_last => return,
            Some(Err(error)) => {
                log::warn!("the admin API cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            None if is_last => return,
            None => {}
        }
    }
}

fn begin(
    admin: &Arc<Admin>,
    (stream, peer): (TcpStream, SocketAddr),
    accept_state: &watch::Receiver<AcceptState>,
    connections: &mut JoinSet<()>,
) {
    let activity = Activity::new();
    let Some(place) = admin.connections.admit(activity.clone()) else {
        log::warn!(
            listener = "admin", address = &*peer.to_string();
            "refused connection: as many connections are open as may be, and all are being served"
        );
        return;
    };
    let number = place.number();
    let (of_task, accept_state) = (admin.clone(), accept_state.clone());
    let tls = accept_state.borrow().tls.clone();
    let task = connections.spawn(async move {
        exchange::serve(of_task, (stream, peer), activity, tls, accept_state).await;
        drop(place);
    });
    admin.connections.started(number, task);
}
