//! Appends a contract to `contracts.toml`, with its schema in the same directory.

use std::path::Path;

use tautwire_contracts::{Catalogue, LoadError, LoadLimits, MANIFEST};

use super::entry::Entry;
use super::folder;
use crate::json::push_string;

/// Why a contract was not added.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The folder would contain errors.
    Wrong(Vec<LoadError>),
    Other(String),
}

/// Adds the contract `name` with the schema file `schema`, whose content is `text`. A missing folder is created.
///
/// # Errors
/// All errors that the folder would contain; nothing has been written.
pub(crate) fn append(folder: &Path, name: &str, entry: &Entry, schema: &Path, text: &str) -> Result<(), AppendError> {
    let other = |message: String| AppendError::Other(message);
    let mut files =
        if folder.exists() { folder::read(folder).map_err(AppendError::Wrong)? } else { Default::default() };
    let file = within(folder, schema).ok_or_else(|| other(format!("{} is not a file name", schema.display())))?;
    let existing = files.insert(file.clone(), text.to_owned());
    if existing.as_ref().is_some_and(|existing| existing != text) {
        let shown = folder.join(&file);
        return Err(other(format!("{} already exists with different content; rename one of them", shown.display())));
    }
    let mut manifest = files.get(MANIFEST).cloned().unwrap_or_default();
    if !manifest.is_empty() {
        manifest.push_str(if manifest.ends_with('\n') { "\n" } else { "\n\n" });
    }
    manifest.push_str("[[contract]]\nname = ");
    push_string(&mut manifest, name);
    manifest.push('\n');
    manifest.push_str(&entry.to_toml(&file));
    files.insert(MANIFEST.to_owned(), manifest.clone());
    Catalogue::load(&files, &LoadLimits::default()).map_err(AppendError::Wrong)?;
    let written = if existing.is_none() { folder::write(&folder.join(&file), text) } else { Ok(()) };
    written
        .and_then(|()| folder::write(&folder.join(MANIFEST), &manifest))
        .map_err(|error| other(format!("{} cannot be written: {error}", folder.display())))
}

/// The path of the schema within the folder: its current path if it is inside, otherwise its file name.
fn within(folder: &Path, schema: &Path) -> Option<String> {
    let inside = folder.canonicalize().ok().zip(schema.canonicalize().ok()).and_then(|(folder, schema)| {
        let parts = schema.strip_prefix(folder).ok()?.iter().map(|part| part.to_str()).collect::<Option<Vec<_>>>()?;
        Some(parts.join("/"))
    });
    inside.or_else(|| Some(schema.file_name()?.to_str()?.to_owned()))
}
