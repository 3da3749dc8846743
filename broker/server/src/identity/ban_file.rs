//! The file of active bans, so that they survive a restart.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use tautwire_identity::limits::BAN_REASON_BYTES_MAX;
use tautwire_identity::{Ban, BanTarget};

use crate::contracts::write_file;
use crate::json::{self, Value, push_string};

/// The file name in the data directory.
pub(crate) const NAME: &str = "bans.json";

/// Encodes bans as a JSON object.
pub(crate) fn to_json(bans: &[Ban]) -> String {
    let mut body = String::from("{\"bans\":[");
    for (at, Ban { who, until_unix_s, reason }) in bans.iter().enumerate() {
        body.push_str(if at > 0 { ",{" } else { "{" });
        let (kind, name) = match who {
            BanTarget::ClientId(name) => ("client_id", name.to_string()),
            BanTarget::User(name) => ("user", name.to_string()),
            BanTarget::Network(network) => ("network", network.to_string()),
        };
        push_string(&mut body, kind);
        body.push(':');
        push_string(&mut body, &name);
        match until_unix_s {
            Some(until) => _ = write!(body, ",\"until_unix_s\":{until}"),
            None => body.push_str(",\"until_unix_s\":null"),
        }
        body.push_str(",\"reason\":");
        push_string(&mut body, reason);
        body.push('}');
    }
    body.push_str("]}\n");
    body
}

/// Reads the target of a ban: an object with one of `client_id`, `user` and `network`.
///
/// # Errors
/// `None` if it has none or several of them; the reason if the network is invalid.
pub(crate) fn banned(value: &Value) -> Result<BanTarget, Option<String>> {
    let named = |name: &str| value.get(name).and_then(Value::as_text).filter(|text| !text.is_empty());
    match (named("client_id"), named("user"), named("network")) {
        (Some(name), None, None) => Ok(BanTarget::ClientId(name.into())),
        (None, Some(name), None) => Ok(BanTarget::User(name.into())),
        (None, None, Some(network)) => network.parse().map(BanTarget::Network).map_err(Some),
        _ => Err(None),
    }
}

/// Reads the bans of a file; none if there is no file.
///
/// # Errors
/// The file cannot be read, or is not a ban file.
pub(crate) fn read(path: &Path) -> Result<Vec<Ban>, String> {
    let describe = |why: &str| {
        format!("{}: {why}; fix the file, or move it away to start without bans [bans_file]", path.display())
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        // The directory itself cannot be read: opening it later reports the error, and the broker does not start.
        Err(_) if std::fs::symlink_metadata(path).is_err() => return Ok(Vec::new()),
        Err(error) => return Err(describe(&format!("cannot be read: {error}"))),
    };
    parse(&text).map_err(|why| describe(&why))
}

/// Parses the text of a ban file.
///
/// # Errors
/// The reason why the text is invalid.
pub(crate) fn parse(text: &str) -> Result<Vec<Ban>, String> {
    let value = json::parse(text).map_err(|error| format!("not valid JSON at byte {}", error.offset))?;
    let ban = |value: &Value| {
        let until_unix_s = match value.get("until_unix_s") {
            Some(Value::Number(text)) => Some(text.parse().ok()?),
            _ => None,
        };
        let why = value.text("reason");
        (why.len() <= BAN_REASON_BYTES_MAX).then_some(Ban {
            who: banned(value).ok()?,
            until_unix_s,
            reason: why.into(),
        })
    };
    if !matches!(value.get("bans"), Some(Value::List(_))) {
        return Err("the list `bans` is missing".to_owned());
    }
    value.list("bans").iter().map(ban).collect::<Option<_>>().ok_or_else(|| "it has an invalid ban".to_owned())
}

/// The file that persists bans.
#[derive(Debug)]
pub(crate) struct BanFile {
    path: PathBuf,
    /// The number of bans made by rules when the file was last written.
    by_rule: u64,
}

impl BanFile {
    /// Creates the state before any ban is made by a rule.
    pub(crate) fn new(path: PathBuf) -> BanFile {
        BanFile { path, by_rule: 0 }
    }

    /// Whether the file lacks a ban made by a rule. `by_rule`: the number of such bans so far.
    pub(crate) fn is_out_of_date(&self, by_rule: u64) -> bool {
        self.by_rule != by_rule
    }

    /// Replaces the file. `by_rule`: the number of bans made by rules before `bans` were listed.
    ///
    /// # Errors
    /// The file cannot be written; the old file remains.
    pub(crate) fn write(&mut self, bans: &[Ban], by_rule: u64) -> Result<(), String> {
        let path = &self.path;
        write_file(path, &to_json(bans)).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        self.by_rule = by_rule;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_round_trip_and_invalid_ones_are_skipped() {
        let folder = std::env::temp_dir().join(format!("tautwire-bans-{}", std::process::id()));
        let path = folder.join(NAME);
        assert_eq!(read(&path), Ok(Vec::new()));
        let ban = |who, until_unix_s| Ban { who, until_unix_s, reason: "a \"reason\"\n".into() };
        let bans = vec![
            ban(BanTarget::ClientId("c\u{7}".into()), None),
            ban(BanTarget::User("ü".into()), Some(u64::MAX)),
            ban(BanTarget::Network("2001:db8::/32".parse().expect("a network")), Some(7)),
        ];
        let mut file = BanFile::new(path.clone());
        file.write(&bans, 1).expect("it is written");
        assert!(!file.is_out_of_date(1) && file.is_out_of_date(2));
        assert_eq!(read(&path), Ok(bans));
        for wrong in [
            "",
            "{}",
            "{\"bans\":[{\"user\":\"\"}]}",
            "{\"bans\":[{\"network\":\"x\"}]}",
            "{\"bans\":[{\"user\":\"u\",\"until_unix_s\":-1}]}",
        ] {
            std::fs::write(&path, wrong).expect("it is written");
            let error = read(&path).expect_err(wrong);
            assert!(error.contains("bans_file"), "{error}");
        }
        let _ = std::fs::remove_dir_all(folder);
    }
}
