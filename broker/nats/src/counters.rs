//! What is counted of a node's way to the cluster.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident),+ $(,)?) => {
        /// What has happened since the node began this life. All only grow.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $doc] pub $name: Counter,)+
        }

        impl Counters {
            /// All of them: the name of each among the metrics of a broker, what it means, and its number.
            pub fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((concat!("cluster_", stringify!($name)), $doc.trim_ascii(), self.$name.get()),)+]
            }
        }
    };
}

counters! {
    /// Operations of the store that were answered as they were asked.
    operations_done,
    /// Writes that the store has refused, because something else was there or under way.
    operations_conflicting,
    /// Operations whose fate is unknown: no answer in time, or one that says nothing.
    operations_unknown,
    /// Operations that waited because there was no connection, or no room in it.
    operations_waiting,
    /// Messages that are too large for the servers and were refused.
    messages_too_large,
    /// Connections that were lost.
    disconnections,
    /// Connections that were made, the first one included.
    connections,
    /// Times that something came faster than it was taken, and the client of NATS dropped it.
    slow_consumers,
    /// Requests of shards that found the queue full, and came again.
    commands_refused,
    /// Messages that had to wait, because their partition had too much on the way.
    messages_held,
    /// Times that no commands were taken at all, because too many messages were held.
    commands_stalled,
    /// QoS 0 messages given to the bus.
    bus_sent,
    /// QoS 0 messages that were dropped on the way out: the queue was full, or there was no connection.
    bus_dropped_out,
    /// QoS 0 messages that came by the bus.
    bus_received,
    /// QoS 0 messages from the bus that the broker had no room for.
    bus_dropped_in,
    /// Messages between nodes that were not sent, because there was no connection. Whoever needs an answer asks again.
    peer_messages_dropped,
    /// Readings of a stream that began again, because something was missing or nothing was heard.
    readings_restarted,
}

/// One number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// What it is at.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}
