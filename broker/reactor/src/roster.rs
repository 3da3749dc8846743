//! What is listened on, and how that changes while the broker runs: all that is new is bound before anything changes.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::arrivals::{ArrivalLimits, Arrivals};
use crate::gate::{Gate, ListenerState};
use crate::listener::{Listen, Listener, Place, Placed, Socket, SocketFrom};

/// All listeners, in the order of those asked for.
#[derive(Debug)]
pub(crate) struct Roster {
    held: Vec<Held>,
    arrivals: Arc<Arrivals>,
    limits: ArrivalLimits,
}

#[derive(Debug, Clone)]
struct Held {
    listen: Listen,
    gate: Arc<Gate>,
    address: Option<SocketAddr>,
}

/// Listeners that are to be there next. What is new of them is bound; when this is dropped instead of being adopted, it is gone again.
#[derive(Debug)]
pub struct NextListeners {
    roster: Roster,
    placed: Vec<Placed>,
    /// Those that will not be there any more.
    gone: Vec<Arc<Gate>>,
}

impl Held {
    /// Whether its socket can be the one that is asked for here: also where the kernel has chosen its port.
    fn is_at(&self, place: &Place) -> bool {
        let bound = self.address.map(Place::Network);
        self.listen.place.is_taken_over_by(place) || bound.is_some_and(|bound| bound.is_taken_over_by(place))
    }
}

impl Roster {
    /// Listens at all of these.
    ///
    /// # Errors
    /// Where that cannot be done, and why.
    pub(crate) fn bind(
        listens: &[Listen],
        limits: ArrivalLimits,
    ) -> Result<(Roster, Vec<Listener>), (Place, io::Error)> {
        let none = Roster { held: Vec::new(), arrivals: Arc::new(Arrivals::new(limits)), limits };
        let NextListeners { roster, placed, .. } = none.next(listens, limits)?;
        Ok((roster, Placed::take_all(placed, Vec::new())))
    }

    /// Binds what is new.
    ///
    /// # Errors
    /// Where that cannot be done, and why. Nothing has changed then.
    pub(crate) fn next(&self, listens: &[Listen], limits: ArrivalLimits) -> Result<NextListeners, (Place, io::Error)> {
        let arrivals = if limits == self.limits { self.arrivals.clone() } else { Arc::new(self.arrivals.next(limits)) };
        let same = |listen: &Listen| self.held.iter().position(|held| held.listen.is_same(listen));
        let stays: Vec<Option<usize>> = listens.iter().map(same).collect();
        let (mut held, mut placed) = (Vec::new(), Vec::new());
        for (listen, same) in listens.iter().zip(&stays) {
            // Another listener at the same place takes the socket over: nobody who connects meanwhile is refused.
            let there = |at: &usize| self.held[*at].is_at(&listen.place) && !stays.contains(&Some(*at));
            let (from, address) = match same.or_else(|| (0..self.held.len()).find(there)) {
                Some(at) => (SocketFrom::Held(at), self.held[at].address),
                None => {
                    let socket = Socket::bind(&listen.place).map_err(|error| (listen.place.clone(), error))?;
                    let address = socket.address().map_err(|error| (listen.place.clone(), error))?;
                    (SocketFrom::New(socket), address)
                }
            };
            let gate = Arc::new(match same {
                Some(at) => self.held[*at].gate.again(listen, arrivals.clone()),
                None => Gate::new(listen, arrivals.clone()),
            });
            held.push(Held { listen: listen.clone(), gate: gate.clone(), address });
            placed.push(Placed::new(listen, gate, from));
        }
        self.change_modes(listens)?;
        let leaves = |at: &usize| !stays.contains(&Some(*at));
        let gone = (0..self.held.len()).filter(leaves).map(|at| self.held[at].gate.clone()).collect();
        Ok(NextListeners { roster: Roster { held, arrivals, limits }, placed, gone })
    }

    /// Gives the files of Unix sockets that stay the modes that they are to have: all of them, or none.
    fn change_modes(&self, listens: &[Listen]) -> Result<(), (Place, io::Error)> {
        let mut changed: Vec<(&Path, u32)> = Vec::new();
        for (before, after) in
            self.held.iter().flat_map(|held| listens.iter().map(|listen| (&held.listen.place, &listen.place)))
        {
            let (Place::Unix { path, mode }, Place::Unix { path: other, mode: new }) = (before, after) else {
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

    /// How the listeners are.
    pub(crate) fn states(&self) -> Vec<ListenerState> {
        self.held.iter().map(|held| held.gate.state()).collect()
    }

    /// The addresses; Unix sockets have none.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.held.iter().filter_map(|held| held.address).collect()
    }

    /// The address of each that is called so.
    pub(crate) fn address_of(&self, name: &str) -> Option<SocketAddr> {
        self.held.iter().find(|held| *held.listen.name == *name)?.address
    }
}

impl NextListeners {
    /// What is to be known of them, what is to accept, and who is not to be there any more.
    pub(crate) fn into_parts(self) -> (Roster, Vec<Placed>, Vec<Arc<Gate>>) {
        (self.roster, self.placed, self.gone)
    }
}
