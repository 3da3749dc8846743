//! The listener of the API. A reload can move it: the new socket is bound before the old one is closed, and requests in progress complete.

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

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The server of the API, listening at one address or at none.
#[derive(Default)]
pub(crate) struct AdminServer {
    admin: OnceLock<Arc<Admin>>,
    history: OnceLock<()>,
    listener: Mutex<Option<AdminListener>>,
}

/// A socket that accepts connections.
struct AdminListener {
    /// The configured address.
    address: AdminAddress,
    bound: SocketAddr,
    accept_state: watch::Sender<AcceptState>,
}

/// State for new connections. When it changes, open connections end after their current request.
#[derive(Clone)]
pub(super) struct AcceptState {
    is_closed: bool,
    /// Set if the listener uses TLS.
    tls: Option<Arc<TlsServer>>,
}

/// A prepared change that can no longer fail.
pub(crate) enum ListenerChange {
    Closed,
    Same(AdminAddress, Option<Arc<TlsServer>>),
    Other(PendingListener),
}

/// A bound socket with a thread that waits to start accepting. Dropping it closes both.
pub(crate) struct PendingListener {
    listener: AdminListener,
    start: Sender<Arc<Admin>>,
}

impl AdminServer {
    /// Sets the state that requests are served from. Called once, before the first `apply`.
    pub(crate) fn init(&self, admin: Admin) -> Arc<Admin> {
        self.admin.get_or_init(|| Arc::new(admin)).clone()
    }

    /// Binds a new address, if there is one; nothing else changes yet.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub(crate) fn prepare(
        &self,
        address: Option<AdminAddress>,
        tls: Option<Arc<TlsServer>>,
    ) -> Result<ListenerChange, String> {
        let Some(address) = address else { return Ok(ListenerChange::Closed) };
        let current = self.listener().as_ref().map(|listener| (listener.address.socket, listener.bound));
        if current.is_some_and(|(socket, _)| socket == address.socket) {
            return Ok(ListenerChange::Same(address, tls));
        }
        let opened = open(address, tls).map_err(|error| {
            let is_own = current.is_some_and(|(_, bound)| bound.port() == address.socket.port());
            if is_own && error.kind() == ErrorKind::AddrInUse {
                return format!(
                    "cannot serve the admin API at {address}: the current listener uses the same port at another address; choose another \
                     port, or remove admin.listen with a separate reload first [admin.listen]"
                );
            }
            format!("cannot serve the admin API at {address}: {error} [admin.listen]")
        });
        opened.map(ListenerChange::Other)
    }

    /// Applies a prepared change. Returns the URL if it is new.
    pub(crate) fn apply(&self, next: ListenerChange) -> Option<String> {
        let admin = self.admin.get()?;
        let mut listener = self.listener();
        let previous = match (next, &mut *listener) {
            (ListenerChange::Same(address, tls), Some(listener)) => {
                listener.accept_state.send_replace(AcceptState { is_closed: false, tls });
                let has_changed = listener.address != address;
                listener.address = address;
                return has_changed.then(|| listener.url());
            }
            (ListenerChange::Other(PendingListener { listener: next, start }), _) => {
                self.history.get_or_init(|| {
                    if let Err(error) = admin.history.start_recording(&admin.control) {
                        log::warn!("the admin API records no history: cannot start its thread: {error}");
                    }
                });
                let _ = start.send(admin.clone());
                listener.replace(next)
            }
            (ListenerChange::Closed | ListenerChange::Same(..), listener) => listener.take(),
        };
        if let Some(previous) = previous {
            previous.close();
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

    /// Stops accepting, after the connections that are already queued.
    fn close(self) {
        self.accept_state.send_modify(|accept_state| accept_state.is_closed = true);
    }
}

/// Binds the address and starts its thread.
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
    let (accept_state, accept_receiver) = watch::channel(AcceptState { is_closed: false, tls });
    let (start, started) = channel();
    thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || run(&runtime, listener, accept_receiver, &started))?;
    Ok(PendingListener { listener: AdminListener { address, bound, accept_state }, start })
}

/// Serves connections until the listener is closed, then waits for the open ones to end.
fn run(
    runtime: &Runtime,
    listener: TcpListener,
    accept_state: watch::Receiver<AcceptState>,
    started: &Receiver<Arc<Admin>>,
) {
    // The sender is dropped if the reload fails.
    let Ok(admin) = started.recv() else { return };
    runtime.block_on(async {
        let mut connections = JoinSet::new();
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => accept(&admin, listener, accept_state, &mut connections).await,
            Err(error) => log::error!("the admin API cannot accept connections: {error}"),
        }
        while connections.join_next().await.is_some() {}
    });
}

/// Accepts connections until the listener is closed, including those queued by then.
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
            Some(Ok((stream, peer))) => serve_connection(admin, (stream, peer), &accept_state, connections),
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

fn serve_connection(
    admin: &Arc<Admin>,
    (stream, peer): (TcpStream, SocketAddr),
    accept_state: &watch::Receiver<AcceptState>,
    connections: &mut JoinSet<()>,
) {
    let activity = Activity::new();
    let Some(permit) = admin.connections.admit(activity.clone()) else {
        log::warn!(
            listener = "admin", address = &*peer.to_string();
            "refused connection: the connection limit of the admin API is reached, and no open connection is idle"
        );
        return;
    };
    let number = permit.number();
    let (task_admin, accept_state) = (admin.clone(), accept_state.clone());
    let tls = accept_state.borrow().tls.clone();
    let task = connections.spawn(async move {
        exchange::serve(task_admin, (stream, peer), activity, tls, accept_state).await;
        drop(permit);
    });
    admin.connections.started(number, task);
}
