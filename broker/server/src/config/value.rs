//! The types of keys, with their conversion from and to TOML.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::Path;

use tautwire_protocol::{QoS, TopicName};
use tautwire_session::AckLevel;
use tautwire_websocket::AllowedOrigin;
use toml::de::DeValue;

use super::error::ErrorLocation;
use crate::json::push_string;
use crate::nearest::nearest;

/// The type of a configuration key.
pub(crate) trait Setting: Sized {
    /// Accepted values, for people.
    fn accepts(range: Option<&RangeInclusive<u64>>) -> String;
    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError>;
    fn to_toml(&self) -> String;
    /// Stores the location of the value, for messages about the file that it names.
    fn set_location(&mut self, _: &ErrorLocation) {}
}

/// An invalid value; the text says what was found and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueError {
    /// A value of another TOML type.
    Type(String),
    /// The right type, but not an allowed value.
    Range(String),
}

/// A prefix of topic names; empty for none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TopicPrefix(String);

impl TopicPrefix {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A file or folder; empty for none. The location does not count for equality.
#[derive(Debug, Clone, Default)]
pub(crate) struct FilePath {
    text: String,
    location: Option<ErrorLocation>,
}

impl FilePath {
    pub(crate) fn get(&self) -> Option<&Path> {
        (!self.text.is_empty()).then(|| Path::new(&self.text))
    }

    /// The location and the key of the setting, for messages.
    pub(crate) fn setting(&self, key: &str) -> String {
        self.location.as_ref().map_or_else(|| key.to_owned(), |location| format!("{location}: {key}"))
    }

    /// Makes the path absolute; a relative one is relative to `folder`.
    pub(super) fn relative_to(&mut self, folder: &Path) {
        let absolute = self.get().and_then(|path| std::path::absolute(folder.join(path)).ok());
        if let Some(text) = absolute.and_then(|path| path.into_os_string().into_string().ok()) {
            self.text = text;
        }
    }
}

impl PartialEq for FilePath {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for FilePath {}

/// The address of the admin API, if any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AdminListen(pub(crate) Option<AdminAddress>);

/// An address of the admin API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AdminAddress {
    pub(crate) socket: SocketAddr,
    pub(crate) is_tls: bool,
}

impl AdminAddress {
    /// Whether it is reachable from other machines without TLS.
    pub(crate) fn is_remote_plaintext(self) -> bool {
        !self.is_tls && !self.socket.ip().to_canonical().is_loopback()
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http{}://{}", if self.is_tls { "s" } else { "" }, self.socket)
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// A type with a fixed set of named values.
pub(super) trait Choice: Copy + PartialEq + 'static {
    const CHOICES: &'static [(&'static str, Self)];
}

impl Choice for AckLevel {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("memory", Self::Memory), ("os", Self::Os), ("disk", Self::Disk), ("quorum", Self::Quorum)];
}

impl Choice for LogFormat {
    const CHOICES: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

impl Choice for log::Level {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("error", Self::Error), ("warn", Self::Warn), ("info", Self::Info), ("debug", Self::Debug)];
}

impl<C: Choice> Setting for C {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        let names: Vec<String> = C::CHOICES.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let given = match value {
            // A version is written without quotes on the command line.
            DeValue::Float(fraction) if C::CHOICES.iter().any(|(name, _)| *name == fraction.as_str()) => {
                fraction.as_str()
            }
            value => value.as_str().ok_or_else(|| wrong_type::<Self>(value, None))?,
        };
        if let Some((_, choice)) = C::CHOICES.iter().find(|(name, _)| *name == given) {
            return Ok(*choice);
        }
        let mut text = format!("\"{given}\" is not one of {}", Self::accepts(None));
        if let Some(name) = nearest(given, C::CHOICES.iter().map(|(name, _)| *name)) {
            text.push_str(&format!("; did you mean \"{name}\"?"));
        }
        Err(ValueError::Range(text))
    }

    fn to_toml(&self) -> String {
        let name = C::CHOICES.iter().find(|(_, choice)| choice == self).map_or("", |(name, _)| name);
        format!("\"{name}\"")
    }
}

impl Setting for bool {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "true or false".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        value.as_bool().ok_or_else(|| wrong_type::<Self>(value, None))
    }

    fn to_toml(&self) -> String {
        self.to_string()
    }
}

/// An optional key.
impl<S: Setting> Setting for Option<S> {
    fn accepts(range: Option<&RangeInclusive<u64>>) -> String {
        S::accepts(range)
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        S::from_toml(value, range).map(Some)
    }

    fn to_toml(&self) -> String {
        self.as_ref().map_or_else(String::new, S::to_toml)
    }

    fn set_location(&mut self, location: &ErrorLocation) {
        if let Some(value) = self {
            value.set_location(location);
        }
    }
}

/// Integers of each width. The key's range is checked; the width guards against a range that is too large for the type.
macro_rules! whole_number {
    ($($type:ty),+) => { $(
        impl Setting for $type {
            fn accepts(range: Option<&RangeInclusive<u64>>) -> String {
                match range {
                    Some(range) => format!("whole number from {} to {}", range.start(), range.end()),
                    None => "whole number".to_owned(),
                }
            }

            fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
                let number = whole_number(value).ok_or_else(|| wrong_type::<Self>(value, range))?;
                u64::try_from(number)
                    .ok()
                    .filter(|number| range.is_none_or(|range| range.contains(number)))
                    .and_then(|number| Self::try_from(number).ok())
                    .ok_or_else(|| ValueError::Range(format!("{number} is out of range; write a {}", Self::accepts(range))))
            }

            fn to_toml(&self) -> String {
                self.to_string()
            }
        }
    )+ };
}
whole_number!(u16, u32, u64, usize);

impl Setting for QoS {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "0, 1 or 2".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let number = whole_number(value).ok_or_else(|| wrong_type::<Self>(value, None))?;
        u8::try_from(number)
            .ok()
            .and_then(QoS::from_u8)
            .ok_or_else(|| ValueError::Range(format!("{number} is not a QoS; write {}", Self::accepts(None))))
    }

    fn to_toml(&self) -> String {
        self.as_u8().to_string()
    }
}

impl Setting for FilePath {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "path, \"\" for none".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let text = value.as_str().ok_or_else(|| wrong_type::<Self>(value, None))?;
        Ok(Self { text: text.to_owned(), location: None })
    }

    fn to_toml(&self) -> String {
        quoted(&self.text)
    }

    fn set_location(&mut self, location: &ErrorLocation) {
        self.location = Some(location.clone());
    }
}

impl Setting for AdminListen {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "\"https://ADDRESS:PORT\", \"ADDRESS:PORT\" or a port, \"\" for none".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let at = |socket, is_tls| Self(Some(AdminAddress { socket, is_tls }));
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if let Some(port) = whole_number(value) {
            let port = u16::try_from(port);
            return port
                .map(|port| at(local(port), false))
                .map_err(|_| ValueError::Range("the largest port is 65535".to_owned()));
        }
        let given = value.as_str().ok_or_else(|| wrong_type::<Self>(value, None))?;
        if given.is_empty() {
            return Ok(Self(None));
        }
        let (is_tls, text) = match given.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, given.strip_prefix("http://").unwrap_or(given)),
        };
        let text = text.strip_suffix('/').unwrap_or(text);
        match (text.parse(), text.parse()) {
            (Ok(socket), _) => Ok(at(socket, is_tls)),
            (_, Ok(port)) => Ok(at(local(port), is_tls)),
            _ => Err(ValueError::Range(format!(
                "\"{}\" is not an IP address and port; write it like \"127.0.0.1:9183\" or \"https://[::]:9183\"",
                given.escape_debug()
            ))),
        }
    }

    fn to_toml(&self) -> String {
        match self.0 {
            None => "\"\"".to_owned(),
            Some(AdminAddress { socket, is_tls: false }) => format!("\"{socket}\""),
            Some(is_tls) => format!("\"{is_tls}\""),
        }
    }
}

impl Setting for TopicPrefix {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "topic name prefix, \"\" for none".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let text = value.as_str().ok_or_else(|| wrong_type::<Self>(value, None))?;
        match TopicName::new(text) {
            Err(error) if !text.is_empty() => {
                Err(ValueError::Range(format!("{text:?} is not a valid topic name prefix: {error}")))
            }
            _ => Ok(Self(text.to_owned())),
        }
    }

    fn to_toml(&self) -> String {
        quoted(&self.0)
    }
}

impl Setting for Vec<AllowedOrigin> {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"SCHEME://HOST[:PORT]\", \"null\" or \"*\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        texts::<Self>(value)?
            .into_iter()
            .map(|text| {
                AllowedOrigin::new(text).ok_or_else(|| {
                    ValueError::Range(format!(
                        "\"{}\" is not an origin; write it like \"https://example.org\" or \"http://10.0.0.7:3000\", without a path",
                        text.escape_debug()
                    ))
                })
            })
            .collect()
    }

    fn to_toml(&self) -> String {
        let items: Vec<String> = self.iter().map(|origin| format!("\"{origin}\"")).collect();
        format!("[{}]", items.join(", "))
    }
}

/// A JSON string is a TOML string.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    push_string(&mut quoted, text);
    quoted
}

/// Reads a string.
pub(super) fn text<'a, S: Setting>(value: &'a DeValue<'_>) -> Result<&'a str, ValueError> {
    value.as_str().ok_or_else(|| wrong_type::<S>(value, None))
}

/// Reads a list of strings; a single string needs no brackets.
pub(super) fn texts<'a, S: Setting>(value: &'a DeValue<'_>) -> Result<Vec<&'a str>, ValueError> {
    if let Some(one) = value.as_str() {
        return Ok(vec![one]);
    }
    let list = value.as_array().ok_or_else(|| wrong_type::<S>(value, None))?;
    list.iter().map(|item| item.get_ref().as_str().ok_or_else(|| wrong_type::<S>(value, None))).collect()
}

fn whole_number(value: &DeValue<'_>) -> Option<i128> {
    let number = value.as_integer()?;
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

fn wrong_type<S: Setting>(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> ValueError {
    ValueError::Type(format!("expected {}, found {}", S::accepts(range), found(value)))
}

/// The TOML type of a value with its article, for messages.
fn found(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
