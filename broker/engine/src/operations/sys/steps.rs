//! Steps of [`super`] that need several states of a shard.

use std::fmt::Write as _;

use tautwire_memory::Kind;
use tautwire_message::MessageRef;
use tautwire_protocol::QoS;

use super::{CounterTopic, RATES, SUMMED, WINDOWS};
use crate::mode::Mode;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::MessageSource;
use crate::shard::Shard;

const VERSION: &str = concat!("tautwire ", env!("CARGO_PKG_VERSION"));

impl<M: Mode> Shard<M> {
    /// Publishes the `$SYS` topics if they are due.
    pub(crate) fn publish_sys(&mut self) {
        let now_ms = self.state.clock.now_ms();
        if self.state.operations.sys.next_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        self.state.operations.sys.next_ms = Some(now_ms + self.state.operations.sys.interval_ms);
        let totals = self.state.context.totals();
        self.state.operations.sys.average(&totals, now_ms);
        let (retained, retained_bytes) = self.state.context.exchange().retained();
        let uptime_s = (now_ms - self.state.operations.sys.started_ms) / 1000;
        let disconnected = totals.sessions.saturating_sub(totals.sessions_connected);

        self.publish_sys_topic("version", format_args!("{VERSION}"));
        self.publish_sys_topic("uptime", format_args!("{uptime_s} seconds"));
        let values = [
            ("clients/total", totals.sessions),
            ("clients/active", totals.sessions_connected),
            ("clients/disconnected", disconnected),
            ("clients/inactive", disconnected),
            ("clients/expired", totals.sessions_expired),
            ("clients/maximum", self.state.operations.sys.maximum_connected),
            ("messages/stored", totals.stored_messages + retained as u64),
            ("store/messages/count", totals.stored_messages + retained as u64),
            ("store/messages/bytes", totals.stored_bytes + retained_bytes as u64),
            ("retained messages/count", retained as u64),
            ("subscriptions/count", totals.subscriptions),
            ("shared_subscriptions/count", self.state.context.exchange().shares() as u64),
        ];
        let summed = SUMMED.iter().map(|CounterTopic { name, counter }| (*name, counter(&totals)));
        for (name, value) in summed.chain(values) {
            self.publish_sys_topic(name, format_args!("{value}"));
        }
        let mut topic = String::new();
        for (row, CounterTopic { name, .. }) in RATES.iter().enumerate() {
            for (column, (window, _)) in WINDOWS.iter().enumerate() {
                topic.clear();
                // Writing to a string does not fail.
                let _ = write!(topic, "load/{name}/{window}");
                let average = self.state.operations.sys.loads[row][column];
                self.publish_sys_topic(&topic, format_args!("{average:.2}"));
            }
        }
        for kind in Kind::ALL {
            topic.clear();
            let _ = write!(topic, "tautwire/{}", kind.gauge());
            let held_bytes = self.state.memory.share().memory().held(*kind);
            self.publish_sys_topic(&topic, format_args!("{held_bytes}"));
        }
        let retained_bytes = self.state.context.exchange().retained_held_bytes();
        self.publish_sys_topic("tautwire/memory_retained_bytes", format_args!("{retained_bytes}"));
        // Counters without a mosquitto name, under our own.
        totals.each(|name, value| {
            topic.clear();
            let _ = write!(topic, "tautwire/{name}");
            self.publish_sys_topic(&topic, format_args!("{value}"));
        });
        M::publish_sys(self, &totals, self.state.operations.sys.interval_ms);
    }

    fn publish_sys_topic(&mut self, name: &str, value: std::fmt::Arguments<'_>) {
        self.publish_sys_value(&format!("$SYS/broker/{name}"), value);
    }

    /// Publishes a value as retained message if it has changed; an empty one removes it.
    pub(crate) fn publish_sys_value(&mut self, topic: &str, value: std::fmt::Arguments<'_>) {
        let payload = value.to_string();
        let message = MessageRef {
            id: self.state.context.next_message_id(),
            topic,
            properties: &[],
            payload: payload.as_bytes(),
            qos: QoS::AtMostOnce,
            retain: true,
            expires_at_ms: None,
        };
        let unchanged = self
            .state
            .context
            .exchange()
            .retained_message(topic)
            .is_some_and(|held| held.loaded().is_some_and(|held| held.payload() == message.payload));
        if !unchanged && self.publish(&mut OutgoingPublish::new(message), MessageSource::Broker).is_err() {
            log::warn!(
                "{topic} was not published: the limit of retained messages is reached; raise it in the configuration"
            );
        }
    }
}
