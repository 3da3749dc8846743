//! The bounded, non-blocking queue from the shards to the node's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::clock::now_ms;
use crate::command::{Command, state_max_bytes};
use crate::counters::Counters;
use crate::settings::Limits;

/// What a group needs in a server's message besides one message: its own fields, those of its messages, and headers.
const GROUP_OVERHEAD_BYTES: usize = 16 * 1024;
/// The smallest payload limit of all servers, used until the actual one is known.
const PAYLOAD_MAX_BYTES: usize = 1024 * 1024;

/// A shard's handle to its node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    commands: Sender<Command>,
    bus: Sender<BusMessage>,
    shared: Arc<Shared>,
}

/// The state that both ends of the queues share.
#[derive(Debug)]
pub(crate) struct Shared {
    limits: Limits,
    pub(crate) counters: Arc<Counters>,
    /// The end of the lease, as a time of [`now_ms`]; 0 once the node has stopped.
    serves_until_ms: AtomicU64,
    payload_max_bytes: AtomicUsize,
    commands_bytes: AtomicUsize,
    bus_bytes: AtomicUsize,
    /// A sender waits for space.
    has_waiters: AtomicBool,
    /// Requests the node to stop.
    pub(crate) stop: Notify,
}

/// A QoS 0 message to be sent.
#[derive(Debug)]
pub(crate) struct BusMessage {
    pub(crate) subject: String,
    pub(crate) message: Vec<u8>,
}

/// A rejected command, with the reason.
#[derive(Debug)]
pub enum Refused {
    /// The queue is full. [`Broker::queue_ready`](crate::Broker::queue_ready) is called when there is space.
    Full(Command),
    /// The command exceeds the message size limit of the servers, and will never be accepted.
    TooLarge(Command),
    /// The node has stopped.
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
            has_waiters: AtomicBool::new(false),
            stop: Notify::new(),
        });
        (Handle { commands, bus, shared }, taken_commands, taken_bus)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether clients may be read from and written to now. Call it at the beginning of each turn.
    pub fn is_serving(&self) -> bool {
        now_ms() < self.shared.serves_until_ms.load(Ordering::Acquire)
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Returns the size of the largest message that the servers accept.
    pub fn message_max_bytes(&self) -> usize {
        self.shared.message_max_bytes()
    }

    /// Returns the size of the largest session state that the servers accept besides a will.
    pub fn state_max_bytes(&self) -> usize {
        state_max_bytes(self.message_max_bytes())
    }

    /// Sends a command to the node.
    ///
    /// # Errors
    /// The command was rejected.
    pub fn give(&self, command: Command) -> Result<(), Refused> {
        if !command.fits(self.message_max_bytes()) {
            self.shared.counters.messages_too_large.add(1);
            return Err(Refused::TooLarge(command));
        }
        let bytes = command.bytes();
        let before = self.shared.commands_bytes.fetch_add(bytes, Ordering::AcqRel);
        // A command fits into an empty queue whatever its size.
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
                self.shared.has_waiters.store(true, Ordering::SeqCst);
                Err(Refused::Full(command))
            }
        }
    }

    /// Sends a QoS 0 message to the bus. Returns false if it is dropped, which is counted: QoS 0 does not wait for space.
    pub fn send(&self, subject: &str, message: Vec<u8>) -> bool {
        let bytes = subject.len() + message.len();
        let before = self.shared.bus_bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = before + bytes <= self.shared.limits.bus_max_bytes && bytes <= self.message_max_bytes();
        let subject = crate::layout::bus_subject(subject);
        if fits && self.bus.try_send(BusMessage { subject, message }).is_ok() {
            return true;
        }
        self.shared.bus_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.shared.counters.bus_outbound_dropped.add(1);
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

    /// Whether a sender was rejected since the last call.
    pub(crate) fn take_waiters(&self) -> bool {
        self.has_waiters.load(Ordering::SeqCst) && self.has_waiters.swap(false, Ordering::SeqCst)
    }

    /// Updates the end of the lease. Returns true if it is valid now and was invalid at some time since the last call: a shard may have
    /// seen that, and waits for a notification.
    pub(crate) fn serve_until(&self, until_ms: u64) -> bool {
        let former_ms = self.serves_until_ms.swap(until_ms, Ordering::AcqRel);
        // The clock is read after the swap: a shard reads it before it reads the lease, so a lapse that a shard has seen is seen here too.
        has_lapsed(former_ms, until_ms, now_ms())
    }

    pub(crate) fn take_at_once(&self, payload_max_bytes: usize) {
        self.payload_max_bytes.store(payload_max_bytes, Ordering::Relaxed);
    }

    pub(crate) fn message_max_bytes(&self) -> usize {
        self.payload_max_bytes.load(Ordering::Relaxed).saturating_sub(GROUP_OVERHEAD_BYTES)
    }
}

/// Whether the former lease expired before this one was set. A former lease of 0 was withdrawn, which is reported separately.
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
    fn a_full_queue_returns_the_command_and_reports_free_space() {
        let limits = Limits { commands_max: 2, commands_max_bytes: 100, ..Limits::default() };
        let (handle, mut commands, _bus) = Handle::new(&limits);
        assert!(handle.give(left(60)).is_ok());
        assert!(matches!(handle.give(left(60)), Err(Refused::Full(Command::Left { state, .. })) if state.len() == 60));
        assert!(handle.give(left(40)).is_ok() && matches!(handle.give(left(0)), Err(Refused::Full(_))));
        assert!(handle.shared().take_waiters() && !handle.shared().take_waiters());
        assert_eq!(handle.counters().commands_refused.get(), 2);
        handle.shared().release_command(&commands.try_recv().expect("a command"));
        assert!(handle.give(left(60)).is_ok());
        assert!(matches!(handle.give(left(PAYLOAD_MAX_BYTES)), Err(Refused::TooLarge(_))));
        drop(commands);
        assert!(matches!(handle.give(left(0)), Err(Refused::Over(_))));
    }

    #[test]
    fn a_lagging_bus_drops_and_counts_messages() {
        let limits = Limits { bus_max: 2, bus_max_bytes: 100, ..Limits::default() };
        let (handle, _commands, mut bus) = Handle::new(&limits);
        assert!(handle.send("a", vec![0; 60]) && !handle.send("a", vec![0; 60]));
        assert!(handle.send("a", Vec::new()) && !handle.send("a", Vec::new()));
        assert_eq!(handle.counters().bus_outbound_dropped.get(), 2);
        let message = bus.try_recv().expect("a message");
        assert_eq!(message.subject, "tw.z.a");
        handle.shared().release_bus_message(&message);
        assert!(handle.send("a", vec![0; 60]));
    }

    #[test]
    fn an_incarnation_serves_until_its_lease_expires() {
        let (handle, _commands, _bus) = Handle::new(&Limits::default());
        assert!(!handle.is_serving());
        handle.shared().serve_until(now_ms() + 60_000);
        assert!(handle.is_serving());
        handle.shared().serve_until(0);
        assert!(!handle.is_serving());
    }

    #[test]
    fn a_lease_that_expired_before_its_renewal_is_detected() {
        let (handle, _commands, _bus) = Handle::new(&Limits::default());
        assert!(!handle.shared().serve_until(1), "the new lease has expired too");
        assert!(handle.shared().serve_until(now_ms() + 60_000));
        assert!(!handle.shared().serve_until(now_ms() + 90_000), "renewed in time");
        assert!(!handle.shared().serve_until(0) && !handle.shared().serve_until(now_ms() + 60_000), "withdrawn");
        assert!(has_lapsed(10, 20, 10) && !has_lapsed(10, 20, 9) && !has_lapsed(10, 20, 20));
    }
}
