//! The file with named tokens: read by the broker, edited by `tautwire token`.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};
use toml::value::{Datetime, Offset};

use super::roles::{Grant, Role};
use super::token::Token;
use crate::files;
use crate::time::UtcTime;

/// Largest accepted file.
pub(crate) const FILE_BYTES_MAX: usize = 1 << 20;
/// Largest number of tokens in a file.
pub(crate) const TOKENS_MAX: usize = 1_000;
/// Longest token name.
const NAME_BYTES_MAX: usize = 64;

/// A token, of which only the digest is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedToken {
    pub(crate) name: Box<str>,
    pub(crate) grant: Grant,
    /// The token is invalid from this time on.
    pub(crate) expires_unix_s: Option<u64>,
    pub(crate) token: Token,
}

/// Reads a file of tokens.
///
/// # Errors
/// All errors in the file, one per line. Messages never contain a digest.
pub(crate) fn read(path: &Path) -> Result<Vec<NamedToken>, Vec<String>> {
    let name = path.display().to_string();
    let text = files::text(path, FILE_BYTES_MAX).map_err(|why| vec![format!("{name}: {why} [tokens_file]")])?;
    parse(&name, &text)
}

/// Parses the text of a token file.
///
/// # Errors
/// As for [`read`].
pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<NamedToken>, Vec<String>> {
    let error_at = |at: usize, why: &str| {
        let line = text.get(..at).unwrap_or(text).matches('\n').count() + 1;
        format!("{file}:{line}: {why} [tokens_file]")
    };
    let root = DeTable::parse(text).map_err(|error| {
        vec![error_at(error.span().map_or(0, |span| span.start), &format!("not TOML: {}", error.message()))]
    })?;
    let mut errors = Vec::new();
    let mut tokens: Vec<NamedToken> = Vec::new();
    for (key, value) in root.get_ref() {
        let list = value.get_ref().as_array().filter(|_| key.get_ref() == "token");
        let Some(list) = list else {
            errors.push(error_at(
                key.span().start,
                &format!("unknown key {:?}; expected tables [[token]]", key.get_ref()),
            ));
            continue;
        };
        if list.len() > TOKENS_MAX {
            errors.push(error_at(key.span().start, &format!("{} tokens exceed the limit of {TOKENS_MAX}", list.len())));
        }
        for item in list.iter().take(TOKENS_MAX) {
            let read = item.get_ref().as_table().ok_or((0..0, "expected a table [[token]]".to_owned())).and_then(token);
            match read {
                Ok(token) if tokens.iter().any(|known| known.name == token.name) => {
                    errors.push(error_at(item.span().start, &format!("duplicate token {:?}", token.name)));
                }
                Ok(token) => tokens.push(token),
                Err((span, why)) => {
                    errors.push(error_at(if span.is_empty() { item.span().start } else { span.start }, &why))
                }
            }
        }
    }
    if errors.is_empty() { Ok(tokens) } else { Err(errors) }
}

/// The position and the text of an error.
type TokenError = (Range<usize>, String);

fn token(table: &DeTable<'_>) -> Result<NamedToken, TokenError> {
    let (mut name, mut role, mut payloads, mut expires_unix_s, mut token) = (None, None, false, None, None);
    for (key, value) in table {
        let expected = |what: &str| (value.span(), format!("{}: expected {what}", key.get_ref()));
        let text = value.get_ref().as_str();
        match (&**key.get_ref(), value.get_ref()) {
            ("name", _) => {
                let given = text.filter(|name| is_name(name));
                name = Some(given.ok_or_else(|| expected(&format!("1 to {NAME_BYTES_MAX} letters, digits and ._-")))?);
            }
            ("role", _) => {
                role = Some(text.and_then(Role::named).ok_or_else(|| expected("read, operate or administer"))?);
            }
            ("payloads", DeValue::Boolean(given)) => payloads = *given,
            ("payloads", _) => return Err(expected("true or false")),
            ("expires", DeValue::Datetime(moment)) => {
                let moment = unix_s(moment).ok_or_else(|| expected("a date-time with Z or an offset"))?;
                expires_unix_s = Some(moment);
            }
            ("expires", _) => return Err(expected("a date-time such as 2027-01-31T00:00:00Z, without quotes")),
            ("sha256", _) => {
                token = Some(text.and_then(Token::of_digest).ok_or_else(|| expected("64 hexadecimal digits"))?);
            }
            (other, _) => {
                let known = "known keys: name, role, payloads, expires, sha256";
                return Err((key.span(), format!("unknown key {other:?}; {known}")));
            }
        }
    }
    let missing = |what: &str| (0..0, format!("{what} is missing"));
    Ok(NamedToken {
        name: name.ok_or_else(|| missing("name"))?.into(),
        grant: Grant { role: role.ok_or_else(|| missing("role"))?, payloads },
        expires_unix_s,
        token: token.ok_or_else(|| missing("sha256"))?,
    })
}

/// Whether this is a valid token name, which needs no quotes anywhere.
pub(crate) fn is_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_usual)
}

/// Parses a time such as `2027-01-31T00:00:00Z`.
pub(crate) fn parse_rfc3339(text: &str) -> Option<u64> {
    unix_s(&text.parse().ok()?)
}

fn unix_s(moment: &Datetime) -> Option<u64> {
    let (date, time) = (moment.date?, moment.time?);
    let offset_s = match moment.offset? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes) * 60,
    };
    let clock_s = u64::from(time.hour) * 3_600 + u64::from(time.minute) * 60 + u64::from(time.second.unwrap_or(0));
    UtcTime::unix_s_of(date.year, date.month, date.day)?.checked_add(clock_s)?.checked_add_signed(-offset_s)
}

/// The text of a file with a token appended.
///
/// # Errors
/// The text is invalid, or it already has a token of this name.
pub(crate) fn add(file: &str, text: &str, token: &NamedToken) -> Result<String, String> {
    let tokens = parse(file, text).map_err(|errors| errors.join("\n"))?;
    if tokens.iter().any(|known| known.name == token.name) {
        return Err(format!("token {} already exists; remove it first, or choose another name", token.name));
    }
    if tokens.len() >= TOKENS_MAX {
        return Err(format!("the file has {TOKENS_MAX} tokens, which is the limit"));
    }
    let mut changed = text.to_owned();
    if !changed.is_empty() && !changed.ends_with('\n') {
        changed.push('\n');
    }
    let _ = write!(
        changed,
        "{}[[token]]\nname = \"{}\"\nrole = \"{}\"\npayloads = {}\n",
        if changed.is_empty() { "" } else { "\n" },
        token.name,
        token.grant.role,
        token.grant.payloads,
    );
    if let Some(expires_unix_s) = token.expires_unix_s {
        let _ = writeln!(changed, "expires = {}", UtcTime::from_unix(expires_unix_s, 0).to_rfc3339());
    }
    let _ = writeln!(changed, "sha256 = \"{}\"", token.token.to_digest());
    let expected: Vec<NamedToken> = tokens.into_iter().chain([token.clone()]).collect();
    checked(file, changed, &expected)
}

/// The text of a file with a token removed. Comments outside its table are preserved.
///
/// # Errors
/// The text is invalid, or it has no token of this name.
pub(crate) fn remove(file: &str, text: &str, name: &str) -> Result<String, String> {
    let mut expected = parse(file, text).map_err(|errors| errors.join("\n"))?;
    let at = expected.iter().position(|known| &*known.name == name);
    let at = at.ok_or_else(|| format!("there is no token {name}"))?;
    expected.remove(at);
    let root = DeTable::parse(text).map_err(|error| error.to_string())?;
    let list = root.get_ref().get("token").and_then(|list| list.get_ref().as_array());
    let starts: Vec<usize> = list.into_iter().flat_map(|list| list.iter().map(|item| item.span().start)).collect();
    let start = starts.get(at).map_or(0, |start| line_start(text, *start));
    let end = starts.get(at + 1).map_or(text.len(), |next| line_start(text, *next));
    // Comments directly above the next table belong to that one.
    let mut kept_from = end;
    while at + 1 < starts.len() {
        let before = line_start(text, kept_from.saturating_sub(1));
        match text.get(before..kept_from) {
            Some(line) if before > start && line.trim_start().starts_with('#') => kept_from = before,
            _ => break,
        }
    }
    let changed = format!("{}{}", text.get(..start).unwrap_or_default(), text.get(kept_from..).unwrap_or_default());
    checked(file, changed, &expected)
}

fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1)
}

/// Returns the changed text if it parses to the expected tokens.
fn checked(file: &str, changed: String, expected: &[NamedToken]) -> Result<String, String> {
    if parse(file, &changed).is_ok_and(|tokens| tokens == expected) {
        return Ok(changed);
    }
    Err(format!("cannot edit {file} automatically because of its layout; edit it by hand"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, role: Role, expires_unix_s: Option<u64>) -> NamedToken {
        let token = Token::of_text(&format!("the token {name}"));
        NamedToken { name: name.into(), grant: Grant { role, payloads: role == Role::Operate }, expires_unix_s, token }
    }

    #[test]
    fn added_tokens_are_read_and_removed_ones_are_gone() {
        let tokens = [
            named("a", Role::Read, None),
            named("b-2", Role::Operate, Some(1_801_353_600)),
            named("c", Role::Administer, None),
        ];
        let mut text = "# Ours.\n\n# For the meters.".to_owned();
        for token in &tokens {
            text = add("tokens", &text, token).expect("it is added");
        }
        assert_eq!(parse("tokens", &text).expect("it is right"), tokens);
        assert!(text.contains("expires = 2027-01-31T00:00:00Z\n"), "{text}");
        assert!(add("tokens", &text, &tokens[0]).expect_err("it is there").contains("already"));
        let text = text.replace("[[token]]\nname = \"c\"", "# Of c.\n[[token]]\nname = \"c\"");
        let without = remove("tokens", &text, "b-2").expect("it is removed");
        assert_eq!(parse("tokens", &without).expect("it is right"), [tokens[0].clone(), tokens[2].clone()]);
        assert!(
            without.starts_with("# Ours.\n\n# For the meters.\n")
                && without.contains("# Of c.\n[[token]]\nname = \"c\"")
        );
        let one = remove("tokens", &without, "a").expect("it is removed");
        let none = remove("tokens", &one, "c").expect("it is removed");
        assert_eq!(parse("tokens", &none).expect("it is right"), []);
        assert!(remove("tokens", &none, "c").expect_err("it is gone").contains("no token c"));
    }

    #[test]
    fn other_lines_are_preserved() {
        let digest = Token::of_text("a token that is long").to_digest();
        let text = format!("token = [{{ name = \"a\", role = \"read\", sha256 = \"{digest}\" }}]\n");
        assert_eq!(parse("tokens", &text).expect("it is right").len(), 1);
        assert!(add("tokens", &text, &named("b", Role::Read, None)).expect_err("it cannot").contains("by hand"));
    }

    #[test]
    fn errors_have_a_line_and_no_digest() {
        let digest = Token::of_text("a token that is long").to_digest();
        let with = |line: &str| format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{digest}\"\n{line}\n");
        for (text, said) in [
            ("x = 1".to_owned(), "tokens:1: unknown key \"x\""),
            ("token = 3".to_owned(), "tokens:1: unknown key \"token\""),
            (with("colour = 3"), "tokens:5: unknown key \"colour\""),
            (with("expires = \"2027-01-31T00:00:00Z\""), "tokens:5: expires: expected a date-time"),
            (with("expires = 2027-01-31"), "tokens:5: expires: expected a date-time with Z"),
            (with("payloads = 1"), "tokens:5: payloads: expected true or false"),
            (with("").replace("read", "root"), "tokens:3: role: expected read"),
            (with("").replace("\"a\"", "\"a b\""), "tokens:2: name: expected 1 to 64"),
            (with("").replace(&digest, &digest[1..]), "tokens:4: sha256: expected 64"),
            (with("").replace("role = \"read\"\n", ""), "tokens:1: role is missing"),
            (format!("{0}{0}", with("")), "tokens:6: duplicate token \"a\""),
            ("[[token]".to_owned(), "tokens:1: not TOML"),
        ] {
            let errors = parse("tokens", &text).expect_err("it is wrong");
            assert!(errors.iter().any(|error| error.starts_with(said)), "{said}: {errors:?}");
            assert!(!errors.join("").contains(&digest[..16]), "{errors:?}");
        }
    }

    #[test]
    fn a_timestamp_needs_an_offset() {
        assert_eq!(parse_rfc3339("2027-01-31T00:00:00Z"), Some(1_801_353_600));
        assert_eq!(parse_rfc3339("2027-01-31T01:30:00+01:30"), Some(1_801_353_600));
        assert_eq!(parse_rfc3339("2027-01-30T23:00:00-01:00"), Some(1_801_353_600));
        for wrong in ["2027-01-31", "2027-01-31T00:00:00", "soon", "", "1969-12-31T23:59:59Z"] {
            assert_eq!(parse_rfc3339(wrong), None, "{wrong}");
        }
    }
}
