//! The `$SYS` topics of all nodes: each node sends its values to the others, and publishes all and their sums.

use std::fmt::Write as _;

use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::QoS;
use tautwire_router::ShardIndex;

use super::cluster_state::Values;
use crate::counters::Totals;
use crate::mode::Clustered;
use crate::operations::sys::{CounterTopic, SUMMED};
use crate::shard::Shard;
use crate::text::truncated;

/// The topic on which nodes exchange their values. No client gets its messages, whatever it subscribes to.
pub(crate) const NODES_TOPIC: &str = "$SYS/nodes";
/// The maximum length of a node's name, in bytes.
const NAME_MAX_BYTES: usize = 256;

/// The values of a node, with its name and the interval between reports.
struct NodeReport<'m> {
    interval_s: u64,
    name: &'m str,
    values: Values,
}

impl Shard<Clustered> {
    /// Sends the values of this node to the others, and publishes those of all nodes.
    #[cold]
    #[inline(never)]
    pub(crate) fn publish_cluster_sys(&mut self, totals: &Totals, interval_ms: u64) {
        let now_ms = self.state.clock.now_ms();
        let cluster = &mut self.state.mode.cluster;
        if !std::mem::replace(&mut cluster.nodes.is_subscribed, true) {
            cluster.add_interest(NODES_TOPIC);
        }
        let name = as_level(&cluster.settings().node_name);
        let own: Values = SUMMED.iter().map(|CounterTopic { counter, .. }| counter(totals)).collect();
        let report = NodeReport { interval_s: interval_ms.div_ceil(1000), name: &name, values: own };
        // A report that does not fit is followed by the next one.
        let _ = cluster.broadcast(&message_of(&report.payload()));
        let silent = cluster.nodes.remove_silent(now_ms);
        let mut all = vec![(name.clone(), report.values)];
        all.extend(
            cluster
                .nodes
                .iter()
                .filter(|(other, _)| *other != name)
                .map(|(name, values)| (name.to_owned(), values.into())),
        );

        for name in silent {
            for CounterTopic { name: value, .. } in &SUMMED {
                self.publish_sys_value(&format!("$SYS/nodes/{name}/{value}"), format_args!(""));
            }
        }
        self.publish_sys_value("$SYS/cluster/nodes", format_args!("{}", all.len()));
        for (number, CounterTopic { name: value, .. }) in SUMMED.iter().enumerate() {
            let sum = all.iter().fold(0_u64, |sum, (_, values)| sum.saturating_add(values[number]));
            self.publish_sys_value(&format!("$SYS/cluster/{value}"), format_args!("{sum}"));
            for (name, values) in &all {
                self.publish_sys_value(&format!("$SYS/nodes/{name}/{value}"), format_args!("{}", values[number]));
            }
        }
    }

    /// Records the values of another node. Only shard 0 publishes them.
    pub(super) fn receive_node_report(&mut self, payload: &[u8]) {
        if self.state.context.shard() != ShardIndex(0) {
            return;
        }
        let now_ms = self.state.clock.now_ms();
        let cluster = &mut self.state.mode.cluster;
        match NodeReport::read(payload) {
            Some(NodeReport { interval_s, name, values }) => {
                cluster.nodes.record_report(name, values, interval_s.saturating_mul(1000), now_ms)
            }
            None => log::warn!("dropped a $SYS report of another broker of the cluster that this broker cannot read"),
        }
    }
}

impl<'m> NodeReport<'m> {
    /// One line for each value, so that other versions find the values they know.
    fn payload(&self) -> String {
        // Writing to a string does not fail.
        let mut payload = String::new();
        let _ = writeln!(payload, "{} {}", self.interval_s, self.name);
        for (CounterTopic { name, .. }, value) in SUMMED.iter().zip(&self.values) {
            let _ = writeln!(payload, "{value} {name}");
        }
        payload
    }

    /// Reads a report. Missing values are 0.
    fn read(payload: &'m [u8]) -> Option<NodeReport<'m>> {
        let mut lines = std::str::from_utf8(payload).ok()?.lines().filter_map(|line| line.split_once(' '));
        let (interval_s, name) = lines.next()?;
        let interval_s = interval_s.parse().ok()?;
        if name.len() > NAME_MAX_BYTES || as_level(name) != name {
            return None;
        }
        let mut values: Values = vec![0; SUMMED.len()].into();
        for (value, name) in lines {
            if let Some(number) = SUMMED.iter().position(|counted| counted.name == name) {
                values[number] = value.parse().ok()?;
            }
        }
        Some(NodeReport { interval_s, name, values })
    }
}

fn message_of(payload: &str) -> MessageRef<'_> {
    MessageRef {
        id: MessageId::NONE,
        topic: NODES_TOPIC,
        properties: &[],
        payload: payload.as_bytes(),
        qos: QoS::AtMostOnce,
        retain: false,
        expires_at_ms: None,
    }
}

/// A node's name as one level of a topic [MQTT-4.7.1-1].
fn as_level(name: &str) -> String {
    let is_allowed = |character: char| !matches!(character, '/' | '+' | '#') && !character.is_control();
    let level: String = name.chars().map(|character| if is_allowed(character) { character } else { '_' }).collect();
    let level = truncated(&level, NAME_MAX_BYTES);
    if level.is_empty() { "_".to_owned() } else { level.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_node_round_trip() {
        let values: Values = (0..SUMMED.len() as u64).collect();
        let report = NodeReport { interval_s: 10, name: "node 1", values: values.clone() };
        let payload = report.payload();
        let read = NodeReport::read(payload.as_bytes()).expect("a report");
        assert_eq!((read.interval_s, read.name, read.values), (10, "node 1", values));
    }

    #[test]
    fn a_node_of_another_version_can_send_more_or_fewer_values() {
        let read = NodeReport::read(b"10 a\n7 clients/connected\n9 of/another/version\n").expect("a report");
        assert_eq!((read.name, read.values[0], read.values[1]), ("a", 7, 0));
        for wrong in [&b""[..], b"10", b"x a\n", b"10 a/b\n", b"10 a\nx clients/connected\n", b"10 \xff\n"] {
            assert!(NodeReport::read(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn any_name_becomes_one_topic_level() {
        assert_eq!(as_level("a/b+#\n"), "a_b___");
        assert_eq!(as_level(""), "_");
        assert_eq!(as_level(&"é".repeat(200)).len(), NAME_MAX_BYTES);
    }
}
