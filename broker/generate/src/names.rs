//! Names in the naming conventions of each language.

use std::collections::BTreeSet;

/// The words of a name: `device_id`, `deviceId`, `Device-ID` and `DEVICE_ID` have the same two.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let characters: Vec<char> = name.chars().collect();
    for (at, character) in characters.iter().enumerate() {
        if !character.is_ascii_alphanumeric() {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            continue;
        }
        let before = at.checked_sub(1).map(|at| characters[at]);
        let after = characters.get(at + 1);
        let begins = character.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || (before.is_ascii_uppercase() && after.is_some_and(char::is_ascii_lowercase))
            });
        if begins && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        word.push(character.to_ascii_lowercase());
    }
    if !word.is_empty() {
        words.push(word);
    }
    if words.first().is_none_or(|first| first.starts_with(|c: char| c.is_ascii_digit())) {
        words.insert(0, "x".to_owned());
    }
    words
}

/// `DeviceId`
pub(crate) fn pascal(name: &str) -> String {
    words(name).iter().map(|word| capital(word)).collect()
}

/// `deviceId`
pub(crate) fn camel(name: &str) -> String {
    let words = words(name);
    words.iter().enumerate().map(|(at, word)| if at == 0 { word.clone() } else { capital(word) }).collect()
}

/// `device_id`
pub(crate) fn snake(name: &str) -> String {
    words(name).join("_")
}

/// `DEVICE_ID`
pub(crate) fn upper(name: &str) -> String {
    snake(name).to_ascii_uppercase()
}

/// `DeviceID`: as [`pascal`], with Go's capitalised initialisms.
pub(crate) fn go(name: &str) -> String {
    const ABBREVIATIONS: [&str; 10] = ["api", "http", "https", "id", "ip", "json", "uri", "url", "utc", "uuid"];
    let word = |word: &String| {
        if ABBREVIATIONS.contains(&word.as_str()) { word.to_ascii_uppercase() } else { capital(word) }
    };
    words(name).iter().map(word).collect()
}

fn capital(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + characters.as_str())
}

/// Whether it is a valid name of a Go package and prefix in C.
pub(crate) fn is_package(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !GO_WORDS.contains(&name)
}

/// Unique names of one scope.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    taken: BTreeSet<String>,
}

impl Scope {
    /// A scope in which some words are reserved.
    pub(crate) fn without(words: &[&str]) -> Scope {
        Scope { taken: words.iter().map(|word| (*word).to_owned()).collect() }
    }

    /// Takes `name`, with a suffix `_` or a number if it is taken.
    pub(crate) fn take(&mut self, name: String) -> String {
        let mut free = name.clone();
        let mut count = 1;
        while !self.taken.insert(free.clone()) {
            count += 1;
            free = if count == 2 { format!("{name}_") } else { format!("{name}{count}") };
        }
        free
    }
}

pub(crate) const GO_WORDS: &[&str] = &[
    "break",
    "case",
    "chan",
    "const",
    "continue",
    "default",
    "defer",
    "else",
    "fallthrough",
    "for",
    "func",
    "go",
    "goto",
    "if",
    "import",
    "interface",
    "map",
    "package",
    "range",
    "return",
    "select",
    "struct",
    "switch",
    "type",
    "var",
];

pub(crate) const RUST_WORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// The keywords of Python, types that occur in annotations, and `self`.
pub(crate) const PYTHON_WORDS: &[&str] = &[
    "and", "as", "assert", "async", "await", "bool", "break", "bytes", "class", "continue", "def", "del", "dict",
    "elif", "else", "except", "finally", "float", "for", "from", "global", "if", "import", "in", "int", "is", "lambda",
    "list", "nonlocal", "not", "or", "pass", "raise", "return", "self", "str", "try", "tuple", "while", "with",
    "yield",
];

/// The keywords of C and of C++, whose compilers read the header too.
pub(crate) const C_WORDS: &[&str] = &[
    "and",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "default",
    "delete",
    "do",
    "double",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "not",
    "operator",
    "or",
    "private",
    "protected",
    "public",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "typedef",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "while",
    "xor",
];

/// Text for a comment, without comment delimiters.
pub(crate) fn comment(text: &str) -> String {
    text.replace("*/", "* /").replace("/*", "/ *")
}

/// A string in double quotes that all five languages and JSON accept. Non-plain characters are written as an escape that they share.
pub(crate) fn quoted(text: &str, escape: fn(char) -> String) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(character),
            other => out.push_str(&escape(other)),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_naming_style_has_the_same_words() {
        for name in ["device_id", "deviceId", "Device-ID", "DEVICE_ID", "DeviceId"] {
            assert_eq!(words(name), ["device", "id"], "{name}");
        }
        assert_eq!(words("HTTPServer2Go"), ["http", "server2", "go"]);
        assert_eq!(words("2nd"), ["x", "2nd"]);
        assert_eq!(words("°"), ["x"]);
        assert_eq!(
            (go("device_id"), camel("device_id"), upper("deviceId")),
            ("DeviceID".into(), "deviceId".into(), "DEVICE_ID".into())
        );
    }

    #[test]
    fn a_name_collision_gets_a_suffix() {
        let mut scope = Scope::without(&["type"]);
        assert_eq!(scope.take("type".into()), "type_");
        assert_eq!(scope.take("type".into()), "type3");
        assert_eq!(scope.take("kind".into()), "kind");
    }
}
