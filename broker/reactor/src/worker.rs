//! A thread of the broker: its loop of turns and sleeps.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use mio::{Events, Poll, Token};
use tautwire_engine::Mode;
use tautwire_engine::{NextTurn, Shard, turn};

use crate::acceptor::Acceptor;
use crate::authenticator::Authenticator;
use crate::clock::Clock;
use crate::cluster::ClusterThread;
use crate::connections::{Connections, id_of};
use crate::deadline_timer::DeadlineTimer;
use crate::inbox::Commands;
use crate::listener::Listener;
use crate::reactor_io::ReactorIo;
use crate::shard_channels::ShardChannels;
use crate::waker::Waker;

/// The number of events taken from the kernel at a time.
const EVENTS_MAX: usize = 256;

pub(crate) const WAKER_TOKEN: Token = Token(usize::MAX);
const TIMER_TOKEN: Token = Token(usize::MAX - 1);
const SHORT_TIMER_TOKEN: Token = Token(usize::MAX - 2);
const FIRST_LISTENER: usize = usize::MAX - 1024;

/// The state of one thread.
pub(crate) struct Worker<M: Mode> {
    poll: Poll,
    shard: Shard<M>,
    io: ReactorIo,
    deadline_timer: DeadlineTimer,
    clock: Clock,
    now_ms: u64,
    /// Notified when the thread is idle for the first time.
    idle_signal: Option<Sender<()>>,
}

/// The parts of a worker besides its shard.
pub(crate) struct WorkerParts {
    pub(crate) poll: Poll,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) shard_channels: ShardChannels,
    pub(crate) waker: Arc<Waker>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) commands: Commands,
    pub(crate) clock: Clock,
    pub(crate) tls_handshakes: Arc<AtomicUsize>,
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    /// The cluster thread, if the broker is part of a cluster.
    pub(crate) cluster: Option<Arc<dyn ClusterThread>>,
    /// Notified when the thread is idle for the first time.
    pub(crate) idle_signal: Sender<()>,
}

impl<M: Mode> Worker<M> {
    pub(crate) fn new(parts: WorkerParts, shard: Shard<M>) -> io::Result<Worker<M>> {
        let WorkerParts {
            poll,
            listeners,
            shard_channels,
            waker,
            stop,
            commands,
            clock,
            tls_handshakes,
            authenticator,
            cluster,
            idle_signal,
        } = parts;
        let deadline_timer = DeadlineTimer::new(poll.registry(), TIMER_TOKEN)?;
        let acceptor =
            Acceptor::new(listeners, poll.registry().try_clone()?, FIRST_LISTENER, SHORT_TIMER_TOKEN, authenticator)?;
        let connections = Connections::new(poll.registry().try_clone()?, tls_handshakes, clock);
        let io = ReactorIo::new(connections, acceptor, shard_channels, waker, stop, commands, cluster);
        Ok(Worker { poll, shard, io, deadline_timer, clock, now_ms: clock.now_ms(), idle_signal: Some(idle_signal) })
    }

    /// Runs until told to stop, and then until every connection is closed.
    ///
    /// # Errors
    /// Errors of waiting for events, which are fatal.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.io.stop.load(Ordering::Relaxed) {
            let rest = self.turn(&events);
            if rest != NextTurn::Busy
                && let Some(idle_signal) = self.idle_signal.take()
            {
                // The caller that started the broker may have stopped waiting.
                let _ = idle_signal.send(());
            }
            self.wait(&mut events, rest)?;
        }
        self.shut_down(events)
    }

    fn turn(&mut self, events: &Events) -> NextTurn {
        let now = self.clock.now();
        self.now_ms = now.ms;
        for event in events {
            match event.token() {
                WAKER_TOKEN | TIMER_TOKEN => {}
                SHORT_TIMER_TOKEN => self.io.acceptor.on_timer(self.now_ms),
                Token(listener) if listener >= FIRST_LISTENER => {
                    self.io.acceptor.set_ready(listener - FIRST_LISTENER, self.now_ms);
                }
                token => self.io.connections.record_event(id_of(token), event),
            }
        }
        self.io.begin_turn(now);
        turn(&mut self.shard, &mut self.io, self.now_ms)
    }

    /// Waits for events, for the waker, or for a deadline.
    fn wait(&mut self, events: &mut Events, rest: NextTurn) -> io::Result<()> {
        let timeout = match rest {
            NextTurn::Busy => Some(Duration::ZERO),
            NextTurn::Until(at_ms) => self.deadline_timer.set(at_ms, self.now_ms)?,
        };
        let result = self.poll.poll(events, timeout);
        self.io.waker.after_sleep();
        match result {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Disconnects all clients and closes their connections.
    fn shut_down(mut self, mut events: Events) -> io::Result<()> {
        self.io.connections.stop();
        // Events that arrived with the stop flag are not reported again.
        let _ = self.turn(&events);
        self.io.commands = None;
        self.io.acceptor.close();
        self.shard.shut_down(self.now_ms);
        events.clear();
        let mut rest = self.turn(&events);
        // All sockets are draining now, which ends.
        while !self.io.connections.is_empty() {
            self.wait(&mut events, rest)?;
            rest = self.turn(&events);
        }
        Ok(())
    }
}
