//! The tables `[[sink]]`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tautwire_client::QoS;
use tautwire_contracts::{Catalogue, Contract, TopicPattern};
use toml::Spanned;

use super::Broker;
use super::error::{ConfigError, Source};
use crate::mapping::{self, KeyField, Mapping, PayloadFormat};

/// The largest `receive_maximum`: identities of twice as many messages must differ, of 65,535.
pub(crate) const RECEIVE_MAXIMUM_MAX: u16 = 16_384;

/// A checked sink.
#[derive(Debug)]
pub(crate) struct SinkConfig {
    pub(crate) name: String,
    /// Of its session.
    pub(crate) client_id: String,
    pub(crate) filters: Vec<String>,
    pub(crate) qos: QoS,
    pub(crate) receive_maximum: u16,
    pub(crate) session_expiry: Duration,
    pub(crate) batch_messages: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) batch_delay: Duration,
    pub(crate) dead_letter: String,
    pub(crate) contract: Option<Arc<Contract>>,
    pub(crate) kind: SinkKind,
}

/// The target of a sink.
#[derive(Debug)]
pub(crate) enum SinkKind {
    Postgresql { url: String, password: Option<String>, ca_file: Option<PathBuf>, table: String, mapping: Arc<Mapping> },
    Nats { url: String, credentials_file: Option<PathBuf>, subject: String },
    Kafka { servers: String, topic: String, key: Option<KeyField>, properties: BTreeMap<String, String> },
    Webhook { url: String, secret: Option<String>, timeout: Duration },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Type {
    Postgresql,
    Nats,
    Kafka,
    Webhook,
}

/// A sink as it is written. The type decides which keys are allowed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SinkTable {
    pub(super) name: Spanned<String>,
    r#type: Type,
    topics: Spanned<Vec<Spanned<String>>>,
    #[serde(default = "qos")]
    qos: Spanned<u8>,
    share: Option<Spanned<String>>,
    #[serde(default = "receive_maximum")]
    receive_maximum: Spanned<u16>,
    #[serde(default = "session_expiry_s")]
    session_expiry_s: u32,
    #[serde(default = "batch_messages")]
    batch_messages: Spanned<usize>,
    #[serde(default = "batch_bytes")]
    batch_bytes: usize,
    #[serde(default = "batch_delay_ms")]
    batch_delay_ms: u64,
    dead_letter: Option<Spanned<String>>,
    contract: Option<Spanned<String>>,
    format: Option<Spanned<PayloadFormat>>,
    url: Spanned<String>,
    /// The environment variable with the password of PostgreSQL.
    password_env: Option<Spanned<String>>,
    ca_file: Option<Spanned<PathBuf>>,
    table: Option<Spanned<String>>,
    key: Option<Spanned<Vec<Spanned<String>>>>,
    columns: Option<Spanned<BTreeMap<String, Spanned<String>>>>,
    subject: Option<Spanned<String>>,
    /// The topic of Kafka.
    topic: Option<Spanned<String>>,
    /// The field that is the key of records of Kafka; without it, the MQTT topic.
    key_field: Option<Spanned<String>>,
    /// Further settings of librdkafka.
    properties: Option<Spanned<BTreeMap<String, String>>>,
    credentials_file: Option<Spanned<PathBuf>>,
    /// The environment variable with the secret of signatures.
    secret_env: Option<Spanned<String>>,
    timeout_ms: Option<Spanned<u64>>,
}

fn spanned<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

fn qos() -> Spanned<u8> {
    spanned(2)
}

fn receive_maximum() -> Spanned<u16> {
    spanned(4096)
}

fn session_expiry_s() -> u32 {
    7 * 24 * 3600
}

fn batch_messages() -> Spanned<usize> {
    spanned(2000)
}

fn batch_bytes() -> usize {
    4 << 20
}

fn batch_delay_ms() -> u64 {
    20
}

/// Where errors of one sink go.
struct Checks<'a> {
    source: Source<'a>,
    errors: &'a mut Vec<ConfigError>,
}

impl Checks<'_> {
    fn fail(&mut self, span: Range<usize>, code: &'static str, text: impl Into<String>) {
        self.errors.push(self.source.at(span, code, text.into()));
    }

    /// The value of an environment variable.
    fn variable(&mut self, name: Option<&Spanned<String>>) -> Option<String> {
        let name = name?;
        let value = std::env::var(name.get_ref());
        if value.is_err() {
            self.fail(
                name.span(),
                "config_environment",
                format!("the environment variable {} is not set", name.get_ref()),
            );
        }
        value.ok()
    }

    fn key_field(&mut self, path: &Spanned<String>, contract: Option<&Contract>) -> Option<KeyField> {
        let found = contract.ok_or_else(|| "key_field needs a contract".to_owned());
        match found.and_then(|contract| KeyField::find(contract, path.get_ref())) {
            Ok(field) => Some(field),
            Err(text) => {
                self.fail(path.span(), "config_key", text);
                None
            }
        }
    }

    fn required<T: Default>(&mut self, value: Option<Spanned<T>>, key: &str, table: Range<usize>) -> T {
        if value.is_none() {
            self.fail(table, "config_missing", format!("the key {key} is missing in this sink"));
        }
        value.map_or_else(T::default, Spanned::into_inner)
    }
}

impl SinkTable {
    /// Checks the table; errors go to `errors`.
    pub(super) fn check(
        mut self,
        source: Source<'_>,
        broker: &Broker,
        contracts: &Catalogue,
        errors: &mut Vec<ConfigError>,
    ) -> Option<SinkConfig> {
        let before = errors.len();
        let mut checks = Checks { source, errors };
        self.check_values(&mut checks);
        let patterns = self.patterns(&mut checks);
        let contract = self.contract(contracts, &patterns, &mut checks);
        let client_id = format!("{}.{}", broker.client_id, self.name.get_ref());
        let dead_letter = self.dead_letter(&client_id, &patterns, &mut checks);
        let mapping = self.mapping(&patterns, contract.as_deref(), &mut checks);
        let kind = self.kind(mapping, contract.as_deref(), &mut checks);
        (errors.len() == before).then(|| {
            let share = self.share.as_ref().map(|group| format!("$share/{}/", group.get_ref())).unwrap_or_default();
            SinkConfig {
                client_id,
                filters: patterns.iter().map(|pattern| format!("{share}{}", pattern.filter())).collect(),
                qos: if *self.qos.get_ref() == 2 { QoS::ExactlyOnce } else { QoS::AtLeastOnce },
                receive_maximum: *self.receive_maximum.get_ref(),
                session_expiry: Duration::from_secs(self.session_expiry_s.into()),
                batch_messages: *self.batch_messages.get_ref(),
                batch_bytes: self.batch_bytes,
                batch_delay: Duration::from_millis(self.batch_delay_ms),
                dead_letter,
                contract,
                kind,
                name: self.name.into_inner(),
            }
        })
    }

    fn check_values(&self, checks: &mut Checks<'_>) {
        let name = self.name.get_ref();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
            checks.fail(
                self.name.span(),
                "config_value",
                format!("the name {name:?} may have only letters, digits, _ and -"),
            );
        }
        if !matches!(self.qos.get_ref(), 1 | 2) {
            checks.fail(self.qos.span(), "config_value", format!("qos is {}; it must be 1 or 2", self.qos.get_ref()));
        }
        let maximum = *self.receive_maximum.get_ref();
        if !(1..=RECEIVE_MAXIMUM_MAX).contains(&maximum) {
            let text = format!("receive_maximum is {maximum}; it must be between 1 and {RECEIVE_MAXIMUM_MAX}");
            checks.fail(self.receive_maximum.span(), "config_value", text);
        }
        if *self.batch_messages.get_ref() == 0 {
            checks.fail(self.batch_messages.span(), "config_value", "batch_messages is 0; it must be at least 1");
        }
        if let Some(share) = &self.share
            && (share.get_ref().is_empty() || share.get_ref().contains(['/', '+', '#']))
        {
            checks.fail(
                share.span(),
                "config_value",
                "share is the name of a group; it cannot be empty or contain /, + or #",
            );
        }
    }

    fn patterns(&self, checks: &mut Checks<'_>) -> Vec<TopicPattern> {
        let mut patterns: Vec<TopicPattern> = Vec::new();
        for topics in self.topics.get_ref() {
            let text = topics.get_ref();
            match TopicPattern::new(text) {
                Ok(pattern) => {
                    if let Some(other) = patterns.iter().find(|other| other.overlaps(&pattern)) {
                        let text =
                            format!("{text} and {} match the same topics, which would be stored twice", other.as_str());
                        checks.fail(topics.span(), "config_overlap", text);
                    }
                    patterns.push(pattern);
                }
                Err(error) => checks.fail(topics.span(), "config_topics", format!("{text}: {error}")),
            }
        }
        if patterns.is_empty() {
            checks.fail(self.topics.span(), "config_value", "topics is empty; it must have at least one topic filter");
        }
        patterns
    }

    fn contract(
        &self,
        contracts: &Catalogue,
        patterns: &[TopicPattern],
        checks: &mut Checks<'_>,
    ) -> Option<Arc<Contract>> {
        let name = self.contract.as_ref()?;
        let Some(contract) = contracts.named(name.get_ref()) else {
            let text = format!("there is no contract {}; set contracts.path, or correct the name", name.get_ref());
            checks.fail(name.span(), "config_contract", text);
            return None;
        };
        for (pattern, topics) in patterns.iter().zip(self.topics.get_ref()) {
            if !contract.topics().overlaps(pattern) {
                let (name, own) = (contract.name(), contract.topics().as_str());
                let text = format!("{} matches no topic of the contract {name} ({own})", pattern.as_str());
                checks.fail(topics.span(), "config_contract", text);
            }
        }
        Some(Arc::clone(contract))
    }

    fn dead_letter(&self, client_id: &str, patterns: &[TopicPattern], checks: &mut Checks<'_>) -> String {
        let span = self.dead_letter.as_ref().map_or_else(|| self.topics.span(), Spanned::span);
        let topic = self
            .dead_letter
            .as_ref()
            .map_or_else(|| format!("dead-letter/{client_id}"), |topic| topic.get_ref().clone());
        match TopicPattern::new(&topic) {
            _ if topic.contains(['+', '#', '{']) => {
                checks.fail(span, "config_value", "dead_letter must be a topic without wildcards")
            }
            Err(error) => checks.fail(span, "config_value", format!("dead_letter: {topic}: {error}")),
            Ok(parsed) => {
                if let Some(own) = patterns.iter().find(|pattern| pattern.overlaps(&parsed)) {
                    let text =
                        format!("the dead-letter topic {topic} is one of the sink's own topics ({})", own.as_str());
                    checks.fail(span, "config_dead_letter", text);
                }
            }
        }
        topic
    }

    /// The columns, for a sink with a table.
    fn mapping(
        &self,
        patterns: &[TopicPattern],
        contract: Option<&Contract>,
        checks: &mut Checks<'_>,
    ) -> Option<Mapping> {
        self.table.as_ref()?;
        let format = self.format.as_ref().map(|format| *format.get_ref()).unwrap_or_default();
        if let (Some(format), Some(_)) = (&self.format, contract) {
            checks.fail(
                format.span(),
                "config_value",
                "format is for payloads without a contract; the contract has the formats",
            );
        }
        let mut columns = match contract {
            Some(contract) => mapping::of_contract(contract, patterns),
            None => mapping::without_contract(format, patterns),
        };
        if let Err(text) = &columns {
            checks.fail(self.topics.span(), "config_columns", text.clone());
        }
        let mapping = columns.as_mut().ok()?;
        for (column, path) in self.columns.iter().flat_map(|columns| columns.get_ref()) {
            let added = contract.ok_or_else(|| "columns need a contract".to_owned());
            if let Err(text) = added.and_then(|contract| mapping.add_path(contract, column, path.get_ref())) {
                checks.fail(path.span(), "config_columns", format!("column {column}: {text}"));
            }
        }
        for column in self.key.iter().flat_map(|key| key.get_ref()) {
            if let Err(text) = mapping.add_key(column.get_ref()) {
                checks.fail(column.span(), "config_key", text);
            }
        }
        columns.ok()
    }

    /// The part that depends on the type. Takes the keys of its type; those left belong to another one.
    fn kind(&mut self, mapping: Option<Mapping>, contract: Option<&Contract>, checks: &mut Checks<'_>) -> SinkKind {
        let url = self.url.get_ref().clone();
        let table_span = self.name.span();
        let kind = match self.r#type {
            Type::Postgresql => {
                (self.format, self.key, self.columns) = (None, None, None);
                SinkKind::Postgresql {
                    url,
                    password: checks.variable(self.password_env.take().as_ref()),
                    ca_file: self.ca_file.take().map(Spanned::into_inner),
                    table: checks.required(self.table.take(), "table", table_span),
                    mapping: Arc::new(mapping.unwrap_or_default()),
                }
            }
            Type::Nats => SinkKind::Nats {
                url,
                credentials_file: self.credentials_file.take().map(Spanned::into_inner),
                subject: checks.required(self.subject.take(), "subject", table_span),
            },
            Type::Kafka => SinkKind::Kafka {
                servers: url,
                key: self.key_field.take().and_then(|path| checks.key_field(&path, contract)),
                properties: self.properties.take().map(Spanned::into_inner).unwrap_or_default(),
                topic: checks.required(self.topic.take(), "topic", table_span),
            },
            Type::Webhook => SinkKind::Webhook {
                url,
                secret: checks.variable(self.secret_env.take().as_ref()),
                timeout: Duration::from_millis(self.timeout_ms.take().map_or(10_000, Spanned::into_inner)),
            },
        };
        let left = [
            ("format", self.format.as_ref().map(Spanned::span)),
            ("password_env", self.password_env.as_ref().map(Spanned::span)),
            ("ca_file", self.ca_file.as_ref().map(Spanned::span)),
            ("table", self.table.as_ref().map(Spanned::span)),
            ("key", self.key.as_ref().map(Spanned::span)),
            ("columns", self.columns.as_ref().map(Spanned::span)),
            ("topic", self.topic.as_ref().map(Spanned::span)),
            ("key_field", self.key_field.as_ref().map(Spanned::span)),
            ("properties", self.properties.as_ref().map(Spanned::span)),
            ("subject", self.subject.as_ref().map(Spanned::span)),
            ("credentials_file", self.credentials_file.as_ref().map(Spanned::span)),
            ("secret_env", self.secret_env.as_ref().map(Spanned::span)),
            ("timeout_ms", self.timeout_ms.as_ref().map(Spanned::span)),
        ];
        for (key, span) in left {
            if let Some(span) = span {
                checks.fail(span, "config_unknown_key", format!("a sink of this type has no key {key}"));
            }
        }
        kind
    }
}
