use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::failure::Result;

const EVENTS_PER_TURN: usize = 1024;

/// Level-triggered epoll. A token is the caller's index of the connection.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// A connection that is readable or, if requested, writable. A closed or broken connection
/// is readable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    pub token: usize,
    pub readable: bool,
}

impl Poller {
    pub(crate) fn new() -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_PER_TURN) })
    }

    pub(crate) fn add(&self, socket: &impl AsFd, token: usize) -> Result<()> {
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token as u64), epoll::EventFlags::IN)?)
    }

    pub(crate) fn set_writable_interest(&self, stream: &TcpStream, token: usize, wanted: bool) -> Result<()> {
        let flags = if wanted { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        Ok(epoll::modify(&self.epoll, stream, epoll::EventData::new_u64(token as u64), flags)?)
    }

    /// Waits for readiness; an empty turn means that `timeout` has passed. `None` waits forever.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.events.clear();
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn ready_count(&self) -> usize {
        self.events.len()
    }

    /// The `index`th readiness of the last turn.
    pub(crate) fn ready(&self, index: usize) -> Ready {
        let event = self.events[index];
        let flags = event.flags;
        Ready {
            token: event.data.u64() as usize,
            readable: flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR),
        }
    }
}
