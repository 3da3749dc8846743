//! A change of one contract in a folder, validated before anything is written.

use std::io;
use std::path::Path;

use ring::digest::{SHA256, digest};
use tautwire_contracts::{Catalogue, ErrorCode, Files, LoadError, LoadLimits, MANAGED};

use super::entry::Entry;
use super::folder;

/// First lines of written files.
const HEADER: &str = "# Written by the broker. Overrides a contract with this name elsewhere in the folder.\n";
const REMOVED: &str =
    "# Written by the broker: the contract with this name elsewhere in the folder is removed.\nremoved = true\n";

/// Files to write and to remove, and the resulting contracts.
pub(crate) struct Change {
    pub(crate) catalogue: Catalogue,
    /// Schemas first, so that a manifest never names a missing one.
    writes: Vec<(String, String)>,
    removals: Vec<String>,
}

impl Change {
    /// Adds or replaces the contract `name`.
    ///
    /// # Errors
    /// All errors that the folder would contain.
    pub(crate) fn put(mut files: Files, name: &str, entry: &Entry) -> Result<Change, Vec<LoadError>> {
        let mut writes = Vec::new();
        let schema = match &entry.schema {
            Some(text) => {
                let file = format!("{MANAGED}{}.{}", sha256(text), entry.extension(text));
                files.insert(file.clone(), text.clone());
                writes.push((file.clone(), text.clone()));
                file
            }
            None => entry.schema_file.clone().unwrap_or_default(),
        };
        let manifest = manifest(name)?;
        let text = format!("{HEADER}{}", entry.to_toml(&schema));
        files.insert(manifest.clone(), text.clone());
        writes.push((manifest.clone(), text));
        let relocate = |mut error: LoadError| {
            if error.file == manifest {
                // The caller does not know this file; the message names the key.
                (error.file, error.position) = ("request".to_owned(), None);
            } else if entry.schema.is_some() && error.file == schema {
                error.file = entry.schema_file.clone().unwrap_or_else(|| "schema".to_owned());
            }
            error
        };
        Change::checked(files, writes, Vec::new()).map_err(|errors| errors.into_iter().map(relocate).collect())
    }

    /// Removes the contract `name`; `None` if there is none.
    ///
    /// # Errors
    /// All errors that the folder would contain.
    pub(crate) fn remove(mut files: Files, name: &str) -> Result<Option<Change>, Vec<LoadError>> {
        let limits = LoadLimits::default();
        let Ok(manifest) = manifest(name) else { return Ok(None) };
        if Catalogue::load(&files, &limits)?.named(name).is_none() {
            return Ok(None);
        }
        files.remove(&manifest);
        let is_elsewhere = Catalogue::load(&files, &limits).map_or(true, |rest| rest.named(name).is_some());
        let change = if is_elsewhere {
            files.insert(manifest.clone(), REMOVED.to_owned());
            Change::checked(files, vec![(manifest, REMOVED.to_owned())], Vec::new())
        } else {
            Change::checked(files, Vec::new(), vec![manifest])
        };
        change.map(Some)
    }

    fn checked(
        files: Files,
        writes: Vec<(String, String)>,
        mut removals: Vec<String>,
    ) -> Result<Change, Vec<LoadError>> {
        let catalogue = Catalogue::load(&files, &LoadLimits::default())?;
        let is_schema = |file: &&String| file.starts_with(MANAGED) && !file.ends_with(".toml");
        let is_used = |file: &str| catalogue.contracts().iter().any(|contract| *contract.schema().file == *file);
        removals.extend(files.keys().filter(is_schema).filter(|file| !is_used(file)).cloned());
        Ok(Change { catalogue, writes, removals })
    }

    /// The files after the change, given those for which it was made.
    pub(crate) fn applied_to(self, mut files: Files) -> Files {
        files.extend(self.writes);
        files.retain(|file, _| !self.removals.contains(file));
        files
    }

    /// Writes the change. If it fails midway, the contracts are the old or the new ones.
    pub(crate) fn apply(&self, folder: &Path) -> io::Result<()> {
        for (file, text) in &self.writes {
            folder::write(&folder.join(file), text)?;
        }
        for file in &self.removals {
            let removed = folder::remove(&folder.join(file));
            // An unused schema may stay.
            if file.ends_with(".toml") {
                removed?;
            }
        }
        Ok(())
    }
}

/// The file of a contract.
fn manifest(name: &str) -> Result<String, Vec<LoadError>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > NAME_MAX_BYTES || !name.bytes().all(is_plain) {
        let message = format!("name must have 1 to {NAME_MAX_BYTES} letters, digits, _ and -");
        return Err(vec![LoadError { code: ErrorCode::Value, file: "request".to_owned(), position: None, message }]);
    }
    Ok(format!("{MANAGED}{name}.toml"))
}

/// The same limit as in `contracts.toml`.
const NAME_MAX_BYTES: usize = 64;

fn sha256(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn files(own: &[(&str, &str)]) -> Files {
        own.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn entry(text: &str) -> Entry {
        Entry::from_json(&parse(text).expect("JSON")).expect("an entry")
    }

    fn names(change: &Change) -> Vec<&str> {
        change.catalogue.contracts().iter().map(|contract| contract.name()).collect()
    }

    const OWN: [(&str, &str); 2] = [
        ("contracts.toml", "[[contract]]\nname = \"a\"\ntopics = \"a\"\nformat = \"json\"\nschema = \"a.json\"\n"),
        ("a.json", "{}"),
    ];

    #[test]
    fn an_added_contract_has_a_manifest_and_a_content_addressed_schema() {
        let entry = entry(r#"{"topics": "b", "format": "json", "schema": "{\"type\": \"object\"}"}"#);
        let change = Change::put(files(&OWN), "b", &entry).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(names(&change), ["a", "b"]);
        let [(schema, _), (manifest, text)] = change.writes.as_slice() else { panic!("{:?}", change.writes) };
        assert!(schema.starts_with("managed/") && schema.ends_with(".json") && schema.len() == 8 + 64 + 5, "{schema}");
        assert_eq!(manifest, "managed/b.toml");
        assert!(text.ends_with(&format!("schema = \"{schema}\"\n")), "{text}");
    }

    #[test]
    fn an_unused_schema_is_deleted() {
        let mut own = files(&OWN);
        own.insert("managed/old.json".to_owned(), "{}".to_owned());
        let entry = entry(r#"{"topics": "b", "format": "json", "schema": "{}"}"#);
        let change = Change::put(own, "b", &entry).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(change.removals, ["managed/old.json"]);
    }

    #[test]
    fn errors_use_the_terms_of_the_request() {
        let format_errors = |text: &str| match Change::put(files(&OWN), "b", &entry(text)) {
            Ok(_) => panic!("not refused"),
            Err(errors) => errors[0].to_string(),
        };
        let schema = r#"{"topics": "b", "format": "protobuf", "schema": "syntax = \"proto3\";\nmessage M { strin a = 1; }", "schema_file": "m.proto"}"#;
        assert!(format_errors(schema).starts_with("m.proto:2:"), "{}", format_errors(schema));
        let topics = r#"{"topics": "a/#/b", "format": "json", "schema": "{}"}"#;
        assert!(format_errors(topics).starts_with("request: topics: "), "{}", format_errors(topics));
        let overlap = r##"{"topics": "#", "format": "json", "schema": "{}"}"##;
        assert!(format_errors(overlap).contains("contract_overlap"), "{}", format_errors(overlap));
    }

    #[test]
    fn a_removed_file_contract_is_hidden_and_an_added_one_deleted() {
        let removed =
            |files: Files, name: &str| Change::remove(files, name).unwrap_or_else(|errors| panic!("{errors:?}"));
        let change = removed(files(&OWN), "a").expect("it is there");
        assert_eq!(change.writes, [("managed/a.toml".to_owned(), REMOVED.to_owned())]);
        assert!(change.catalogue.contracts().is_empty());
        let mut own = files(&OWN);
        own.insert("managed/b.toml".to_owned(), "topics = \"b\"\nformat = \"json\"\nschema = \"a.json\"\n".to_owned());
        let change = removed(own.clone(), "b").expect("it is there");
        assert_eq!((change.writes.len(), change.removals.as_slice()), (0, &["managed/b.toml".to_owned()][..]));
        assert!(removed(own, "c").is_none());
    }
}
