//! The rule file: TOML, parsed with the positions of all errors.

mod assignments;
mod chunks;
mod line_index;
mod reader;
mod role;
mod users;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use toml::de::{DeTable, DeValue};

use crate::compiled::{ActionRoots, Compiled, Role};
use crate::error::{AccessError, ErrorCode};
use crate::limits::{FILE_BYTES_MAX, ROLES_MAX};
use crate::tree::TreeBuilder;
use crate::users::UsersBuilder;
use line_index::LineIndex;
use reader::Reader;

const KEYS: [&str; 3] = ["role", "assign", "users"];

/// Compiles a file, or returns all of its errors.
pub(crate) fn read(file: &str, text: &str) -> Result<Compiled, Vec<AccessError>> {
    let whole_file = |code, message: String| AccessError { code, file: file.to_owned(), position: None, message };
    if text.len() > FILE_BYTES_MAX {
        let message = format!("the file has {} bytes; the maximum is {FILE_BYTES_MAX}: make it smaller", text.len());
        return Err(vec![whole_file(ErrorCode::Limit, message)]);
    }
    let places = LineIndex::of(text);
    let mut reader = Reader::new(file, &places);
    let compiled = match chunks::read(&mut reader, text, chunks::CHUNK_BYTES) {
        Some(compiled) => compiled,
        None => {
            reader = Reader::new(file, &places);
            whole(&mut reader, text)?
        }
    };
    if reader.is_faultless() && compiled.rules.is_empty() {
        let message =
            "the file has no rule, so it would deny everything: add a rule, or remove the file from the configuration";
        return Err(vec![whole_file(ErrorCode::Empty, message.to_owned())]);
    }
    reader.finish(compiled)
}

fn whole(reader: &mut Reader<'_>, text: &str) -> Result<Compiled, Vec<AccessError>> {
    let root = DeTable::parse(text).map_err(|error| {
        reader.fault(ErrorCode::Syntax, error.span().unwrap_or(0..0), format!("not valid TOML: {}", error.message()));
        reader.take_errors()
    })?;
    let mut compiled = compile(reader, root.get_ref());
    if let Some(DeValue::Table(table)) = root.get_ref().get("users").map(|value| value.get_ref()) {
        let mut found = UsersBuilder::default();
        users::add(reader, &compiled.role_numbers, table, &mut found);
        compiled.users = found.finish();
    }
    Ok(compiled)
}

/// Everything but the users.
fn compile(reader: &mut Reader<'_>, root: &DeTable<'_>) -> Compiled {
    let mut compiled = Compiled { file: reader.file().to_owned(), ..Compiled::default() };
    for (key, value) in root {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("role" | "assign", DeValue::Array(_)) | ("users", DeValue::Table(_)) => {}
            (name @ ("role" | "assign"), _) => {
                reader.fault(ErrorCode::Value, value.span(), format!("write [[{name}]], with two brackets"));
            }
            ("users", _) => {
                reader.fault(ErrorCode::Value, value.span(), "write [users], followed by lines such as user = \"role\"")
            }
            (other, _) => reader.unknown_key(key.span(), other, &KEYS),
        }
    }
    let tables = |name: &str| root.get(name).and_then(|value| value.get_ref().as_array()).into_iter().flatten();
    let mut builder = TreeBuilder::default();
    let mut names: HashMap<Box<str>, u32, FixedState> = HashMap::default();
    let mut drafts = Vec::new();
    for table in tables("role").take(ROLES_MAX + 1) {
        if drafts.len() == ROLES_MAX {
            reader.fault(ErrorCode::Limit, table.span(), format!("there are more than {ROLES_MAX} roles: merge some"));
            break;
        }
        // A fault in a role must not make its name unknown.
        let draft = role::Draft::read(reader, table);
        let number = drafts.len() as u32;
        if let Some((name, span)) = &draft.name
            && names.insert((*name).into(), number).is_some()
        {
            let message = format!("the role {} is defined twice: give each role its own name", name.escape_debug());
            reader.fault(ErrorCode::Duplicate, span.clone(), message);
        }
        drafts.push(draft);
    }
    for (number, draft) in drafts.iter().enumerate() {
        let roots = ActionRoots { publish: builder.add_root(), subscribe: builder.add_root() };
        let start = compiled.rules.len() as u32;
        let name = draft.name.as_ref().map_or("", |(name, _)| name);
        compiled.roles.push(Role { name: name.into(), roots, placeholders: Default::default(), rules: start..start });
        draft.add_rules(reader, number as u32, &mut compiled, &mut builder);
        compiled.roles[number].rules.end = compiled.rules.len() as u32;
    }
    compiled.role_numbers = names;
    compiled.rules.shrink_to_fit();
    compiled.tree = builder.finish();
    compiled.assignments = assignments::read(reader, &compiled.role_numbers, tables("assign"));
    compiled
}
