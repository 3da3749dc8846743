//! Contracts that were added or changed while the broker was running: one file for each, `managed/NAME.toml`.

use super::draft::Draft;
use super::error::LoadError;
use super::folder::{Files, MANAGED};
use super::manifest;

/// The content of one of the files.
pub(super) struct ManagedContract {
    name: String,
    /// `None` if the contract of that name is removed.
    draft: Option<Draft>,
}

/// Reads all of them; errors are appended to `errors`.
pub(super) fn read(files: &Files, errors: &mut Vec<LoadError>) -> Vec<ManagedContract> {
    let named = |file: &str| Some(file.strip_prefix(MANAGED)?.strip_suffix(".toml")?.to_owned());
    let mut all = Vec::new();
    for (file, text) in files {
        let Some(name) = named(file) else { continue };
        let before = errors.len();
        let draft = manifest::read_one(file, &name, text, errors);
        if errors.len() == before {
            all.push(ManagedContract { name, draft });
        }
    }
    all
}

/// Whether a schema must be compiled: those in `managed/` only if a contract there names them.
pub(super) fn is_used(managed: &[ManagedContract], schema: &str) -> bool {
    let names = |managed: &ManagedContract| managed.draft.as_ref().is_some_and(|draft| draft.schema == schema);
    !schema.starts_with(MANAGED) || managed.iter().any(names)
}

/// Replaces contracts with the same names.
pub(super) fn override_drafts(managed: Vec<ManagedContract>, drafts: &mut Vec<Draft>) {
    drafts.retain(|draft| !managed.iter().any(|managed| managed.name == draft.name));
    drafts.extend(managed.into_iter().filter_map(|managed| managed.draft));
}

#[cfg(test)]
mod tests {
    use crate::{Catalogue, Files, LoadLimits};

    fn load(files: &[(&str, &str)]) -> Result<Vec<String>, Vec<String>> {
        let files: Files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let said = |contract: &std::sync::Arc<crate::Contract>| {
            format!("{} {} {}", contract.name(), contract.topics().as_str(), contract.schema().file)
        };
        Catalogue::load(&files, &LoadLimits::default())
            .map(|catalogue| catalogue.contracts().iter().map(said).collect())
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    const OWN: (&str, &str) = (
        "contracts.toml",
        "[[contract]]\nname = \"a\"\ntopics = \"a\"\nformat = \"json\"\nschema = \"a.json\"\n\
         [[contract]]\nname = \"b\"\ntopics = \"b\"\nformat = \"json\"\nschema = \"a.json\"\n",
    );
    const SCHEMA: (&str, &str) = ("a.json", "{\"type\":\"object\"}");

    #[test]
    fn a_managed_file_replaces_the_contract_of_its_name_and_adds_others() {
        let over = ("managed/a.toml", "topics = \"other\"\nformat = \"json\"\nschema = \"managed/1.json\"\n");
        let more = ("managed/c.toml", "topics = \"c/#\"\nformat = [\"json\"]\nschema = \"a.json\"\n");
        let new = ("managed/1.json", "{}");
        let found = load(&[OWN, SCHEMA, over, more, new]).expect("loads");
        assert_eq!(found, ["a other managed/1.json", "b b a.json", "c c/# a.json"]);
    }

    #[test]
    fn a_contract_can_be_removed() {
        let gone = ("managed/a.toml", "removed = true\n");
        assert_eq!(load(&[OWN, SCHEMA, gone]).expect("loads"), ["b b a.json"]);
        let both = ("managed/a.toml", "removed = true\ntopics = \"a\"\n");
        assert_eq!(
            load(&[OWN, SCHEMA, both]).expect_err("refused"),
            ["managed/a.toml:1:11: removed = true must be the only key, or absent [contract_value]"]
        );
    }

    #[test]
    fn errors_name_their_file() {
        let wrong = ("managed/c.toml", "topics = \"c\"\nformat = \"xml\"\nschema = \"a.json\"\n");
        let errors = load(&[OWN, SCHEMA, wrong]).expect_err("refused");
        assert!(errors[0].starts_with("managed/c.toml:2:10: format must be one of"), "{errors:?}");
        let named = ("managed/c.toml", "name = \"d\"\ntopics = \"c\"\nformat = \"json\"\nschema = \"a.json\"\n");
        let errors = load(&[OWN, SCHEMA, named]).expect_err("refused");
        assert!(errors[0].contains("is for the contract c, but names d"), "{errors:?}");
    }

    #[test]
    fn unused_schemas_in_the_managed_folder_are_ignored() {
        let left = ("managed/2.proto", "syntax = \"proto3\"; import \"gone.proto\"; message M {}");
        assert_eq!(load(&[OWN, SCHEMA, left]).expect("loads").len(), 2);
    }
}
