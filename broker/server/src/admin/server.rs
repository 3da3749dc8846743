//! Accepting connections to the API.

use std::future::{Future as _, poll_fn};
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connections::Activity;
use super::exchange;
use super::listener::{AcceptState, AdminListener};
use super::state::AdminState;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl AdminState {
    /// Serves the API on the sockets of `listener`.
    pub(crate) fn serve_on(self: &Arc<AdminState>, listener: &AdminListener) {
        let admin = self.clone();
        listener.serve_with(move |runtime, listener, accept_state| run(&admin, runtime, listener, accept_state));
    }
}

/// Serves connections until the listener is closed, then waits for the open ones to end.
fn run(admin: &Arc<AdminState>, runtime: &Runtime, listener: TcpListener, accept_state: watch::Receiver<AcceptState>) {
    if let Err(error) = admin.history.start_recording(&admin.control) {
        log::warn!("the admin API records no history: cannot start its thread: {error}");
    }
    runtime.block_on(async {
        let mut connections = JoinSet::new();
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => accept(admin, listener, accept_state, &mut connections).await,
            Err(error) => log::error!("the admin API cannot accept connections: {error}"),
        }
        while connections.join_next().await.is_some() {}
    });
}

/// Accepts connections until the listener is closed, including those queued by then.
async fn accept(
    admin: &Arc<AdminState>,
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
    admin: &Arc<AdminState>,
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
