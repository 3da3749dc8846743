//! The schemas of a folder, each compiled once.

use std::collections::BTreeMap;
use std::sync::Arc;

use miette::Diagnostic as _;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

use super::draft::Draft;
use super::error::{ErrorCode, LoadError, SourcePosition, position};
use super::folder::{Files, LoadLimits, MANAGED};
use super::options;
use crate::contract::Schema;
use crate::schema::{self, SchemaPlan};

pub(super) struct Schemas {
    files: Arc<Files>,
    compiled: BTreeMap<String, Compiled>,
}

struct Compiled {
    pool: DescriptorPool,
    descriptor_set: Box<[u8]>,
    /// The hash of the file's text and the descriptor set, shared by all contracts that use the file.
    sha256: Box<str>,
}

/// Resolves the files of the folder and the built-in ones. Nothing is read from a disk or a network.
struct MemoryResolver {
    files: Arc<Files>,
    nesting_max: usize,
    /// Whether the compiler gets what it needs to find the position of each error.
    with_places: bool,
}

impl FileResolver for MemoryResolver {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == options::FILE {
            return File::from_source(name, options::TEXT);
        }
        let text = self.files.get(name).ok_or_else(|| protox::Error::file_not_found(name))?;
        if nesting(text) > self.nesting_max {
            return Err(protox::Error::new(format!("{name}: nested deeper than {}", self.nesting_max)));
        }
        let file = File::from_source(name, text)?;
        if self.with_places {
            return Ok(file);
        }
        let mut file = prost_reflect::prost_types::FileDescriptorProto::from(file);
        file.source_code_info = None;
        Ok(File::from_file_descriptor_proto(file))
    }
}

/// Maximum number of errors of a file that get a position: each lookup scans the text from the start.
const PLACED_ERRORS_MAX: usize = 100;

impl Schemas {
    /// Compiles all `used` `.proto` files of the folder; errors are appended to `errors`.
    pub(super) fn new(
        files: &Files,
        used: impl Fn(&str) -> bool,
        limits: &LoadLimits,
        errors: &mut Vec<LoadError>,
    ) -> Schemas {
        let files = Arc::new(files.clone());
        let mut compiled = BTreeMap::new();
        for name in files.keys().filter(|name| name.ends_with(".proto") && used(name)) {
            match compile(&files, limits, name) {
                Ok(schema) => drop(compiled.insert(name.clone(), schema)),
                // A file that another imports is reported only once.
                Err(error) if errors.contains(&error) => {}
                Err(error) => errors.push(error),
            }
        }
        Schemas { files, compiled }
    }

    /// The contracts in message options, except for messages that the manifest names.
    pub(super) fn drafts_in_options(&self, named: &[Draft], errors: &mut Vec<LoadError>) -> Vec<Draft> {
        let mut drafts = Vec::new();
        for (file, schema) in self.compiled.iter().filter(|(file, _)| !file.starts_with(MANAGED)) {
            match options::drafts(&schema.pool, file) {
                Ok(found) => drafts.extend(found),
                Err(error) => errors.push(error),
            }
        }
        let is_of = |other: &Draft, message: Option<&str>| {
            let found = self.message(&other.schema, other.message.as_deref(), &other.place);
            found.is_ok_and(|(_, found)| Some(found.full_name()) == message)
        };
        let is_named = |draft: &Draft| {
            named.iter().any(|other| other.schema == draft.schema && is_of(other, draft.message.as_deref()))
        };
        drafts.retain(|draft| !is_named(draft));
        drafts
    }

    /// A message type of a file. Without a name, the only one in the file.
    pub(super) fn message(
        &self,
        file: &str,
        message: Option<&str>,
        place: &SourcePosition,
    ) -> Result<(Arc<Schema>, MessageDescriptor), LoadError> {
        let wrong = |why: String| LoadError::at(ErrorCode::Schema, place.clone(), why);
        let Some(schema) = self.compiled.get(file) else {
            let why = if !self.files.contains_key(file) {
                format!("the file {file} is not in the folder")
            } else if file.ends_with(".proto") {
                format!("{file} has errors")
            } else {
                format!("{file} is neither a .proto nor a .json file")
            };
            return Err(wrong(why));
        };
        let own = || schema.pool.all_messages().filter(|found| found.parent_file().name() == file);
        let top = || own().filter(|found| found.parent_message().is_none());
        let found = match message {
            Some(name) => schema.pool.get_message_by_name(name).or_else(|| {
                let mut same = own().filter(|found| found.name() == name);
                same.next().filter(|_| same.next().is_none())
            }),
            None => top().next().filter(|_| top().count() == 1),
        };
        let found = found.ok_or_else(|| {
            let names = top().map(|found| found.full_name().to_owned()).collect::<Vec<_>>().join(", ");
            wrong(match message {
                Some(name) => format!("{file} has no message {name}; it has {names}"),
                None => format!("message is missing; {file} has {names}"),
            })
        })?;
        let schema = Schema {
            file: file.into(),
            source: self.files.get(file).map_or("", String::as_str).into(),
            message: found.full_name().into(),
            descriptor_set: schema.descriptor_set.clone(),
            sha256: schema.sha256.clone(),
        };
        Ok((Arc::new(schema), found))
    }
}

impl Schemas {
    /// A JSON Schema.
    pub(super) fn json_schema(
        &self,
        file: &str,
        place: &SourcePosition,
        limits: &LoadLimits,
    ) -> Result<(Arc<Schema>, SchemaPlan), LoadError> {
        let Some(text) = self.files.get(file) else {
            return Err(LoadError::at(
                ErrorCode::Schema,
                place.clone(),
                format!("the file {file} is not in the folder"),
            ));
        };
        let plan = schema::compile(text, &limits.plan).map_err(|error| {
            let place = SourcePosition { file: file.to_owned(), position: Some(position(text, error.offset)) };
            LoadError::at(ErrorCode::Schema, place, error.message)
        })?;
        let schema = Schema {
            file: file.into(),
            source: text.as_str().into(),
            message: "".into(),
            descriptor_set: Box::default(),
            sha256: Schema::hash(text, &[]),
        };
        Ok((Arc::new(schema), plan))
    }
}

fn compile(files: &Arc<Files>, limits: &LoadLimits, name: &str) -> Result<Compiled, LoadError> {
    compile_once(files, limits, name, false)
        .or_else(|error| {
            let errors = 1 + error.related().map_or(0, Iterator::count);
            if errors > PLACED_ERRORS_MAX { Err(error) } else { compile_once(files, limits, name, true) }
        })
        .map_err(|error| explained(files, name, &error))
}

fn compile_once(
    files: &Arc<Files>,
    limits: &LoadLimits,
    name: &str,
    with_places: bool,
) -> Result<Compiled, protox::Error> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(MemoryResolver { files: files.clone(), nesting_max: limits.nesting, with_places });
    resolver.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true);
    compiler.include_source_info(false);
    compiler.open_file(name)?;
    let descriptor_set = compiler.encode_file_descriptor_set().into_boxed_slice();
    let sha256 = Schema::hash(files.get(name).map_or("", String::as_str), &descriptor_set);
    Ok(Compiled { pool: compiler.descriptor_pool(), descriptor_set, sha256 })
}

fn explained(files: &Files, name: &str, error: &protox::Error) -> LoadError {
    let file = error.file().unwrap_or(name).to_owned();
    let offset = error.labels().and_then(|mut labels| labels.next()).map(|label| label.offset());
    let position = offset.zip(files.get(&file)).map(|(offset, text)| position(text, offset));
    let help = error.help().map(|help| format!("; {help}")).unwrap_or_default();
    LoadError::at(ErrorCode::Schema, SourcePosition { file, position }, format!("{error}{help}"))
}

/// The nesting of braces and brackets, with which the compiler's parser recurses.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' | b'<' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use crate::{Catalogue, LoadLimits};

    /// With or without the message's name or package.
    #[test]
    fn the_manifest_overrides_the_option_of_a_message() {
        let schema = "syntax = \"proto3\"; package a; import \"tautwire/contract.proto\";\n\
                      message M { option (tautwire.contract) = { name: \"own\" topics: \"a\" }; }";
        for message in ["", "message = \"M\"\n", "message = \"a.M\"\n"] {
            let manifest = format!(
                "[[contract]]\nname = \"named\"\ntopics = \"a\"\nformat = \"json\"\nschema = \"m.proto\"\n{message}"
            );
            let files = [("contracts.toml".to_owned(), manifest), ("m.proto".to_owned(), schema.to_owned())].into();
            let catalogue = Catalogue::load(&files, &LoadLimits::default()).expect("loads");
            let names: Vec<&str> = catalogue.contracts().iter().map(|contract| contract.name()).collect();
            assert_eq!(names, ["named"], "{message}");
        }
    }
}
