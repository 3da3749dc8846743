//! The files that a configuration refers to.

use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

use super::registry::Key;
use super::settings::KEYS;
use super::{Config, bridge_config, listener_config};

/// Paths that the broker writes to; their content is not configuration.
const WRITTEN: &[&str] = &["data.path", "audit.file"];

impl Config {
    /// Files and directories that a reload reads, besides the configuration itself.
    pub(crate) fn referenced_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for key in KEYS.iter().filter(|key| !WRITTEN.contains(&key.name)) {
            push_paths(&mut found, key, self);
        }
        for (table, _) in self.tables() {
            listener_config::KEYS.iter().for_each(|key| push_paths(&mut found, key, table));
        }
        for table in &self.bridge {
            bridge_config::KEYS.iter().for_each(|key| push_paths(&mut found, key, table));
        }
        found
    }
}

fn push_paths<C>(found: &mut Vec<PathBuf>, key: &Key<C>, config: &C) {
    if !key.accepts().starts_with("path") {
        return;
    }
    let shown = format!("it = {}", (key.show)(config));
    let Ok(table) = DeTable::parse(&shown) else { return };
    let Some(value) = table.get_ref().get("it") else { return };
    let mut push = |value: &DeValue<'_>| {
        if let Some(path) = value.as_str().filter(|path| !path.is_empty()) {
            found.push(PathBuf::from(path));
        }
    };
    match value.get_ref() {
        DeValue::Array(paths) => paths.iter().for_each(|path| push(path.get_ref())),
        path => push(path),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::source;
    use super::*;

    #[test]
    fn every_referenced_file_is_listed() {
        let mut config = Config::default();
        let text = "[tls]\ncertificate = [\"/a.pem\", \"/b.pem\"]\nkey = [\"/a.key\", \"/b.key\"]\n[acl]\nfile = \"/rules\"\n\
             [audit]\nfile = \"/log\"\n[data]\npath = \"/state\"\n[contracts]\npath = \"/contracts\"\n\
             [[listener]]\naddress = \"mqtts://127.0.0.1:0\"\ntls.client_ca = \"/ca.pem\"\n";
        let mut errors = Vec::new();
        source::apply_file(&mut config, Path::new("tautwire.toml"), text, &mut errors);
        assert_eq!(errors, []);
        let files = config.referenced_files();
        let expected = ["/a.pem", "/b.pem", "/a.key", "/b.key", "/rules", "/contracts", "/ca.pem"];
        assert!(expected.iter().all(|path| files.iter().any(|file| file == Path::new(path))), "{files:?}");
        assert_eq!(files.len(), expected.len(), "{files:?}");
    }
}
