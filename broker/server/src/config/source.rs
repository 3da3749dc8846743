//! Sources of settings: the TOML file and the command line.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, ErrorCode, ErrorLocation};
use super::registry::{self, Key, Section};
use super::settings::{Config, KEYS, SECTIONS};
use super::value::ValueError;
use super::{bridge_config, listener_config};
use crate::nearest::nearest;

/// The option for `listen`.
pub(crate) const LISTEN_OPTION: &str = "--listen";

/// A setting given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Override {
    /// The option as given, for messages.
    option: String,
    key: String,
    value: String,
}

impl Override {
    /// Parses the argument of `--set`: `KEY=VALUE`.
    ///
    /// # Errors
    /// There is no `=`.
    pub(crate) fn from_argument(argument: &str) -> Result<Self, ConfigError> {
        match argument.split_once('=') {
            Some((key, value)) => Ok(Self {
                option: format!("--set {}", key.trim()),
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
            }),
            None => Err(ConfigError {
                code: ErrorCode::Syntax,
                location: ErrorLocation::Option { option: format!("--set {argument}") },
                message: "has no value; write --set KEY=VALUE, for example --set mqtt.max_qos=1".to_owned(),
            }),
        }
    }

    /// Creates one from a dedicated option, such as `--threads`.
    pub(crate) fn from_option(option: &str, key: &str, value: String) -> Self {
        Self { option: option.to_owned(), key: key.to_owned(), value }
    }

    /// Whether this is `--listen`, which replaces every address of the file.
    pub(super) fn is_listen(&self) -> bool {
        self.option == LISTEN_OPTION
    }

    pub(super) fn apply(&self, config: &mut Config) -> Result<(), ConfigError> {
        let location = ErrorLocation::Option { option: self.option.clone() };
        let fail = |code, message| ConfigError { code, location: location.clone(), message };
        let key =
            registry::find(KEYS, &self.key).ok_or_else(|| fail(ErrorCode::UnknownKey, unknown_key(&self.key, KEYS)))?;
        let list = as_list(&self.value);
        let parsed = parse_value(&self.value, &list);
        (key.set)(config, &parsed, key.range.as_ref()).map_err(|problem| {
            let (code, message) = describe(key, problem);
            fail(code, message)
        })?;
        (key.locate)(config, &location);
        Ok(())
    }
}

/// Parses a value as TOML, or else as a string or a list of strings.
///
/// A shell then needs no double quoting: `--set log.level=debug`, `--set listen=127.0.0.1:1883,127.0.0.1:1884`.
fn parse_value<'a>(text: &'a str, list: &'a str) -> DeValue<'a> {
    let parsed =
        DeValue::parse(text).or_else(|error| if text.contains(',') { DeValue::parse(list) } else { Err(error) });
    parsed.map_or_else(|_| DeValue::String(text.into()), Spanned::into_inner)
}

/// Text with commas as a TOML list of strings.
fn as_list(text: &str) -> String {
    let items: Vec<String> = text.split(',').map(|item| format!("'{}'", item.trim())).collect();
    format!("[{}]", items.join(","))
}

/// Sets every key of the file, and adds all errors to `errors`.
pub(super) fn apply_file(config: &mut Config, path: &Path, text: &str, errors: &mut Vec<ConfigError>) {
    let locate = |span: Range<usize>| {
        let (line, column) = position(text, span.start);
        ErrorLocation::File { path: path.to_owned(), line, column }
    };
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            errors.push(ConfigError {
                code: ErrorCode::Syntax,
                location: locate(error.span().unwrap_or(0..0)),
                message: format!("not valid TOML: {}", error.message()),
            });
            return;
        }
    };
    let mut file = File { locate, errors };
    file.set_keys(config, KEYS, SECTIONS, root.get_ref(), |name| matches!(name, "listener" | "bridge"));
    config.listener = file.tables(&root, "listener", listener_config::KEYS, listener_config::SECTIONS, &["address"]);
    config.bridge =
        file.tables(&root, "bridge", bridge_config::KEYS, bridge_config::SECTIONS, &["name", "addresses", "rules"]);
}

/// A file that is being read: converts positions to locations and collects errors.
struct File<'a, P> {
    locate: P,
    errors: &'a mut Vec<ConfigError>,
}

impl<P: Fn(Range<usize>) -> ErrorLocation> File<'_, P> {
    fn note(&mut self, code: ErrorCode, span: Range<usize>, message: String) {
        self.errors.push(ConfigError { code, location: (self.locate)(span), message });
    }

    /// Reads the tables that can appear several times under a name. Each needs the keys in `required`.
    fn tables<C: Default>(
        &mut self,
        root: &Spanned<DeTable<'_>>,
        name: &str,
        keys: &'static [Key<C>],
        sections: &[Section],
        required: &[&str],
    ) -> Vec<C> {
        let Some(value) = root.get_ref().get(name) else { return Vec::new() };
        let listed = value.get_ref().as_array().map(|list| list.iter());
        let Some(listed) = listed.filter(|list| list.clone().all(|item| item.get_ref().as_table().is_some())) else {
            let message = format!("{name} is a list of tables; write [[{name}]] on its own line and its keys below");
            self.note(ErrorCode::WrongType, value.span(), message);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in listed {
            let mut table = C::default();
            if let Some(found) = item.get_ref().as_table() {
                self.set_keys(&mut table, keys, sections, found, |_| false);
                for key in required.iter().filter(|key| !found.contains_key(**key)) {
                    self.note(ErrorCode::Missing, item.span(), format!("[[{name}]] needs the key {key}"));
                }
            }
            tables.push(table);
        }
        tables
    }

    /// Sets each of `keys` that occurs in `table` or its `sections`. Names for which `is_skipped` returns true are ignored.
    fn set_keys<C>(
        &mut self,
        config: &mut C,
        keys: &'static [Key<C>],
        sections: &[Section],
        table: &DeTable<'_>,
        is_skipped: impl Fn(&str) -> bool,
    ) {
        let mut found = Vec::new();
        for (name, value) in table.iter().filter(|(name, _)| !is_skipped(name.get_ref())) {
            let section = sections.iter().any(|section| section.name == name.get_ref().as_ref());
            match value.get_ref() {
                DeValue::Table(table) if section => {
                    for (leaf, value) in table {
                        found.push((format!("{}.{}", name.get_ref(), leaf.get_ref()), leaf.span(), value));
                    }
                }
                _ if section => {
                    let message =
                        format!("{0} is a table; write [{0}] on its own line and its keys below", name.get_ref());
                    self.note(ErrorCode::WrongType, value.span(), message);
                }
                DeValue::Table(_) => {
                    self.note(ErrorCode::UnknownKey, name.span(), unknown_table(name.get_ref(), sections));
                }
                _ => found.push((name.get_ref().to_string(), name.span(), value)),
            }
        }
        // The parser sorts by name; report errors in file order.
        found.sort_by_key(|(_, span, _)| span.start);
        for (name, span, value) in found {
            let Some(key) = keys.iter().find(|key| key.name == name) else {
                self.note(ErrorCode::UnknownKey, span, unknown_key(&name, keys));
                continue;
            };
            match (key.set)(config, value.get_ref(), key.range.as_ref()) {
                Ok(()) => (key.locate)(config, &(self.locate)(value.span())),
                Err(problem) => {
                    let (code, message) = describe(key, problem);
                    self.note(code, value.span(), message);
                }
            }
        }
    }
}

fn describe<C>(key: &Key<C>, problem: ValueError) -> (ErrorCode, String) {
    match problem {
        ValueError::Type(text) => (ErrorCode::WrongType, format!("{}: {text}", key.name)),
        ValueError::Range(text) => (ErrorCode::OutOfRange, format!("{}: {text}", key.name)),
    }
}

fn unknown_key<C>(name: &str, keys: &'static [Key<C>]) -> String {
    let shown = name.escape_debug();
    // If the table is missing, compare with the last part of the full name.
    let by_leaf = || keys.iter().find(|key| key.leaf() == name).map(|key| key.name);
    match by_leaf().or_else(|| nearest(name, keys.iter().map(|key| key.name))) {
        _ if name == "bridges" => "there is no table [[bridges]]; did you mean [[bridge]]?".to_owned(),
        _ if name == "listeners" => "there is no table [[listeners]]; did you mean [[listener]]?".to_owned(),
        Some(known) => format!("there is no key {shown}; did you mean {known}?"),
        None => format!("there is no key {shown}; `tautwire config show` lists all keys"),
    }
}

fn unknown_table(name: &str, sections: &[Section]) -> String {
    let shown = name.escape_debug();
    match nearest(name, sections.iter().map(|section| section.name)) {
        Some(known) => format!("there is no table [{shown}]; did you mean [{known}]?"),
        None => {
            format!("there is no table [{shown}]; `tautwire config show` lists all tables and keys")
        }
    }
}

/// Line and column of a byte offset, both counted from 1, the column in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
