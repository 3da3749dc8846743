//! The `$SYS` topics, named as users of mosquitto know them.

use std::fmt::Write as _;

use tautwire_memory::Kind;
use tautwire_message::MessageRef;
use tautwire_protocol::QoS;
use tautwire_router::ShardIndex;

use crate::counters::Totals;
use crate::mode::Mode;
use crate::publish_packets::OutgoingPublish;
use crate::route::MessageSource;
use crate::settings::Settings;
use crate::shard::Shard;

const VERSION: &str = concat!("tautwire ", env!("CARGO_PKG_VERSION"));

/// Something that is counted, by the name of its topic.
pub(crate) struct CounterTopic {
    pub(crate) name: &'static str,
    pub(crate) counter: fn(&Totals) -> u64,
}

/// What each broker says of itself, and what of several brokers is added up.
pub(crate) const SUMMED: [CounterTopic; 10] = [
    CounterTopic { name: "clients/connected", counter: |totals| totals.sessions_connected },
    CounterTopic { name: "messages/received", counter: |totals| totals.packets_received },
    CounterTopic { name: "messages/sent", counter: |totals| totals.packets_sent },
    CounterTopic { name: "publish/messages/received", counter: |totals| totals.publishes_received },
    CounterTopic { name: "publish/messages/sent", counter: |totals| totals.publishes_sent },
    CounterTopic { name: "publish/messages/dropped", counter: Totals::dropped },
    CounterTopic { name: "publish/bytes/received", counter: |totals| totals.publish_bytes_received },
    CounterTopic { name: "publish/bytes/sent", counter: |totals| totals.publish_bytes_sent },
    CounterTopic { name: "bytes/received", counter: |totals| totals.bytes_received },
    CounterTopic { name: "bytes/sent", counter: |totals| totals.bytes_sent },
];

/// What is averaged, below `load/`.
const RATES: [CounterTopic; 9] = [
    CounterTopic { name: "messages/received", counter: |totals| totals.packets_received },
    CounterTopic { name: "messages/sent", counter: |totals| totals.packets_sent },
    CounterTopic { name: "publish/dropped", counter: Totals::dropped },
    CounterTopic { name: "publish/received", counter: |totals| totals.publishes_received },
    CounterTopic { name: "publish/sent", counter: |totals| totals.publishes_sent },
    CounterTopic { name: "bytes/received", counter: |totals| totals.bytes_received },
    CounterTopic { name: "bytes/sent", counter: |totals| totals.bytes_sent },
    CounterTopic { name: "sockets", counter: |totals| totals.connections_accepted },
    CounterTopic { name: "connections", counter: |totals| totals.connects },
];
const WINDOWS: [(&str, f64); 3] = [("1min", 60.0), ("5min", 300.0), ("15min", 900.0)];

/// When the topics are due and what was seen the last time. Shard 0 publishes for all.
#[derive(Debug)]
pub(crate) struct SysTopics {
    started_ms: u64,
    interval_ms: u64,
    next_ms: Option<u64>,
    last_ms: u64,
    last: Totals,
    maximum_connected: u64,
    /// Exponential averages per minute, for each rate and window.
    loads: [[f64; WINDOWS.len()]; RATES.len()],
}

impl SysTopics {
    pub(crate) fn new(shard: ShardIndex, settings: &Settings, now_ms: u64) -> SysTopics {
        let interval_ms = u64::from(settings.sys_interval_s) * 1000;
        SysTopics {
            started_ms: now_ms,
            interval_ms,
            // The first time at once, so that a client which comes later finds them.
            next_ms: (shard == ShardIndex(0) && interval_ms > 0).then_some(now_ms),
            last_ms: now_ms,
            last: Totals::default(),
            maximum_connected: 0,
            loads: Default::default(),
        }
    }

    /// From now on they are published so often.
    pub(crate) fn change(&mut self, shard: ShardIndex, settings: &Settings, now_ms: u64) {
        let interval_ms = u64::from(settings.sys_interval_s) * 1000;
        if interval_ms != self.interval_ms {
            self.interval_ms = interval_ms;
            self.next_ms = (shard == ShardIndex(0) && interval_ms > 0).then_some(now_ms);
        }
    }

    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.next_ms
    }

    fn average(&mut self, totals: &Totals, now_ms: u64) {
        let elapsed_s = (now_ms - self.last_ms) as f64 / 1000.0;
        if elapsed_s > 0.0 {
            for (averages, CounterTopic { counter, .. }) in self.loads.iter_mut().zip(RATES) {
                let per_minute = counter(totals).wrapping_sub(counter(&self.last)) as f64 * 60.0 / elapsed_s;
                for (average, (_, window_s)) in averages.iter_mut().zip(WINDOWS) {
                    let keep = (-elapsed_s / window_s).exp();
                    *average = per_minute + keep * (*average - per_minute);
                }
            }
        }
        self.last = totals.clone();
        self.last_ms = now_ms;
        self.maximum_connected = self.maximum_connected.max(totals.sessions_connected);
    }
}

impl<M: Mode> Shard<M> {
    /// Publishes the `$SYS` topics if they are due.
    pub(crate) fn publish_sys(&mut self) {
        let now_ms = self.state.clock.now_ms();
        if self.sys.next_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        self.sys.next_ms = Some(now_ms + self.sys.interval_ms);
        let totals = self.state.context.totals();
        self.sys.average(&totals, now_ms);
        let (retained, retained_bytes) = self.state.context.exchange().retained();
        let uptime_s = (now_ms - self.sys.started_ms) / 1000;
        let disconnected = totals.sessions.saturating_sub(totals.sessions_connected);

        self.publish_sys_topic("version", format_args!("{VERSION}"));
        self.publish_sys_topic("uptime", format_args!("{uptime_s} seconds"));
        let values = [
            ("clients/total", totals.sessions),
            ("clients/active", totals.sessions_connected),
            ("clients/disconnected", disconnected),
            ("clients/inactive", disconnected),
            ("clients/expired", totals.sessions_expired),
            ("clients/maximum", self.sys.maximum_connected),
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
                let average = self.sys.loads[row][column];
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
        // What mosquitto has no name for, by our own.
        totals.each(|name, value| {
            topic.clear();
            let _ = write!(topic, "tautwire/{name}");
            self.publish_sys_topic(&topic, format_args!("{value}"));
        });
        M::publish_sys(self, &totals, self.sys.interval_ms);
    }

    fn publish_sys_topic(&mut self, name: &str, value: std::fmt::Arguments<'_>) {
        self.publish_sys_value(&format!("$SYS/broker/{name}"), value);
    }

    /// Retains a value, where it is another one than before; none takes the old one away.
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
            log::warn!("{topic} was not published: the broker retains as much as it may");
        }
    }
}
