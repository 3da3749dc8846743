//! The file with the bans that hold, so that a restart does not forget them.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use tautwire_identity::limits::BAN_REASON_BYTES_MAX;
use tautwire_identity::{Ban, BanTarget};

use crate::contracts::write_file;
use crate::json::{self, Value, push_string};

/// Its name in the data directory.
pub(crate) const NAME: &str = "bans.json";

/// Bans as an object of JSON.
pub(crate) fn to_json(bans: &[Ban]) -> String {
    let mut body = String::from("{\"bans\":[");
    for (at, Ban { who, until_unix_s, why }) in bans.iter().enumerate() {
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
        body.push_str(",\"why\":");
        push_string(&mut body, why);
        body.push('}');
    }
    body.push_str("]}\n");
    body
}

/// Who is meant by an object: it has one of `client_id`, `user` and `network`.
///
/// # Errors
/// `None` where it has not; why the network is none.
pub(crate) fn banned(value: &Value) -> Result<BanTarget, Option<String>> {
    let named = |name: &str| value.get(name).and_then(Value::as_text).filter(|text| !text.is_empty());
    match (named("client_id"), named("user"), named("network")) {
        (Some(name), None, None) => Ok(BanTarget::ClientId(name.into())),
        (None, Some(name), None) => Ok(BanTarget::User(name.into())),
        (None, None, Some(network)) => network.parse().map(BanTarget::Network).map_err(Some),
        _ => Err(None),
    }
}

/// Reads the bans of a file; none where there is no file.
///
/// # Errors
/// It cannot be read, or is not such a file.
pub(crate) fn read(path: &Path) -> Result<Vec<Ban>, String> {
    let wrong =
        |why: &str| format!("{}: {why}; put it right, or move it away to ban nobody [bans_file]", path.display());
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        // There is nothing to be seen of the directory: whoever opens it says what is wrong with it, and the broker does not start.
        Err(_) if std::fs::symlink_metadata(path).is_err() => return Ok(Vec::new()),
        Err(error) => return Err(wrong(&format!("cannot be read: {error}"))),
    };
    parse(&text).map_err(|why| wrong(&why))
}

/// The bans of such a text.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Vec<Ban>, String> {
    let value = json::parse(text).map_err(|error| format!("is no JSON at byte {}", error.offset))?;
    let ban = |value: &Value| {
        let until_unix_s = match value.get("until_unix_s") {
            Some(Value::Number(text)) => Some(text.parse().ok()?),
            _ => None,
        };
        let why = value.text("why");
        (why.len() <= BAN_REASON_BYTES_MAX).then_some(Ban { who: banned(value).ok()?, until_unix_s, why: why.into() })
    };
    if !matches!(value.get("bans"), Some(Value::List(_))) {
        return Err("has no list of bans".to_owned());
    }
    value.list("bans").iter().map(ban).collect::<Option<_>>().ok_or_else(|| "has something that is no ban".to_owned())
}

/// Where bans are kept.
#[derive(Debug)]
pub(crate) struct BanFile {
    path: PathBuf,
    /// How many bans rules had made when the file was last written.
    by_rule: u64,
}

impl BanFile {
    /// Before rules have made any.
    pub(crate) fn new(path: PathBuf) -> BanFile {
        BanFile { path, by_rule: 0 }
    }

    /// Whether the file lacks a ban by rule. `by_rule`: how many rules have made so far.
    pub(crate) fn is_out_of_date(&self, by_rule: u64) -> bool {
        self.by_rule != by_rule
    }

    /// Replaces what is kept. `by_rule`: how many bans rules had made before `bans` were listed.
    ///
    /// # Errors
    /// It cannot be written; what was kept before is kept still.
    pub(crate) fn write(&mut self, bans: &[Ban], by_rule: u64) -> Result<(), String> {
        let path = &self.path;
        write_file(path, &to_json(bans)).map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        self.by_rule = by_rule;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_what_is_wrong_is_not_taken() {
        let folder = std::env::temp_dir().join(format!("tautwire-bans-{}", std::process::id()));
        let path = folder.join(NAME);
        assert_eq!(read(&path), Ok(Vec::new()));
        let ban = |who, until_unix_s| Ban { who, until_unix_s, why: "a \"reason\"\n".into() };
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
