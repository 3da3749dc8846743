//! Commands that use the admin API of a running broker.

pub(super) mod bans;
pub(super) mod bridges;
pub(super) mod clients;
pub(super) mod cluster;
pub(super) mod retained;
pub(super) mod rules;
pub(super) mod shared;
pub(super) mod state;
pub(super) mod tap;
pub(super) mod top;
pub(super) mod why;

use std::io::BufRead;
use std::path::PathBuf;

use super::arguments::{Argument, Arguments, Command, OptionSpec, flag};
use super::contract::http::{AdminClient, ApiResponse};
use super::contract::source::{ADMIN, CA, TOKEN_FILE};
use super::{CommandExit, Exit};
use crate::json::{self, Value};
use crate::time::UtcTime;

const JSON: OptionSpec = flag(None, "json", "Print the raw response of the admin API.");

const MOUNT_POINT: OptionSpec =
    super::arguments::value(None, "mount-point", "PREFIX", "The mount point of the client.");

const EXITS: &str = "Exit codes: 0 done; 1 invalid arguments; 2 no connection to the broker; 3 refused, or not found.";

/// The common options of these commands, and the other arguments.
#[derive(Debug, Default)]
struct RemoteArguments {
    admin: Option<String>,
    token_file: Option<PathBuf>,
    ca: Option<PathBuf>,
    json: bool,
    words: Vec<String>,
    /// The query parameters.
    query: Vec<(&'static str, String)>,
}

impl RemoteArguments {
    /// Reads all arguments; `take` handles the options specific to a command.
    fn read(
        arguments: &mut Arguments,
        mut take: impl FnMut(&mut RemoteArguments, &'static str, &mut Arguments) -> Result<(), CommandExit>,
    ) -> Result<RemoteArguments, CommandExit> {
        let mut given = RemoteArguments::default();
        while let Some(argument) = arguments.next()? {
            match argument {
                Argument::Option("admin") => given.admin = Some(arguments.string()?),
                Argument::Option("token-file") => given.token_file = Some(arguments.os_string()?.into()),
                Argument::Option("ca") => given.ca = Some(arguments.os_string()?.into()),
                Argument::Option("json") => given.json = true,
                Argument::Option("mount-point") => given.query.push(("mount_point", arguments.string()?)),
                Argument::Option(name) => take(&mut given, name, arguments)?,
                Argument::Positional(word) => given.words.push(word),
            }
        }
        Ok(given)
    }

    /// The positional arguments, such as the client identifier; `expected` describes them in the error message.
    fn word<const N: usize>(&self, arguments: &Arguments, expected: &str) -> Result<[&str; N], CommandExit> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        words.try_into().map_err(|_| arguments.command_failure(&format!("expected {expected}")))
    }

    /// Sends a request to `path` with the query; a refusal is an error.
    fn request(&self, arguments: &Arguments, method: &str, path: &str) -> Result<ApiResponse, CommandExit> {
        self.request_with_body(arguments, method, path, "")
    }

    /// Sends a request with a body.
    fn request_with_body(
        &self,
        arguments: &Arguments,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<ApiResponse, CommandExit> {
        let response = self.api(arguments)?.request(method, &self.with_query(path), body)?;
        if response.status < 300 { Ok(response) } else { Err(response.refusal()) }
    }

    /// Gets `path` with the query as a stream.
    fn open(&self, arguments: &Arguments, path: &str) -> Result<impl BufRead + use<>, CommandExit> {
        self.api(arguments)?.open_stream(&self.with_query(path))
    }

    fn api(&self, arguments: &Arguments) -> Result<AdminClient, CommandExit> {
        let (Some(url), Some(file)) = (&self.admin, &self.token_file) else {
            return Err(arguments.command_failure("--admin and --token-file are required"));
        };
        AdminClient::open(url, file, self.ca.as_deref()).map_err(|error| arguments.command_failure(&error))
    }

    fn with_query(&self, path: &str) -> String {
        let query: Vec<String> =
            self.query.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        let separator = if query.is_empty() { "" } else { "?" };
        format!("{path}{separator}{}", query.join("&"))
    }
}

fn parsed(response: &ApiResponse) -> Result<Value, CommandExit> {
    json::parse(&response.body).map_err(|error| {
        CommandExit::failure(Exit::Connection, format!("invalid response from the admin API: {}", error.message))
    })
}

/// Percent-encodes text for a URL.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Formats a scalar for people.
fn shown(value: Option<&Value>) -> String {
    match value {
        Some(Value::Text(text)) => text.chars().filter(|character| !character.is_control()).collect(),
        Some(Value::Number(number)) => number.clone(),
        Some(Value::Bool(flag)) => (if *flag { "yes" } else { "no" }).to_owned(),
        Some(Value::List(items)) => items.iter().map(|item| shown(Some(item))).collect::<Vec<_>>().join(", "),
        Some(Value::Null | Value::Object(_)) | None => "-".to_owned(),
    }
}

/// A value as JSON on one line.
fn compact(value: &Value) -> String {
    let mut text = String::new();
    value.push_json(&mut text);
    text
}

/// Formats a time; `in_a_second` is the number of its units per second.
fn moment(value: Option<&Value>, in_a_second: u64) -> String {
    match value {
        Some(Value::Number(number)) => number
            .parse::<u64>()
            .map_or_else(|_| number.clone(), |number| UtcTime::from_unix(number / in_a_second, 0).to_rfc3339()),
        other => shown(other),
    }
}

/// A table with headings and aligned columns.
fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(&mut headings.iter().copied());
    rows.iter().for_each(|row| text.push_str(&line(&mut row.iter().map(String::as_str))));
    text
}

fn wrong_group(command: &[&'static Command], given: Option<&str>) -> CommandExit {
    let names: Vec<String> = command.iter().map(|command| format!("`tautwire {}`", command.name)).collect();
    match given {
        Some("--help") => {
            CommandExit::Text(command.iter().map(|command| command.help()).collect::<Vec<_>>().join("\n"))
        }
        _ => CommandExit::failure(Exit::Usage, format!("write {}", names.join(" or "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["long name".to_owned(), "2".to_owned()]];
        assert_eq!(table(&["name", "n"], &rows), "name       n\na          1\nlong name  2\n");
    }

    #[test]
    fn a_value_is_printed_as_it_was_parsed() {
        for text in [r#"{"a":[1,-2.5e3,true,null,"x\"\n"],"b":{}}"#, "[]", "\"\""] {
            assert_eq!(compact(&json::parse(text).expect("it is JSON")), text);
        }
    }

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(percent_encoded("a/b é~"), "a%2Fb%20%C3%A9~");
    }
}
