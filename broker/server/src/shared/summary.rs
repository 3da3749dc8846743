//! A revision in the form of the admin API.

use ring::digest::{SHA256, digest};
use tautwire_contracts::Files;

use super::{Part, Parts};
use crate::fields::{Fields, Value};
use crate::json::push_string;

/// The size and a digest of each part, for comparison with files; not the content.
pub(crate) fn summary(parts: &Parts) -> Fields {
    let mut summary = Fields::default();
    for (part, text) in parts.texts() {
        summary.add(part.name(), text_summary(text));
    }
    if let Some(files) = &parts.contracts {
        let file = |(path, text): (&String, &String)| text_summary(text).with("path", path.as_str());
        let all: usize = files.values().map(String::len).sum();
        let files: Vec<Fields> = files.iter().map(file).collect();
        summary.add(Part::Contracts.name(), Fields::default().with("bytes", all).with("files", files));
    }
    summary
}

fn text_summary(text: &str) -> Fields {
    let digest: String = digest(&SHA256, text.as_ref()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Fields::default().with("bytes", text.len()).with("sha256", digest)
}

/// The full content of the parts, in the form of a request.
pub(crate) fn content(parts: &Parts) -> Value {
    let mut members = Vec::new();
    members.extend(parts.texts().map(|(part, text)| (part.name(), json_text(text))));
    members.extend(parts.contracts.as_ref().map(|files| (Part::Contracts.name(), json_files(files))));
    Value::Json(json_object(members))
}

fn json_files(files: &Files) -> String {
    json_object(files.iter().map(|(path, text)| (path.as_str(), json_text(text))))
}

fn json_object<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut json = String::from("{");
    for (at, (name, value)) in members.into_iter().enumerate() {
        json.push_str(if at > 0 { "," } else { "" });
        push_string(&mut json, name);
        json.push(':');
        json.push_str(&value);
    }
    json.push('}');
    json
}

fn json_text(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    push_string(&mut json, text);
    json
}

#[cfg(test)]
mod tests {
    use super::super::RevisionChanges;
    use super::*;
    use crate::json;

    fn parts() -> Parts {
        let contracts = [("a.json".to_owned(), "{}".to_owned()), ("b/c.proto".to_owned(), "\"\n".to_owned())];
        let some = |text: &str| Some(text.to_owned());
        Parts { acl: some("rules"), users: some("ann:$hash"), contracts: Some(contracts.into()), bans: some("{}") }
    }

    #[test]
    fn the_summary_has_sizes_and_no_password_hashes() {
        let mut json = String::new();
        summary(&parts()).push_json(&mut json);
        let value = json::parse(&json).expect("JSON");
        let bytes = |part: &str| value.get(part).and_then(|part| part.get("bytes")).cloned();
        assert_eq!(bytes("users"), Some(json::Value::Number("9".to_owned())));
        assert_eq!(bytes("contracts"), Some(json::Value::Number("4".to_owned())));
        assert!(!json.contains("hash") && !json.contains("ann"), "{json}");
    }

    #[test]
    fn the_content_is_a_change_that_restores_the_same_parts() {
        let Value::Json(json) = content(&parts()) else { panic!("no JSON") };
        let changes =
            RevisionChanges::from_json(&json::parse(&json).expect("JSON")).unwrap_or_else(|why| panic!("{why}"));
        assert!(changes.applied_to(Parts::default()) == parts());
    }
}
