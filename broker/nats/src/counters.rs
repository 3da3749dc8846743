//! The counters of a node's connection to the cluster.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident),+ $(,)?) => {
        /// The counters of this run of the node. They only increase.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $doc] pub $name: Counter,)+
        }

        impl Counters {
            /// Returns all counters, each with its metric name, its description, and its value.
            pub fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((concat!("cluster_", stringify!($name)), $doc.trim_ascii(), self.$name.get()),)+]
            }
        }
    };
}

counters! {
    /// Operations of the store that succeeded.
    operations,
    /// Writes that the store rejected because of a concurrent or earlier write.
    operation_conflicts,
    /// Operations with an unknown outcome: no answer in time, or an unusable one.
    operation_timeouts,
    /// Operations that waited because there was no connection, or its buffer was full.
    operations_delayed,
    /// Messages that were rejected because they are too large for the servers.
    messages_too_large,
    /// Lost connections.
    disconnections,
    /// Connections made, including the first one.
    connections,
    /// Times the NATS client dropped messages because they were received faster than processed.
    slow_consumers,
    /// Requests of shards that were rejected because the queue was full, and repeated later.
    commands_refused,
    /// Messages that were deferred because too many messages of their partition were in flight.
    messages_delayed,
    /// Times no commands were accepted because too many messages were deferred.
    command_stalls,
    /// QoS 0 messages sent to the bus.
    bus_sent,
    /// QoS 0 messages dropped before sending: the queue was full, or there was no connection.
    bus_outbound_dropped,
    /// QoS 0 messages received from the bus.
    bus_received,
    /// QoS 0 messages from the bus that were dropped because the broker's queue was full.
    bus_inbound_dropped,
    /// Messages between nodes that were not sent because there was no connection. A node that needs an answer repeats its request.
    peer_messages_dropped,
    /// Stream readers that were restarted because of a gap or silence.
    consumers_restarted,
}

/// A counter that only increases.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Returns the value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}
