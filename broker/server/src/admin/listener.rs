//! The listener of the API. A reload can move it: the new socket is bound before the old one is closed, and requests in progress complete.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use tautwire_tls::TlsServer;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::handler_limits::HANDLERS_MAX;
use crate::config::value::AdminAddress;

/// Serves the connections of a socket until the listener is closed.
type Serve = Arc<dyn Fn(&Runtime, TcpListener, watch::Receiver<AcceptState>) + Send + Sync>;

/// The listener of the API, at one address or at none.
#[derive(Default)]
pub(crate) struct AdminListener {
    serve: OnceLock<Serve>,
    current: Mutex<Option<OpenListener>>,
}

/// A socket that accepts connections.
struct OpenListener {
    /// The configured address.
    address: AdminAddress,
    bound: SocketAddr,
    accept_state: watch::Sender<AcceptState>,
}

/// State for new connections. When it changes, open connections end after their current request.
#[derive(Clone)]
pub(super) struct AcceptState {
    pub(super) is_closed: bool,
    /// Set if the listener uses TLS.
    pub(super) tls: Option<Arc<TlsServer>>,
}

/// A prepared change that can no longer fail.
pub(crate) enum ListenerChange {
    Closed,
    Same(AdminAddress, Option<Arc<TlsServer>>),
    Other(PendingListener),
}

/// A bound socket with a thread that waits to start accepting. Dropping it closes both.
pub(crate) struct PendingListener {
    listener: OpenListener,
    start: Sender<Serve>,
}

impl AdminListener {
    /// Sets the function that serves connections. Called once, before the first `apply`.
    pub(super) fn serve_with(
        &self,
        serve: impl Fn(&Runtime, TcpListener, watch::Receiver<AcceptState>) + Send + Sync + 'static,
    ) {
        let _ = self.serve.set(Arc::new(serve));
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
        let current = self.current().as_ref().map(|listener| (listener.address.socket, listener.bound));
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
        let serve = self.serve.get()?;
        let mut current = self.current();
        let previous = match (next, &mut *current) {
            (ListenerChange::Same(address, tls), Some(listener)) => {
                listener.accept_state.send_replace(AcceptState { is_closed: false, tls });
                let has_changed = listener.address != address;
                listener.address = address;
                return has_changed.then(|| listener.url());
            }
            (ListenerChange::Other(PendingListener { listener: next, start }), _) => {
                let _ = start.send(serve.clone());
                current.replace(next)
            }
            (ListenerChange::Closed | ListenerChange::Same(..), current) => current.take(),
        };
        if let Some(previous) = previous {
            previous.close();
        }
        current.as_ref().map(OpenListener::url)
    }

    fn current(&self) -> MutexGuard<'_, Option<OpenListener>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenListener {
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
    let (start, started) = channel::<Serve>();
    thread::Builder::new().name("admin".to_owned()).spawn(move || {
        // The sender is dropped if the reload fails.
        if let Ok(serve) = started.recv() {
            serve(&runtime, listener, accept_receiver);
        }
    })?;
    Ok(PendingListener { listener: OpenListener { address, bound, accept_state }, start })
}
