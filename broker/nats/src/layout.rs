//! The streams and buckets of the cluster, as described in `docs/internals/cluster-format.md`.

use tautwire_cluster::names::{Incarnation, Key, Partition};
use tautwire_json::Value;

use crate::settings::Storage;

pub(crate) const NODE: &str = "tw_node";
pub(crate) const SESSION: &str = "tw_session";
pub(crate) const GROUP: &str = "tw_group";
pub(crate) const CONFIG: &str = "tw_config";
pub(crate) const RETAINED: &str = "TW_RETAINED";
pub(crate) const RETAINED_SUBJECTS: &str = "tw.r.>";

/// The key of the seed in `tw_config`.
pub(crate) const SEED: &str = "seed";

/// The key of `tw_config` that is written to confirm the current state, and its lifetime in seconds.
pub(crate) const SYNC_KEY: &str = "mark";
pub(crate) const SYNC_KEY_TTL_S: u64 = 60;

/// The lifetime of a deletion marker in seconds: longer than a reader may be disconnected and still resume.
pub(crate) const MARKER_S: u64 = 60 * 60;
/// The number of revisions per key in `tw_config`: the most that a bucket allows.
const CONFIG_HISTORY: u64 = 64;

/// Returns the stream of a bucket.
pub(crate) fn bucket_stream(bucket: &str) -> String {
    format!("KV_{bucket}")
}

pub(crate) fn bucket_of(key: Key) -> &'static str {
    match key {
        Key::Node(_) => NODE,
        Key::Session(_) => SESSION,
        Key::Group(_) => GROUP,
        Key::Config => CONFIG,
    }
}

/// Returns the subjects of a bucket's keys.
pub(crate) fn bucket_subjects(bucket: &str) -> String {
    format!("$KV.{bucket}.>")
}

/// Returns the incarnation whose key in `tw_node` has this subject.
pub(crate) fn node_of(subject: &str) -> Option<Incarnation> {
    let key = subject.strip_prefix(bucket_subjects(NODE).trim_end_matches('>'))?;
    let number = u64::from_str_radix(key, 16).ok().and_then(std::num::NonZeroU64::new)?;
    Some(Incarnation(number)).filter(|node| node.to_string() == key)
}

/// Returns the stream of a partition of the log.
pub(crate) fn log_stream(partition: Partition) -> String {
    format!("TW_LOG_{partition}")
}

/// Returns the subjects of a partition of the log.
pub(crate) fn log_subjects(partition: Partition) -> String {
    format!("tw.m.{partition}.>")
}

/// Returns the subject on which a node receives messages of other nodes.
pub(crate) fn peer_subject(node: Incarnation) -> String {
    format!("tw.c.{node}")
}

/// Returns the subject on which a node receives the answers to one of its probes.
pub(crate) fn probe_subject(node: Incarnation, number: u64) -> String {
    format!("tw.c.{node}.{number}")
}

/// Returns the subject of a topic's retained message.
pub(crate) fn retained_subject(subject: &str) -> String {
    format!("tw.r.{subject}")
}

/// Returns the subject for a topic's QoS 0 messages, or for those of a pattern.
pub(crate) fn bus_subject(subject: &str) -> String {
    format!("tw.z.{subject}")
}

pub(crate) const BUS_PREFIX: &str = "tw.z.";

/// A required stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamSpec {
    pub(crate) name: String,
    /// The required settings.
    pub(crate) required: Vec<(&'static str, Value)>,
    /// The initial settings, which an operator may change.
    pub(crate) initial: Vec<(&'static str, Value)>,
}

/// Returns all streams of a cluster.
pub(crate) fn required_streams(storage: &Storage) -> Vec<StreamSpec> {
    let buckets = [
        bucket(NODE, 1, DirectRead::No, storage),
        bucket(SESSION, 1, DirectRead::Yes, storage),
        bucket(GROUP, 1, DirectRead::No, storage),
        bucket(CONFIG, CONFIG_HISTORY, DirectRead::No, storage),
    ];
    let logs = Partition::all().map(|partition| log(partition, storage));
    buckets.into_iter().chain(logs).chain([retained(storage)]).collect()
}

/// Whether replicas, which may lag behind the leader, may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectRead {
    /// For readers that then ask the leader whether there is more.
    Yes,
    No,
}

fn bucket(name: &str, history: u64, direct: DirectRead, storage: &Storage) -> StreamSpec {
    let mut required = common(bucket_subjects(name), storage);
    required.extend([
        ("max_msgs_per_subject", number(history)),
        ("discard", text("new")),
        ("allow_rollup_hdrs", Value::Bool(true)),
        ("deny_delete", Value::Bool(true)),
        ("allow_direct", Value::Bool(direct == DirectRead::Yes)),
        // Keys with a time to live, and deletion markers that expire.
        ("allow_msg_ttl", Value::Bool(true)),
    ]);
    let initial = vec![("subject_delete_marker_ttl", number(MARKER_S * 1_000_000_000))];
    StreamSpec { name: bucket_stream(name), required, initial: with_defaults(initial) }
}

fn log(partition: Partition, storage: &Storage) -> StreamSpec {
    let mut required = common(log_subjects(partition), storage);
    required.extend([
        ("discard", text("old")),
        // A limit per subject would remove groups that have not been read.
        ("max_msgs_per_subject", Value::Number("-1".to_owned())),
        // Lagging sessions read from any replica. A node reads from the leader where it decides something.
        ("allow_direct", Value::Bool(true)),
    ]);
    let initial = vec![
        ("max_age", number(storage.log_max_age_s.saturating_mul(1_000_000_000))),
        ("max_bytes", number(storage.log_max_bytes)),
    ];
    StreamSpec { name: log_stream(partition), required, initial: with_defaults(initial) }
}

fn retained(storage: &Storage) -> StreamSpec {
    let mut required = common(RETAINED_SUBJECTS.to_owned(), storage);
    required.extend([
        ("max_msgs_per_subject", number(1)),
        ("discard", text("old")),
        ("allow_direct", Value::Bool(true)),
        ("allow_msg_ttl", Value::Bool(true)),
        ("allow_rollup_hdrs", Value::Bool(true)),
    ]);
    let initial = vec![("subject_delete_marker_ttl", number(MARKER_S * 1_000_000_000))];
    StreamSpec { name: RETAINED.to_owned(), required, initial: with_defaults(initial) }
}

fn common(subjects: String, storage: &Storage) -> Vec<(&'static str, Value)> {
    vec![
        ("subjects", Value::List(vec![Value::Text(subjects)])),
        ("retention", text("limits")),
        ("storage", text("file")),
        ("num_replicas", number(u64::from(storage.replicas))),
        ("no_ack", Value::Bool(false)),
    ]
}

fn with_defaults(initial: Vec<(&'static str, Value)>) -> Vec<(&'static str, Value)> {
    let unlimited = ["max_consumers", "max_msgs", "max_bytes", "max_msg_size"];
    let missing = unlimited.into_iter().filter(|name| initial.iter().all(|(known, _)| known != name));
    let missing: Vec<_> = missing.map(|name| (name, Value::Number("-1".to_owned()))).collect();
    initial.into_iter().chain(missing).collect()
}

fn number(number: u64) -> Value {
    Value::Number(number.to_string())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

impl StreamSpec {
    /// Returns the request that creates the stream.
    pub(crate) fn request(&self) -> String {
        let name = [("name", Value::Text(self.name.clone()))];
        let all = name.iter().chain(&self.required).chain(&self.initial);
        let config = Value::Object(all.map(|(name, value)| ((*name).to_owned(), value.clone())).collect());
        let mut json = String::new();
        config.push_json(&mut json);
        json
    }

    /// Describes the settings of an existing stream that differ from the required ones.
    pub(crate) fn differences(&self, config: &Value) -> Vec<String> {
        let shown = |value: &Value| {
            let mut json = String::new();
            value.push_json(&mut json);
            json
        };
        // Servers omit false values.
        let has = |name: &str| config.get(name).cloned().unwrap_or(Value::Bool(false));
        self.required
            .iter()
            .map(|(name, must)| (*name, has(name), must))
            .filter(|(name, has, must)| !is_enough(name, has, must))
            .map(|(name, has, must)| format!("{name} is {} and must be {}", shown(&has), shown(must)))
            .collect()
    }
}

/// More replicas than required are fine.
fn is_enough(name: &str, has: &Value, must: &Value) -> bool {
    match (name, has, must) {
        ("num_replicas", Value::Number(has), Value::Number(must)) => {
            has.parse::<u8>().ok().zip(must.parse::<u8>().ok()).is_some_and(|(has, must)| has >= must)
        }
        _ => has == must,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_json::parse;

    #[test]
    fn weaker_stream_settings_are_reported_exactly() {
        for stream in required_streams(&Storage::default()) {
            let json = stream.request();
            let config = parse(&json).expect("JSON");
            assert_eq!(stream.differences(&config), Vec::<String>::new(), "{json}");
        }
        let log = log(Partition::new(3).expect("a partition"), &Storage::default());
        let weaker = log.request().replace(r#""num_replicas":3"#, r#""num_replicas":1"#).replace("limits", "interest");
        assert_eq!(
            log.differences(&parse(&weaker).expect("JSON")),
            [r#"retention is "interest" and must be "limits""#, "num_replicas is 1 and must be 3"]
        );
        let stronger = log.request().replace(r#""num_replicas":3"#, r#""num_replicas":5"#);
        assert!(log.differences(&parse(&stronger).expect("JSON")).is_empty());
    }

    #[test]
    fn names_are_stable() {
        let names: Vec<_> = required_streams(&Storage::default()).into_iter().map(|stream| stream.name).collect();
        assert_eq!(names.len(), 21);
        assert!(
            ["KV_tw_node", "KV_tw_session", "TW_LOG_00", "TW_LOG_15", "TW_RETAINED"]
                .iter()
                .all(|name| names.iter().any(|known| known == name))
        );
    }

    #[test]
    fn keys_of_nodes_are_parsed() {
        let node = Incarnation(std::num::NonZeroU64::new(0x9f).expect("not 0"));
        assert_eq!(node_of(&format!("$KV.{}", Key::Node(node))), Some(node));
        for key in ["", "9f", "000000000000009F", "0000000000000000", "00000000000000009f", "x00000000000009f"] {
            assert_eq!(node_of(&format!("$KV.tw_node.{key}")), None, "{key}");
        }
    }
}
