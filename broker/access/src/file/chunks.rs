//! Parsing of large `[users]` tables in chunks.
//!
//! Parsed TOML takes some twenty times as much memory as its text, and most of a large file is users. If `[users]` is on a line of its own,
//! its body can be parsed in chunks, provided each is valid TOML by itself. In all other cases the file is parsed as a whole.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::compile;
use super::reader::{LineShift, Reader};
use super::users;
use crate::compiled::Compiled;
use crate::users::UsersBuilder;

/// The minimum length of a chunk, except the last. A file that is not longer is parsed as a whole.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// The compiled file; `None` if it must be parsed as a whole, with a new reader.
pub(super) fn read(reader: &mut Reader<'_>, text: &str, piece_bytes: usize) -> Option<Compiled> {
    if text.len() <= piece_bytes {
        return None;
    }
    let body = users_body(text)?;
    let (before, after) = (&text[..body.start], &text[body.end..]);
    // If the text before is valid on its own, the line `[users]` is a table header and not part of a string.
    DeTable::parse(before).ok()?;
    let others = format!("{before}{after}");
    let root = DeTable::parse(&others).ok()?;
    match root.get_ref().get("users")?.get_ref() {
        DeValue::Table(table) if table.is_empty() => {}
        _ => return None,
    }
    reader.shift(LineShift { from: body.start, by: body.len() });
    let mut compiled = compile(reader, root.get_ref());
    drop(root);
    let mut found = UsersBuilder::default();
    for piece in chunks(text, body, piece_bytes) {
        let table = DeTable::parse(&text[piece.clone()]).ok()?;
        reader.shift(LineShift { from: 0, by: piece.start });
        users::add(reader, &compiled.role_numbers, table.get_ref(), &mut found);
    }
    compiled.users = found.finish();
    Some(compiled)
}

/// The lines below `[users]`, up to the next line that begins with a bracket.
fn users_body(text: &str) -> Option<Range<usize>> {
    let mut offset = 0;
    let mut start = None;
    for line in text.split_inclusive('\n') {
        match start {
            None if line.trim_end() == "[users]" => start = Some(offset + line.len()),
            Some(start) if line.starts_with('[') => return Some(start..offset),
            _ => {}
        }
        offset += line.len();
    }
    start.map(|start| start..text.len())
}

/// Splits the body at line ends.
fn chunks(text: &str, body: Range<usize>, piece_bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = body.start;
    std::iter::from_fn(move || {
        let rest = text.get(start..body.end).filter(|rest| !rest.is_empty())?;
        let newline =
            rest.as_bytes().get(piece_bytes..).and_then(|behind| behind.iter().position(|&byte| byte == b'\n'));
        let len = newline.map_or(rest.len(), |at| piece_bytes + at + 1);
        let piece = start..start + len;
        start += len;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::super::line_index::LineIndex;
    use super::super::whole;
    use super::*;
    use crate::error::AccessError;

    type Read = Result<(usize, Vec<Vec<u32>>), Vec<AccessError>>;

    fn summary(reader: Reader<'_>, compiled: Compiled) -> Read {
        let roles = ["ann", "bob", "cid", "dan"].map(|name| compiled.users.roles_of(name).to_vec());
        let count = compiled.users.len() + 100 * compiled.assignments.len();
        reader.finish((count, roles.to_vec()))
    }

    /// In chunks, where possible, and as a whole.
    fn both(text: &str, piece_bytes: usize) -> (Option<Read>, Read) {
        let places = LineIndex::of(text);
        let mut reader = Reader::new("f", &places);
        let in_pieces = read(&mut reader, text, piece_bytes).map(|compiled| summary(reader, compiled));
        let mut reader = Reader::new("f", &places);
        let root = whole(&mut reader, text);
        (in_pieces, root.and_then(|compiled| summary(reader, compiled)))
    }

    const HEAD: &str =
        "[[role]]\nname = 'r'\nrules = [{ allow = 'publish', topics = 'a' }]\n[[role]]\nname = 's'\nrules = []\n";

    #[test]
    fn chunks_parse_like_the_whole_file() {
        for (is_in_pieces, rest) in [
            (true, "[users]\nann = 'r'\nbob = ['s', 'r']\n# a comment\n\ncid = 'r'\n"),
            (true, "[users]  \r\nann = 'r'\r\nbob = 's'\r\n[[assign]]\neveryone = true\nroles = 'x'\n"),
            (true, "[users]\nann = 'r'\n[[assign]]\neveryone = true\nroles = 's'\nuser = 7\n"),
            (true, "[users]\nann = 'r'\nbob = 'nobody'\ncid = 1\n[[assign]]\nnonsense = true\nroles = 's'\n"),
            (true, "[users]\nann.x = 'r'\n"),
            // Not plain enough, or invalid.
            (false, "[users]\nann = 'r'\nbob = [\n  's',\n]\ncid = 'r'\n"),
            (false, "[users]\nann = 'r'\nbob = '''\n[x]\n'''\n"),
            (false, "[users]\nann = 'r'\nbob =\n"),
            (false, "[users]\nann = 'r'\n[users]\nbob = 'r'\n"),
            (false, "[users]\nann = 'r'\n[users.bob]\nx = 'r'\n"),
            (false, "[[assign]]\nroles = 'r'\nuser = '''\n[users]\nann = 'r'\n[x]\n'''\n"),
            (false, "[[assign]]\nroles = '''\n[users]\nann = 'r'\n'''\n"),
            (false, "[[assign]]\nroles = 'r'\nuser = '''\n[users]\nann = 'r'\n[x]\n'''\n[ users ]\n"),
            (false, "[ users ]\nann = 'r'\n"),
        ] {
            let text = format!("{HEAD}{rest}");
            for piece_bytes in [1, 12, 40] {
                let (in_pieces, whole) = both(&text, piece_bytes);
                assert!(is_in_pieces || piece_bytes > 1 || in_pieces.is_none(), "{rest}");
                assert!(!is_in_pieces || in_pieces.is_some(), "{rest}");
                if let Some(in_pieces) = in_pieces {
                    assert_eq!(in_pieces, whole, "{rest}");
                }
            }
        }
    }

    #[test]
    fn a_user_in_two_chunks_is_a_duplicate() {
        let (in_pieces, whole) = both(&format!("{HEAD}[users]\nann = 'r'\nbob = 'r'\nann = 's'\n"), 1);
        let (in_pieces, whole) = (in_pieces.expect("read").expect_err("wrong"), whole.expect_err("wrong"));
        assert_eq!(
            in_pieces[0].to_string(),
            "f:10:1: the user ann is defined twice: put all roles into one list [access_duplicate]"
        );
        assert_eq!(whole[0].position, in_pieces[0].position);
    }
}
