//! A change of the shared configuration of a cluster, requested by an operator.

use tautwire_contracts::Files;

use super::{Part, Parts};
use crate::contracts;
use crate::json::Value;

/// Parts to replace or to remove. The others are unchanged.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct RevisionChanges {
    acl: PartChange<String>,
    users: PartChange<String>,
    contracts: PartChange<Files>,
    bans: PartChange<String>,
}

#[derive(Default, PartialEq, Eq)]
enum PartChange<T> {
    #[default]
    Unchanged,
    Removed,
    Replaced(T),
}

impl<T> PartChange<T> {
    fn apply(self, to: &mut Option<T>) {
        match self {
            PartChange::Unchanged => {}
            PartChange::Removed => *to = None,
            PartChange::Replaced(next) => *to = Some(next),
        }
    }

    fn read(value: &Value, read: impl FnOnce(&Value) -> Result<T, String>) -> Result<PartChange<T>, String> {
        if *value == Value::Null { Ok(PartChange::Removed) } else { read(value).map(PartChange::Replaced) }
    }
}

impl RevisionChanges {
    /// Parses the body of a request: an object with parts by name; `null` removes a part.
    ///
    /// # Errors
    /// A description of the error, without the content of parts.
    pub(crate) fn from_json(value: &Value) -> Result<RevisionChanges, String> {
        let Value::Object(members) = value else {
            return Err(format!("expected an object with parts, found {}", value.kind()));
        };
        let mut changes = RevisionChanges::default();
        for (at, (name, value)) in members.iter().enumerate() {
            if members[..at].iter().any(|(known, _)| known == name) {
                return Err(format!("{name} is given twice"));
            }
            match Part::of(name) {
                Some(Part::Acl) => changes.acl = PartChange::read(value, |value| text(name, value))?,
                Some(Part::Users) => changes.users = PartChange::read(value, |value| text(name, value))?,
                Some(Part::Contracts) => changes.contracts = PartChange::read(value, files)?,
                Some(Part::Bans) => changes.bans = PartChange::read(value, |value| text(name, value))?,
                None => {
                    let known = Part::ALL.map(Part::name).join(", ");
                    return Err(format!("unknown part {name}; valid parts are {known}"));
                }
            }
        }
        if changes == RevisionChanges::default() {
            return Err("the request names no part, so it changes nothing".to_owned());
        }
        Ok(changes)
    }

    /// Applies the changes to `parts`.
    pub(crate) fn applied_to(self, mut parts: Parts) -> Parts {
        let RevisionChanges { acl, users, contracts, bans } = self;
        acl.apply(&mut parts.acl);
        users.apply(&mut parts.users);
        contracts.apply(&mut parts.contracts);
        bans.apply(&mut parts.bans);
        parts
    }
}

fn text(name: &str, value: &Value) -> Result<String, String> {
    let Value::Text(text) = value else {
        return Err(format!("{name}: expected the text of the file or null, found {}", value.kind()));
    };
    Ok(text.clone())
}

fn files(value: &Value) -> Result<Files, String> {
    let Value::Object(members) = value else {
        return Err(format!("contracts: expected an object with the texts of files or null, found {}", value.kind()));
    };
    let mut files = Files::new();
    for (path, value) in members {
        if !contracts::is_file(path) {
            return Err(format!(
                "contracts: {path:?} is not a file of a contracts folder; valid are contracts.toml, .proto, .json and managed/*.toml"
            ));
        }
        if files.insert(path.clone(), text("contracts", value)?).is_some() {
            return Err(format!("contracts: {path} is given twice"));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn changes(text: &str) -> Result<RevisionChanges, String> {
        RevisionChanges::from_json(&parse(text).expect("JSON"))
    }

    #[test]
    fn unnamed_parts_are_unchanged() {
        let some = |text: &str| Some(text.to_owned());
        let before = Parts { acl: some("a"), users: some("u"), bans: some("b"), contracts: None };
        let changes =
            changes(r#"{"users": null, "contracts": {"a/b.json": "{}"}}"#).unwrap_or_else(|why| panic!("{why}"));
        let contracts = Some([("a/b.json".to_owned(), "{}".to_owned())].into());
        assert!(changes.applied_to(before) == Parts { acl: some("a"), users: None, bans: some("b"), contracts });
    }

    #[test]
    fn errors_do_not_contain_file_contents() {
        for (text, expected) in [
            ("[]", "expected an object with parts, found a list"),
            ("{}", "the request names no part"),
            (r#"{"rules": "x"}"#, "unknown part rules; valid parts are acl, users, contracts, bans"),
            (r#"{"acl": 1}"#, "acl: expected the text of the file or null, found a number"),
            (r#"{"acl": "a", "acl": "b"}"#, "acl is given twice"),
            (r#"{"contracts": "x"}"#, "contracts: expected an object with the texts of files or null"),
            (r#"{"contracts": {"../a.json": "{}"}}"#, "contracts: \"../a.json\" is not a file"),
            (r#"{"contracts": {"/a.json": "{}"}}"#, "contracts: \"/a.json\" is not a file"),
            (r#"{"contracts": {"a.txt": "{}"}}"#, "contracts: \"a.txt\" is not a file"),
        ] {
            let summary = changes(text).err().expect("refused");
            assert!(summary.starts_with(expected), "{text}: {summary}");
        }
    }
}
