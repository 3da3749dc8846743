//! The `acl_file` of Mosquitto.
//!
//! Mosquitto first checks the lines of a client's user, then the patterns; in both, deny lines precede allow lines. The first match
//! decides. So the order of roles and rules below has the same meaning.

use std::fmt::Write as _;

use super::{ImportNote, ImportedPolicy};
use crate::pattern::Pattern;
use crate::rule::TomlString;

const HEADER: &str = "\
# Converted from a Mosquitto acl_file. The first rule of a client's roles that matches decides.
#
# mosquitto grants every subscription and drops what a client may not read. Here a subscription is granted only if the client
# may read every topic that its filter matches: a client that subscribes to more than it may read gets Not authorized.
";

/// Converts the text of an `acl_file` to a rule file.
///
/// Entries that cannot be expressed are dropped if they allow, and widened if they deny, so that nobody gains access; each is noted.
#[must_use]
pub fn mosquitto_acl(text: &str) -> ImportedPolicy {
    let mut file = AclFile::default();
    for (index, line) in text.lines().enumerate() {
        file.read(index + 1, line.trim_end_matches(['\r', '\n']));
    }
    ImportedPolicy { text: file.to_toml(), notes: file.notes }
}

#[derive(Debug, Default)]
struct AclFile {
    /// In order of first appearance. Entries without a user come first, if there are any.
    blocks: Vec<Block>,
    patterns: Vec<Entry>,
    /// Index of the block that lines belong to.
    current: Option<usize>,
    notes: Vec<ImportNote>,
}

#[derive(Debug)]
struct Block {
    /// `None` for anonymous clients.
    user: Option<String>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    access: Access,
    filter: String,
    /// The comment above the entry.
    comment: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Deny,
    Read,
    Write,
    ReadWrite,
}

impl AclFile {
    fn read(&mut self, number: usize, line: &str) {
        if line.trim().is_empty() || line.starts_with('#') {
            return;
        }
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim_start_matches(' ');
        match keyword {
            "user" => {
                let user = rest.trim();
                if user.is_empty() {
                    self.add_note(number, "user without a name: omitted".to_owned());
                } else {
                    self.current = Some(self.block(Some(user)));
                }
            }
            "topic" => {
                let entry = self.entry(number, rest, |level| match level {
                    level if level.contains(['{', '}']) => None,
                    level => Some(level.to_owned()),
                });
                if let Some(entry) = entry {
                    let block = self.current.unwrap_or_else(|| self.block(None));
                    self.blocks[block].entries.push(entry);
                }
            }
            "pattern" => {
                let entry = self.entry(number, rest, |level| match level {
                    "%c" => Some("{client_id}".to_owned()),
                    "%u" => Some("{user}".to_owned()),
                    level if level.contains("%c") || level.contains("%u") || level.contains(['{', '}']) => None,
                    level => Some(level.to_owned()),
                });
                self.patterns.extend(entry);
            }
            other => self.add_note(number, format!("{} is not a line of an acl_file: omitted", other.escape_debug())),
        }
    }

    /// The block of a user, or of anonymous clients.
    fn block(&mut self, user: Option<&str>) -> usize {
        let known = self.blocks.iter().position(|block| block.user.as_deref() == user);
        known.unwrap_or_else(|| {
            self.blocks.push(Block { user: user.map(str::to_owned), entries: Vec::new() });
            self.blocks.len() - 1
        })
    }

    /// Parses `[read|write|readwrite|deny] TOPIC`. `level` converts a topic level; `None` if it cannot be expressed.
    fn entry(&mut self, number: usize, rest: &str, level: impl Fn(&str) -> Option<String>) -> Option<Entry> {
        let (access, topic) = match rest.split_once(' ') {
            Some((word, topic)) => {
                let Some(access) = Access::named(word) else {
                    self.add_note(number, format!("{} is not an access type: omitted", word.escape_debug()));
                    return None;
                };
                (access, topic.trim_start_matches(' '))
            }
            None => (Access::ReadWrite, rest),
        };
        let mut is_whole = true;
        let mut level_or_any = |text: &str| {
            level(text).unwrap_or_else(|| {
                is_whole = false;
                "+".to_owned()
            })
        };
        let filter = topic.split('/').map(&mut level_or_any).collect::<Vec<_>>().join("/");
        if let Err(why) = Pattern::parse(&filter) {
            self.add_note(number, format!("{}: {why}: omitted", topic.escape_debug()));
            return None;
        }
        if is_whole {
            return Some(Entry { access, filter, comment: None });
        }
        let shown = topic.escape_debug();
        if access != Access::Deny {
            let why = "a placeholder must fill its level, and a level must not contain { or }";
            self.add_note(number, format!("{shown} allows something that cannot be expressed ({why}): omitted"));
            return None;
        }
        let message = format!("{shown} denies something that cannot be expressed: every such level is denied");
        self.add_note(number, message.clone());
        Some(Entry { access, filter, comment: Some(format!("line {number}: {message}")) })
    }

    fn add_note(&mut self, line: usize, message: String) {
        self.notes.push(ImportNote { line, message });
    }

    fn to_toml(&self) -> String {
        let mut toml = HEADER.to_owned();
        for note in self.notes.iter().filter(|note| note.message.ends_with(": omitted")) {
            // One line each, whatever it contains.
            let _ = write!(toml, "#\n# line {}: {}\n", note.line, note.message);
        }
        for block in &self.blocks {
            push_role(&mut toml, &role_name(block.user.as_deref()), &block.entries);
        }
        if !self.patterns.is_empty() {
            push_role(&mut toml, "patterns", &self.patterns);
        }
        if self.blocks.iter().any(|block| block.user.is_none()) {
            let _ = write!(toml, "\n[[assign]]\nanonymous = true\nroles = \"{}\"\n", role_name(None));
        }
        if !self.patterns.is_empty() {
            toml.push_str("\n[[assign]]\neveryone = true\nroles = \"patterns\"\n");
        }
        let mut users = self.blocks.iter().filter_map(|block| block.user.as_deref()).peekable();
        if users.peek().is_some() {
            toml.push_str("\n[users]\n");
        }
        for user in users {
            let _ = writeln!(toml, "{} = {}", TomlString(user), TomlString(&role_name(Some(user))));
        }
        toml
    }
}

impl Access {
    fn named(word: &str) -> Option<Self> {
        match word {
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            "readwrite" => Some(Self::ReadWrite),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }

    fn as_toml(self) -> &'static str {
        match self {
            Self::Deny => "deny = [\"publish\", \"subscribe\"]",
            Self::Read => "allow = \"subscribe\"",
            Self::Write => "allow = \"publish\"",
            Self::ReadWrite => "allow = [\"publish\", \"subscribe\"]",
        }
    }
}

fn role_name(user: Option<&str>) -> String {
    user.map_or_else(|| "anonymous".to_owned(), |user| format!("user {user}"))
}

fn push_role(toml: &mut String, name: &str, entries: &[Entry]) {
    let _ = write!(toml, "\n[[role]]\nname = {}\nrules = [\n", TomlString(name));
    let (denials, others): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(|entry| entry.access == Access::Deny);
    for Entry { access, filter, comment } in denials.into_iter().chain(others) {
        if let Some(comment) = comment {
            let _ = writeln!(toml, "    # {comment}");
        }
        let _ = writeln!(toml, "    {{ {}, topics = {} }},", access.as_toml(), TomlString(filter));
    }
    toml.push_str("]\n");
}
