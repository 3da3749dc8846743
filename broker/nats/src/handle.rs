//! The way from the shards to the node's thread: bounded, and never waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::clock::now_ms;
use crate::command::{Command, state_max_bytes};
use crate::counters::Counters;
use crate::settings::Limits;

/// Beside a message, a group has its own fields, those of its messages and headers in what the servers take at once.
const GROUP_OVERHEAD_BYTES: usize = 16 * 1024;
/// What all servers take, until it is known what these take.
const PAYLOAD_MAX_BYTES: usize = 1024 * 1024;

/// A shard's way to its node. Copies are cheap.
#[derive(Debug, Clone)]
pub struct Handle {
    commands: Sender<Command>,
    bus: Sender<BusMessage>,
    shared: Arc<Shared>,
}

/// What both ends of the queues look at.
#[derive(Debug)]
pub(crate) struct Shared {
    limits: Limits,
    pub(crate) counters: Arc<Counters>,
    /// Until when clients may be served, by [`now_ms`]; 0 once the life is over.
    serves_until_ms: AtomicU64,
    payload_max_bytes: AtomicUsize,
    commands_bytes: AtomicUsize,
    bus_bytes: AtomicUsize,
    /// Somebody waits for room.
    is_wanted: AtomicBool,
    /// The life is to end.
    pub(crate) stop: Notify,
}

/// A QoS 0 message on its way out.
#[derive(Debug)]
pub(crate) struct BusMessage {
    pub(crate) subject: String,
    pub(crate) message: Vec<u8>,
}

/// A command was not taken, and here it is again.
#[derive(Debug)]
pub enum Refused {
    /// There is no room now. [`Broker::queue_ready`](crate::Broker::room) is called when there is.
    Full(Command),
    /// The servers do not take so much in one piece, and never will.
    TooLarge(Command),
    /// The life is over.
    Over(Command),
}

impl Handle {
    pub(crate) fn new(limits: &Limits) -> (Handle, Receiver<Command>, Receiver<BusMessage>) {
        let (commands, taken_commands) = channel(limits.commands_max);
        let (bus, taken_bus) = channel(limits.bus_max);
        let shared = Arc::new(Shared {
            limits: limits.clone(),
            counters: Arc::default(),
            serves_until_ms: AtomicU64::new(0),
            payload_max_bytes: AtomicUsize::new(PAYLOAD_MAX_BYTES),
            commands_bytes: AtomicUsize::new(0),
            bus_bytes: AtomicUsize::new(0),
            is_wanted: AtomicBool::new(false),
            stop: Notify::new(),
        });
        (Handle { commands, bus, shared }, taken_commands, taken_bus)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether clients may be read from and written to at this moment. To be asked at the beginning of each turn.
    pub fn is_serving(&self) -> bool {
        now_ms() < self.shared.serves_until_ms.load(Ordering::Acquire)
    }

    /// What is counted.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The largest message that the servers take.
    pub fn message_max_bytes(&self) -> usize {
        self.shared.message_max_bytes()
    }

    /// The largest state of a session that they take, beside a will.
    pub fn state_max_bytes(&self) -> usize {
        state_max_bytes(self.message_max_bytes())
    }

    /// Gives the node something to do.
    ///
    /// # Errors
    /// It was not taken.
    pub fn give(&self, command: Command) -> Result<(), Refused> {
        if !command.fits(self.message_max_bytes()) {
            self.shared.counters.messages_too_large.add(1);
            return Err(Refused::TooLarge(command));
        }
        let bytes = command.bytes();
        let before = self.shared.commands_bytes.fetch_add(bytes, Ordering::AcqRel);
        // A command that has the queue for itself fits, whatever its size.
        let fits = before == 0 || before + bytes <= self.shared.limits.commands_max_bytes;
        let refused = match if fits { self.commands.try_send(command) } else { Err(TrySendError::Full(command)) } {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        self.shared.commands_bytes.fetch_sub(bytes, Ordering::AcqRel);
        match refused {
            TrySendError::Closed(command) => Err(Refused::Over(command)),
            TrySendError::Full(command) => {
                self.shared.counters.commands_refused.add(1);
                self.shared.is_wanted.store(true, Ordering::SeqCst);
                Err(Refused::Full(command))
            }
        }
    }

    /// Gives a QoS 0 message to the bus. False if it is dropped, which is counted: nobody waits for room.
    pub fn send(&self, subject: &str, message: Vec<u8>) -> bool {
        let bytes = subject.len() + message.len();
        let before = self.shared.bus_bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = before + bytes <= self.shared.limits.bus_max_bytes && bytes <= self.message_max_bytes();
        let subject = crate::layout::bus_subject(subject);
        if fits && self.bus.try_send(BusMessage { subject, message }).is_ok() {
            return true;
        }
        self.shared.bus_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.shared.counters.bus_dropped_out.add(1);
        false
    }
}

impl Shared {
    pub(crate) fn release_command(&self, command: &Command) {
        self.commands_bytes.fetch_sub(command.bytes(), Ordering::AcqRel);
    }

    pub(crate) fn release_bus_message(&self, message: &BusMessage) {
        let bytes = message.subject.len() - crate::layout::BUS_PREFIX.len() + message.message.len();
        self.bus_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Whether somebody was refused since this was last asked.
    pub(crate) fn take_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::SeqCst) && self.is_wanted.swap(false, Ordering::SeqCst)
    }

    /// Says until when the lease holds. True where it holds now and did not at some moment since the last time: a shard may have found
    /// that, and waits to be told that it holds again.
    pub(crate) fn serve_until(&self, until_ms: u64) -> bool {
        let former_ms = self.serves_until_ms.swap(until_ms, Ordering::AcqRel);
        // The clock is read behind the swap: a shard reads it before it looks, so what it found is found here, too.
        has_lapsed(former_ms, until_ms, now_ms())
    }

    pub(crate) fn take_at_once(&self, payload_max_bytes: usize) {
        self.payload_max_bytes.store(payload_max_bytes, Ordering::Relaxed);
    }

    pub(crate) fn message_max_bytes(&self) -> usize {
        self.payload_max_bytes.load(Ordering::Relaxed).saturating_sub(GROUP_OVERHEAD_BYTES)
    }
}

/// Whether the former lease had run out before this one was there. One of 0 was taken away, and whoever gives it back says so.
fn has_lapsed(former_ms: u64, until_ms: u64, now_ms: u64) -> bool {
    former_ms != 0 && former_ms <= now_ms && now_ms < until_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_cluster::names::ClientKey;

    fn left(bytes: usize) -> Command {
        Command::Left { client: ClientKey(1), state: vec![0; bytes] }
    }

    #[test]
    fn a_full_queue_gives_the_command_back_and_says_when_there_is_room() {
        let limits = Limits { commands_max: 2, commands_max_bytes: 100, ..Limits::default() };
        let (handle, mut commands, _bus) = Handle::new(&limits);
        assert!(handle.give(left(60)).is_ok());
        assert!(matches!(handle.give(left(60)), Err(Refused::Full(Command::Left { state, .. })) if state.len() == 60));
        assert!(handle.give(left(40)).is_ok() && matches!(handle.give(left(0)), Err(Refused::Full(_))));
        assert!(handle.shared().take_wanted() && !handle.shared().take_wanted());
        assert_eq!(handle.counters().commands_refused.get(), 2);
        handle.shared().release_command(&commands.try_recv().expect("a command"));
        assert!(handle.give(left(60)).is_ok());
        assert!(matches!(handle.give(left(PAYLOAD_MAX_BYTES)), Err(Refused::TooLarge(_))));
        drop(commands);
        assert!(matches!(handle.give(left(0)), Err(Refused::Over(_))));
    }

    #[test]
    fn a_bus_that_is_behind_drops_and_counts() {
        let limits = Limits { bus_max: 2, bus_max_bytes: 100, ..Limits::default() };
        let (handle, _commands, mut bus) = Handle::new(&limits);
        assert!(handle.send("a", vec![0; 60]) && !handle.send("a", vec![0; 60]));
        assert!(handle.send("a", Vec::new()) && !handle.send("a", Vec::new()));
        assert_eq!(handle.counters().bus_dropped_out.get(), 2);
        let message = bus.try_recv().expect("a message");
        assert_eq!(message.subject, "tw.z.a");
        handle.shared().release_bus_message(&message);
        assert!(handle.send("a", vec![0; 60]));
    }

    #[test]
    fn a_life_serves_until_its_lease_runs_out() {
        let (handle, _commands, _bus) = Handle::new(&Limits::default());
        assert!(!handle.is_serving());
        handle.shared().serve_until(now_ms() + 60_000);
        assert!(handle.is_serving());
        handle.shared().serve_until(0);
        assert!(!handle.is_serving());
    }

    #[test]
    fn a_lease_that_ran_out_before_it_was_renewed_is_noticed() {
        let (handle, _commands, _bus) = Handle::new(&Limits::default());
        assert!(!handle.shared().serve_until(1), "it is over as well");
        assert!(handle.shared().serve_until(now_ms() + 60_000));
        assert!(!handle.shared().serve_until(now_ms() + 90_000), "it was renewed in time");
        assert!(
            !handle.shared().serve_until(0) && !handle.shared().serve_until(now_ms() + 60_000),
            "it was taken away"
        );
        assert!(has_lapsed(10, 20, 10) && !has_lapsed(10, 20, 9) && !has_lapsed(10, 20, 20));
    }
}
