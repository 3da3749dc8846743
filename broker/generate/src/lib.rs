//! Generates source code from contracts: types and typed functions for clients in five languages, and AsyncAPI documents.
//!
//! There is no I/O: a catalogue goes in, the texts of files come out. Equal catalogues give equal texts.
#![forbid(unsafe_code)]

mod asyncapi;
mod c;
mod code;
mod go;
mod model;
mod names;
mod python;
mod rust;
mod typescript;

use std::collections::BTreeMap;
use std::fmt;

use tautwire_contracts::Catalogue;

pub use asyncapi::{Document, asyncapi};

/// The texts of files, by file name.
pub type Sources = BTreeMap<String, String>;

/// A target language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// ES modules for `@tautwire/client`.
    TypeScript,
    /// One package.
    Go,
    /// One module, on `tautwire-client`.
    Rust,
    /// One package, on `tautwire`.
    Python,
    /// C99 on `tautwire.h`: no allocation.
    C,
}

/// Options of the generator.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name of the Go package, and the prefix of all names in C.
    pub package: String,
    /// Rust and Python: functions for the blocking client instead of the async one.
    pub blocking: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { package: "contracts".to_owned(), blocking: false }
    }
}

/// Contracts for which no code can be generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerateError {
    /// The contract, or the option.
    pub place: String,
    /// The fault, and what to do.
    pub why: String,
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [generate]", self.place, self.why)
    }
}

impl std::error::Error for GenerateError {}

impl Language {
    /// All languages, with their names on the command line.
    pub const ALL: [(&'static str, Language); 5] = [
        ("typescript", Language::TypeScript),
        ("go", Language::Go),
        ("rust", Language::Rust),
        ("python", Language::Python),
        ("c", Language::C),
    ];
}

/// Generates types and typed functions for all contracts of a catalogue.
///
/// # Errors
/// A catalogue without contracts, an invalid package name, a schema that cannot be decoded.
pub fn generate(catalogue: &Catalogue, language: Language, options: &Options) -> Result<Sources, GenerateError> {
    if !names::is_package(&options.package) {
        return Err(GenerateError {
            place: format!("package {:?}", options.package),
            why: "a package name must have only lower case letters, digits and _, and begin with a letter".to_owned(),
        });
    }
    let api = model::Api::new(catalogue)?;
    Ok(match language {
        Language::TypeScript => typescript::generate(&api),
        Language::Go => go::generate(&api, &options.package),
        Language::Rust => rust::generate(&api, options.blocking),
        Language::Python => python::generate(&api, options.blocking),
        Language::C => c::generate(&api, &options.package),
    })
}

#[cfg(test)]
mod tests {
    use tautwire_contracts::{Files, LoadLimits};

    use super::*;

    const SCHEMA: &str = "syntax = \"proto3\"; message Reading { string device_id = 1; Reading inner = 2; }";

    fn catalogue(files: &[(&str, &str)]) -> Catalogue {
        let files: Files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Catalogue::load(&files, &LoadLimits::default()).expect("valid contracts")
    }

    fn manifest(contracts: &[&str]) -> String {
        let one = |name: &&str| {
            format!(
                "[[contract]]\nname = \"{name}\"\ntopics = \"{name}/{{id}}\"\nformat = \"protobuf\"\nschema = \"a.proto\"\n"
            )
        };
        contracts.iter().map(one).collect()
    }

    #[test]
    fn the_order_of_contracts_in_their_file_does_not_matter() {
        let generated = |names: &[&str]| {
            let catalogue = catalogue(&[("contracts.toml", &manifest(names)), ("a.proto", SCHEMA)]);
            let sources = Language::ALL.map(|(_, language)| generate(&catalogue, language, &Options::default()));
            (sources, asyncapi(&catalogue, &Document::default()))
        };
        assert_eq!(generated(&["a", "b", "c"]), generated(&["c", "a", "b"]));
    }

    #[test]
    fn contracts_of_one_message_share_its_type() {
        let catalogue = catalogue(&[("contracts.toml", &manifest(&["a", "b"])), ("a.proto", SCHEMA)]);
        let sources = generate(&catalogue, Language::Rust, &Options::default()).expect("it can be generated");
        assert_eq!(sources["types.rs"].matches("pub struct Reading ").count(), 1);
        assert!(sources["types.rs"].contains("pub inner: Option<Box<Reading>>"));
        assert!(!sources.contains_key("json.rs"), "no contract is in JSON");
    }

    #[test]
    fn unsupported_schemas_are_reported() {
        let one = catalogue(&[("contracts.toml", &manifest(&["a"])), ("a.proto", SCHEMA)]);
        for package in ["", "Upper", "1st", "a-b", "func", "ä"] {
            let options = Options { package: package.to_owned(), ..Options::default() };
            let error = generate(&one, Language::Go, &options).expect_err("an invalid name");
            assert!(error.to_string().contains("a package name must have only lower case letters"), "{error}");
        }
        let error = generate(&catalogue(&[]), Language::C, &Options::default()).expect_err("there are no contracts");
        assert_eq!(error.to_string(), "the folder: it has no contracts; add them to contracts.toml [generate]");
    }
}
