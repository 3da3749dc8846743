//! The set of listeners, and how it changes at runtime: all new sockets are bound before anything changes.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::accept_limiter::{AcceptLimiter, ListenerState};
use crate::accept_rate::{AcceptLimits, AcceptRate};
use crate::listener::{Listener, PlannedListener, Socket, SocketSource};
use crate::listener_config::{ListenAddress, ListenerConfig};

/// All listeners, in the configured order.
#[derive(Debug)]
pub(crate) struct ListenerSet {
    active: Vec<ActiveListener>,
    accept_rate: Arc<AcceptRate>,
    limits: AcceptLimits,
}

#[derive(Debug, Clone)]
struct ActiveListener {
    listen: ListenerConfig,
    accept_limiter: Arc<AcceptLimiter>,
    address: Option<SocketAddr>,
}

/// The next set of listeners. New sockets are bound; dropping this instead of adopting it closes them.
#[derive(Debug)]
pub struct PreparedListeners {
    listener_set: ListenerSet,
    planned: Vec<PlannedListener>,
    /// The listeners that will be removed.
    removed: Vec<Arc<AcceptLimiter>>,
}

impl ActiveListener {
    /// Whether its socket can be used for this address, including a port that the kernel has chosen.
    fn is_at(&self, place: &ListenAddress) -> bool {
        let bound = self.address.map(ListenAddress::Network);
        self.listen.place.can_be_reused_for(place) || bound.is_some_and(|bound| bound.can_be_reused_for(place))
    }
}

impl ListenerSet {
    /// Binds all listeners.
    ///
    /// # Errors
    /// The address that cannot be bound, and the error.
    pub(crate) fn bind(
        listener_configs: &[ListenerConfig],
        limits: AcceptLimits,
    ) -> Result<(ListenerSet, Vec<Listener>), (ListenAddress, io::Error)> {
        let none = ListenerSet { active: Vec::new(), accept_rate: Arc::new(AcceptRate::new(limits)), limits };
        let PreparedListeners { listener_set, planned, .. } = none.next(listener_configs, limits)?;
        Ok((listener_set, PlannedListener::take_all(planned, Vec::new())))
    }

    /// Binds the new listeners.
    ///
    /// # Errors
    /// The address that cannot be bound, and the error. Nothing has changed.
    pub(crate) fn next(
        &self,
        listener_configs: &[ListenerConfig],
        limits: AcceptLimits,
    ) -> Result<PreparedListeners, (ListenAddress, io::Error)> {
        let accept_rate =
            if limits == self.limits { self.accept_rate.clone() } else { Arc::new(self.accept_rate.next(limits)) };
        let same = |listen: &ListenerConfig| self.active.iter().position(|active| active.listen.is_same(listen));
        let reused: Vec<Option<usize>> = listener_configs.iter().map(same).collect();
        let (mut active, mut planned) = (Vec::new(), Vec::new());
        for (listen, same) in listener_configs.iter().zip(&reused) {
            // Another listener at the same address takes over the socket, so that no client is rejected meanwhile.
            let is_reusable = |at: &usize| self.active[*at].is_at(&listen.place) && !reused.contains(&Some(*at));
            let (from, address) = match same.or_else(|| (0..self.active.len()).find(is_reusable)) {
                Some(at) => (SocketSource::Existing(at), self.active[at].address),
                None => {
                    let socket = Socket::bind(&listen.place).map_err(|error| (listen.place.clone(), error))?;
                    let address = socket.address().map_err(|error| (listen.place.clone(), error))?;
                    (SocketSource::New(socket), address)
                }
            };
            let accept_limiter = Arc::new(match same {
                Some(at) => self.active[*at].accept_limiter.with_config(listen, accept_rate.clone()),
                None => AcceptLimiter::new(listen, accept_rate.clone()),
            });
            active.push(ActiveListener { listen: listen.clone(), accept_limiter: accept_limiter.clone(), address });
            planned.push(PlannedListener::new(listen, accept_limiter, from));
        }
        self.change_modes(listener_configs)?;
        let is_removed = |at: &usize| !reused.contains(&Some(*at));
        let removed =
            (0..self.active.len()).filter(is_removed).map(|at| self.active[at].accept_limiter.clone()).collect();
        Ok(PreparedListeners { listener_set: ListenerSet { active, accept_rate, limits }, planned, removed })
    }

    /// Sets the file modes of Unix sockets that stay: all of them, or none.
    fn change_modes(&self, listener_configs: &[ListenerConfig]) -> Result<(), (ListenAddress, io::Error)> {
        let mut changed: Vec<(&Path, u32)> = Vec::new();
        for (before, after) in self
            .active
            .iter()
            .flat_map(|active| listener_configs.iter().map(|listen| (&active.listen.place, &listen.place)))
        {
            let (ListenAddress::Unix { path, mode }, ListenAddress::Unix { path: other, mode: new }) = (before, after)
            else {
                continue;
            };
            if path != other || mode == new {
                continue;
            }
            if let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(*new)) {
                for (path, mode) in changed {
                    let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode));
                }
                return Err((after.clone(), error));
            }
            changed.push((path, *mode));
        }
        Ok(())
    }

    /// Returns the state of the listeners.
    pub(crate) fn states(&self) -> Vec<ListenerState> {
        self.active.iter().map(|active| active.accept_limiter.state()).collect()
    }

    /// Returns the addresses; Unix sockets have none.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.active.iter().filter_map(|active| active.address).collect()
    }

    /// Returns the address of the listener with this name.
    pub(crate) fn address_of(&self, name: &str) -> Option<SocketAddr> {
        self.active.iter().find(|active| *active.listen.name == *name)?.address
    }
}

impl PreparedListeners {
    /// Returns the new set, the listeners to create, and the removed ones.
    pub(crate) fn into_parts(self) -> (ListenerSet, Vec<PlannedListener>, Vec<Arc<AcceptLimiter>>) {
        (self.listener_set, self.planned, self.removed)
    }
}
