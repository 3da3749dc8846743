//! One thread: its loop of turns and sleeping.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use mio::{Events, Poll, Token};
use tautwire_engine::{NextTurn, Shard, turn};
use tautwire_session::Journal;

use crate::alarm::Alarm;
use crate::bell::Bell;
use crate::clock::Clock;
use crate::cluster::ClusterThread;
use crate::connections::{Connections, id_of};
use crate::door::Door;
use crate::doorkeeper::Doorkeeper;
use crate::host::Host;
use crate::inbox::Orders;
use crate::listener::Listener;
use crate::ways::Ways;

/// Events taken from the kernel at a time.
const EVENTS_MAX: usize = 256;

pub(crate) const BELL: Token = Token(usize::MAX);
const ALARM: Token = Token(usize::MAX - 1);
const TICK: Token = Token(usize::MAX - 2);
const FIRST_LISTENER: usize = usize::MAX - 1024;

/// One thread's state.
pub(crate) struct Worker<J: Journal> {
    poll: Poll,
    shard: Shard<J>,
    host: Host,
    alarm: Alarm,
    clock: Clock,
    now_ms: u64,
    /// Told when the thread has nothing to do for the first time.
    settled: Option<Sender<()>>,
}

/// What a thread is given to work with.
pub(crate) struct Equipment<S> {
    pub(crate) poll: Poll,
    pub(crate) shard: S,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) ways: Ways,
    pub(crate) bell: Arc<Bell>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) orders: Orders,
    pub(crate) clock: Clock,
    pub(crate) tls_handshakes: Arc<AtomicUsize>,
    pub(crate) doorkeeper: Option<Arc<dyn Doorkeeper>>,
    /// The thread of the cluster, where the broker is one of several.
    pub(crate) cluster: Option<Arc<dyn ClusterThread>>,
    /// Told when the thread has nothing to do for the first time.
    pub(crate) settled: Sender<()>,
}

impl Equipment<()> {
    /// The same, with a shard.
    pub(crate) fn with<S>(self, shard: S) -> Equipment<S> {
        let Equipment {
            poll,
            listeners,
            ways,
            bell,
            stop,
            orders,
            clock,
            tls_handshakes,
            doorkeeper,
            cluster,
            settled,
            ..
        } = self;
        Equipment {
            poll,
            shard,
            listeners,
            ways,
            bell,
            stop,
            orders,
            clock,
            tls_handshakes,
            doorkeeper,
            cluster,
            settled,
        }
    }
}

impl<J: Journal> Worker<J> {
    pub(crate) fn new(equipment: Equipment<Shard<J>>) -> io::Result<Worker<J>> {
        let Equipment {
            poll,
            shard,
            listeners,
            ways,
            bell,
            stop,
            orders,
            clock,
            tls_handshakes,
            doorkeeper,
            cluster,
            settled,
        } = equipment;
        let alarm = Alarm::new(poll.registry(), ALARM)?;
        let door = Door::new(listeners, poll.registry().try_clone()?, FIRST_LISTENER, TICK, doorkeeper)?;
        let connections = Connections::new(poll.registry().try_clone()?, tls_handshakes, clock);
        let host = Host::new(connections, door, ways, bell, stop, orders, cluster);
        Ok(Worker { poll, shard, host, alarm, clock, now_ms: clock.now_ms(), settled: Some(settled) })
    }

    /// Runs until told to stop, and then until every connection is closed.
    ///
    /// # Errors
    /// Those of waiting for events, which leave nothing to go on with.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.host.stop.load(Ordering::Relaxed) {
            let rest = self.turn(&events);
            if rest != NextTurn::Busy
                && let Some(settled) = self.settled.take()
            {
                // Whoever started the broker may have given up waiting.
                let _ = settled.send(());
            }
            self.wait(&mut events, rest)?;
        }
        self.wind_down(events)
    }

    fn turn(&mut self, events: &Events) -> NextTurn {
        let now = self.clock.now();
        self.now_ms = now.ms;
        for event in events {
            match event.token() {
                BELL | ALARM => {}
                TICK => self.host.door.tick(self.now_ms),
                Token(listener) if listener >= FIRST_LISTENER => {
                    self.host.door.knock(listener - FIRST_LISTENER, self.now_ms);
                }
                token => self.host.connections.note(id_of(token), event),
            }
        }
        self.host.begin_turn(now);
        turn(&mut self.shard, &mut self.host, self.now_ms)
    }

    /// Waits for events, for the bell or for what is due.
    fn wait(&mut self, events: &mut Events, rest: NextTurn) -> io::Result<()> {
        let timeout = match rest {
            NextTurn::Busy => Some(Duration::ZERO),
            NextTurn::Until(at_ms) => self.alarm.set(at_ms, self.now_ms)?,
        };
        let result = self.poll.poll(events, timeout);
        self.host.bell.after_sleep();
        match result {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Says goodbye to everybody and closes what is left.
    fn wind_down(mut self, mut events: Events) -> io::Result<()> {
        self.host.connections.stop();
        // What came with the word to stop does not come again.
        let _ = self.turn(&events);
        self.host.orders = None;
        self.host.door.close();
        self.shard.shut_down(self.now_ms);
        events.clear();
        let mut rest = self.turn(&events);
        // Every socket is being drained now, which has an end.
        while !self.host.connections.is_empty() {
            self.wait(&mut events, rest)?;
            rest = self.turn(&events);
        }
        Ok(())
    }
}
