//! One thread: its loop of turns and sleeping.

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

/// Events taken from the kernel at a time.
const EVENTS_MAX: usize = 256;

pub(crate) const WAKER_TOKEN: Token = Token(usize::MAX);
const TIMER_TOKEN: Token = Token(usize::MAX - 1);
const SHORT_TIMER_TOKEN: Token = Token(usize::MAX - 2);
const FIRST_LISTENER: usize = usize::MAX - 1024;

/// One thread's state.
pub(crate) struct Worker<M: Mode> {
    poll: Poll,
    shard: Shard<M>,
    io: ReactorIo,
    deadline_timer: DeadlineTimer,
    clock: Clock,
    now_ms: u64,
    /// Told when the thread has nothing to do for the first time.
    settled: Option<Sender<()>>,
}

/// What a thread is given to work with.
pub(crate) struct WorkerParts<S> {
    pub(crate) poll: Poll,
    pub(crate) shard: S,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) shard_channels: ShardChannels,
    pub(crate) waker: Arc<Waker>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) commands: Commands,
    pub(crate) clock: Clock,
    pub(crate) tls_handshakes: Arc<AtomicUsize>,
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    /// The thread of the cluster, where the broker is one of several.
    pub(crate) cluster: Option<Arc<dyn ClusterThread>>,
    /// Told when the thread has nothing to do for the first time.
    pub(crate) settled: Sender<()>,
}

impl WorkerParts<()> {
    /// The same, with a shard.
    pub(crate) fn with<S>(self, shard: S) -> WorkerParts<S> {
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
            settled,
            ..
        } = self;
        WorkerParts {
            poll,
            shard,
            listeners,
            shard_channels,
            waker,
            stop,
            commands,
            clock,
            tls_handshakes,
            authenticator,
            cluster,
            settled,
        }
    }
}

impl<M: Mode> Worker<M> {
    pub(crate) fn new(parts: WorkerParts<Shard<M>>) -> io::Result<Worker<M>> {
        let WorkerParts {
            poll,
            shard,
            listeners,
            shard_channels,
            waker,
            stop,
            commands,
            clock,
            tls_handshakes,
            authenticator,
            cluster,
            settled,
        } = parts;
        let deadline_timer = DeadlineTimer::new(poll.registry(), TIMER_TOKEN)?;
        let acceptor =
            Acceptor::new(listeners, poll.registry().try_clone()?, FIRST_LISTENER, SHORT_TIMER_TOKEN, authenticator)?;
        let connections = Connections::new(poll.registry().try_clone()?, tls_handshakes, clock);
        let io = ReactorIo::new(connections, acceptor, shard_channels, waker, stop, commands, cluster);
        Ok(Worker { poll, shard, io, deadline_timer, clock, now_ms: clock.now_ms(), settled: Some(settled) })
    }

    /// Runs until told to stop, and then until every connection is closed.
    ///
    /// # Errors
    /// Those of waiting for events, which leave nothing to go on with.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.io.stop.load(Ordering::Relaxed) {
            let rest = self.turn(&events);
            if rest != NextTurn::Busy
                && let Some(settled) = self.settled.take()
            {
                // Whoever started the broker may have given up waiting.
                let _ = settled.send(());
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

    /// Waits for events, for the bell or for what is due.
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

    /// Says goodbye to everybody and closes what is left.
    fn shut_down(mut self, mut events: Events) -> io::Result<()> {
        self.io.connections.stop();
        // What came with the word to stop does not come again.
        let _ = self.turn(&events);
        self.io.commands = None;
        self.io.acceptor.close();
        self.shard.shut_down(self.now_ms);
        events.clear();
        let mut rest = self.turn(&events);
        // Every socket is being drained now, which has an end.
        while !self.io.connections.is_empty() {
            self.wait(&mut events, rest)?;
            rest = self.turn(&events);
        }
        Ok(())
    }
}
