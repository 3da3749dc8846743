//! Maps topics to subjects of the bus, and filters to patterns of subjects. All subjects here are relative: the bus adds a prefix.

use std::fmt;

use crate::names::{Seed, digest_text};

/// The size limit of a subject. The subject of a longer one is a digest.
pub const SUBJECT_MAX_BYTES: usize = 512;
/// The level limit of a topic. The subject of a deeper one is a digest.
pub const SUBJECT_LEVELS_MAX: usize = 32;
/// Matches all subjects that are digests. A node subscribes to it as long as it has any subscription.
pub const DIGESTS: &str = "=~.*";

/// The token of an empty level. An escape has two digits, so no other level becomes this.
const EMPTY: &str = "=";
/// The first token of a digest.
const DIGEST: &str = "=~";

/// The topic that a subject represents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// The topic.
    Topic(String),
    /// Only a digest of it; the message itself contains the topic.
    Digest,
}

/// Returns the subject of a topic name. Different topics have different subjects. `topic` must not be empty or contain wildcards.
pub fn subject_of(topic: &str, seed: Seed) -> String {
    plain_subject(topic).unwrap_or_else(|| format!("{DIGEST}.{}", digest_text(seed.digest(topic.as_bytes()))))
}

/// Returns the topic of a subject that [`subject_of`] has returned.
///
/// # Errors
/// The subject is not a result of [`subject_of`].
pub fn topic_of(subject: &str) -> Result<Named, SubjectError> {
    let mut tokens = subject.split('.');
    if tokens.next() == Some(DIGEST) {
        let is_digest = tokens.next().is_some_and(|text| crate::names::digest_of(text).is_some());
        return if is_digest && tokens.next().is_none() { Ok(Named::Digest) } else { Err(SubjectError { offset: 0 }) };
    }
    let (mut topic, mut offset) = (String::with_capacity(subject.len()), 0);
    for (index, token) in subject.split('.').enumerate() {
        if index > 0 {
            topic.push('/');
        }
        unescape(token, offset, &mut topic)?;
        offset += token.len() + 1;
    }
    // A topic has one subject: any other one that decodes to it is invalid. A topic has at least one character [MQTT-4.7.3-1].
    let is_its_own = !topic.is_empty() && plain_subject(&topic).as_deref() == Some(subject);
    if is_its_own { Ok(Named::Topic(topic)) } else { Err(SubjectError { offset: 0 }) }
}

/// Returns patterns that together match the subject of every topic that `filter` matches, except for those that [`DIGESTS`] matches. They
/// may match more. `filter` must be a valid Topic Filter without a share.
pub fn patterns_of(filter: &str) -> Vec<String> {
    if !filter.contains(['+', '#']) {
        return plain_subject(filter).into_iter().collect();
    }
    let (levels, has_rest) = match filter.strip_suffix('#') {
        Some(parent) => (parent.strip_suffix('/'), true),
        None => (Some(filter), false),
    };
    // The filter `#` has no levels; `/#` has one, which is empty.
    let levels = levels.map(|levels| levels.split('/').map(pattern_token).collect::<Vec<_>>()).unwrap_or_default();
    let fits = levels.len() <= SUBJECT_LEVELS_MAX && joined_bytes(&levels) <= SUBJECT_MAX_BYTES;
    if !fits {
        // Deeper topics have no plain subject. The remaining topics end above a `#`, and are covered here.
        let depth = (1..levels.len()).rev().find(|depth| {
            *depth < SUBJECT_LEVELS_MAX && joined_bytes(&levels[..*depth]) + ".>".len() <= SUBJECT_MAX_BYTES
        });
        return match depth {
            Some(depth) => vec![format!("{}.>", levels[..depth].join("."))],
            None => vec![">".to_owned()],
        };
    }
    match (levels.is_empty(), has_rest) {
        (true, _) => vec![">".to_owned()],
        (false, false) => vec![levels.join(".")],
        // `sport/#` also matches `sport` [MQTT-4.7.1-2], but `sport.>` does not.
        (false, true) => vec![levels.join("."), format!("{}.>", levels.join("."))],
    }
}

/// Whether a pattern matches a subject: `*` stands for one token, `>` at the end for one or more.
pub fn matches(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (None, None) | (Some(">"), Some(_)) => return true,
            (Some(wanted), Some(token)) if wanted == "*" || wanted == token => {}
            _ => return false,
        }
    }
}

fn plain_subject(topic: &str) -> Option<String> {
    let mut subject = String::with_capacity(topic.len() + 8);
    for (index, level) in topic.split('/').enumerate() {
        if index == SUBJECT_LEVELS_MAX {
            return None;
        }
        if index > 0 {
            subject.push('.');
        }
        escape(level, &mut subject);
        if subject.len() > SUBJECT_MAX_BYTES {
            return None;
        }
    }
    Some(subject)
}

fn pattern_token(level: &str) -> String {
    if level == "+" {
        return "*".to_owned();
    }
    let mut token = String::with_capacity(level.len());
    escape(level, &mut token);
    token
}

fn joined_bytes(tokens: &[String]) -> usize {
    tokens.iter().map(|token| token.len() + 1).sum::<usize>().saturating_sub(1)
}

fn escape(level: &str, subject: &mut String) {
    use fmt::Write;
    if level.is_empty() {
        subject.push_str(EMPTY);
    }
    for character in level.chars() {
        if is_escaped(character) {
            let _ = write!(subject, "={:02X}", u32::from(character));
        } else {
            subject.push(character);
        }
    }
}

/// Characters with a meaning in a subject or in the bus protocol, and `=` itself. All are ASCII.
fn is_escaped(character: char) -> bool {
    matches!(character, '\0'..=' ' | '\x7f' | '.' | '*' | '>' | '=')
}

fn unescape(token: &str, offset: usize, topic: &mut String) -> Result<(), SubjectError> {
    if token == EMPTY {
        return Ok(());
    }
    let mut rest = token;
    while let Some(at) = rest.find('=') {
        let error = SubjectError { offset: offset + token.len() - rest.len() + at };
        let digits = rest.get(at + 1..at + 3).ok_or(error)?;
        let code = u8::from_str_radix(digits, 16).map_err(|_| error)?;
        topic.push_str(&rest[..at]);
        topic.push(char::from(code));
        rest = &rest[at + 3..];
    }
    topic.push_str(rest);
    Ok(())
}

/// A subject that does not represent a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubjectError {
    /// The offset in the subject, in bytes; 0 for the whole subject.
    pub offset: usize,
}

impl fmt::Display for SubjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid topic subject (at byte {}); a program other than a broker of this cluster publishes below its prefix [cluster_subject]",
            self.offset
        )
    }
}

impl std::error::Error for SubjectError {}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed([7; 16]);

    #[test]
    fn subjects_resemble_their_topics() {
        for (topic, subject) in [
            ("sport/tennis", "sport.tennis"),
            ("/", "=.="),
            ("a//b", "a.=.b"),
            ("a.b/c d", "a=2Eb.c=20d"),
            ("*/>/=", "=2A.=3E.=3D"),
            ("$SYS/x", "$SYS.x"),
            ("größe/温度", "größe.温度"),
        ] {
            assert_eq!(subject_of(topic, SEED), subject);
            assert_eq!(topic_of(subject), Ok(Named::Topic(topic.to_owned())));
        }
    }

    #[test]
    fn topics_that_are_too_long_or_too_deep_use_a_digest() {
        let deep = |levels: usize| vec!["a"; levels].join("/");
        assert_eq!(subject_of(&deep(SUBJECT_LEVELS_MAX), SEED).len(), 2 * SUBJECT_LEVELS_MAX - 1);
        for topic in
            [deep(SUBJECT_LEVELS_MAX + 1), "x".repeat(SUBJECT_MAX_BYTES + 1), ".".repeat(SUBJECT_MAX_BYTES / 2)]
        {
            let subject = subject_of(&topic, SEED);
            assert!(matches(DIGESTS, &subject) && subject.len() < 40, "{subject}");
            assert_eq!(topic_of(&subject), Ok(Named::Digest));
            assert_ne!(subject_of(&format!("{topic}x"), SEED), subject);
        }
    }

    #[test]
    fn subjects_that_belong_to_no_topic_are_refused() {
        for subject in ["a..b", "", "a=", "a=2", "a=2e", "a=41", "=~", "=~.x", "a.=G0", "a b", "=2é", "=", "=+5"] {
            assert!(topic_of(subject).is_err(), "{subject}");
        }
    }

    #[test]
    fn filters_become_patterns() {
        let patterns = |filter: &str| patterns_of(filter).join(" ");
        assert_eq!(patterns("a/b"), "a.b");
        assert_eq!(patterns("a/+/b"), "a.*.b");
        assert_eq!(patterns("a/#"), "a a.>");
        assert_eq!(patterns("#"), ">");
        assert_eq!(patterns("/#"), "= =.>");
        assert_eq!(patterns("+"), "*");
        assert_eq!(
            patterns(&format!("{}#", "a/".repeat(40))),
            format!("{}.>", vec!["a"; SUBJECT_LEVELS_MAX - 1].join("."))
        );
    }
}
