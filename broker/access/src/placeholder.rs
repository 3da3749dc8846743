//! Placeholders in filters, and their values for a client.

use std::fmt;

use crate::subject::Subject;

/// A placeholder: a level `{…}` of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placeholder {
    ClientId,
    User,
    Listener,
    Claim(Box<str>),
}

/// The number of a placeholder within its policy, below [`crate::limits::PLACEHOLDERS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlaceholderId(u8);

/// A set of placeholders, by number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PlaceholderSet(u64);

/// The values of the placeholders that some roles use: for each, in the order of their numbers, a two-byte length and the value. One
/// allocation, because there may be one of these for each client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlaceholderValues {
    used: PlaceholderSet,
    packed: Box<[u8]>,
}

/// Replaces a length if the value is missing or not a valid topic level.
const UNUSABLE: u16 = u16::MAX;

impl Placeholder {
    /// Parses the text between the braces.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "client_id" => Some(Self::ClientId),
            "user" => Some(Self::User),
            "listener" => Some(Self::Listener),
            _ => name.strip_prefix("claim.").filter(|claim| !claim.is_empty()).map(|claim| Self::Claim(claim.into())),
        }
    }

    /// The value for a client, if it is a valid topic level.
    pub(crate) fn value<'s>(&self, subject: &Subject<'s>) -> Option<&'s str> {
        let value = match self {
            Self::ClientId => Some(subject.client_id),
            Self::User => subject.user,
            Self::Listener => Some(subject.listener),
            Self::Claim(name) => subject.only_claim(name),
        };
        value.filter(|value| is_level(value))
    }
}

/// A value that is empty, or not a single plain level, must not match topics beyond those intended.
fn is_level(value: &str) -> bool {
    !value.is_empty()
        && value.len() < usize::from(UNUSABLE)
        && !value.bytes().any(|byte| matches!(byte, b'/' | b'+' | b'#' | 0))
}

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientId => f.write_str("{client_id}"),
            Self::User => f.write_str("{user}"),
            Self::Listener => f.write_str("{listener}"),
            Self::Claim(name) => write!(f, "{{claim.{name}}}"),
        }
    }
}

impl PlaceholderId {
    pub(crate) fn new(number: u8) -> Self {
        Self(number)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl PlaceholderSet {
    pub(crate) fn insert(&mut self, id: PlaceholderId) {
        self.0 |= 1 << id.0;
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of members before `id`; `None` if it is not a member.
    fn rank(self, id: PlaceholderId) -> Option<u32> {
        (self.0 >> id.0 & 1 == 1).then(|| (self.0 & ((1 << id.0) - 1)).count_ones())
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = PlaceholderId> {
        (0..64).filter(move |number| self.0 >> number & 1 == 1).map(PlaceholderId)
    }
}

impl PlaceholderValues {
    pub(crate) fn new(used: PlaceholderSet, all: &[Placeholder], subject: &Subject<'_>) -> Self {
        let mut packed = Vec::new();
        for id in used.iter() {
            let value = all.get(id.index()).and_then(|placeholder| placeholder.value(subject));
            let len = value.and_then(|value| u16::try_from(value.len()).ok()).unwrap_or(UNUSABLE);
            packed.extend_from_slice(&len.to_le_bytes());
            packed.extend_from_slice(value.unwrap_or_default().as_bytes());
        }
        Self { used, packed: packed.into_boxed_slice() }
    }

    /// The value; `None` if there is none that is a valid topic level.
    pub(crate) fn get(&self, id: PlaceholderId) -> Option<&[u8]> {
        let mut before = self.used.rank(id)?;
        let mut rest = &*self.packed;
        loop {
            let (len, behind) = rest.split_first_chunk::<2>()?;
            let len = u16::from_le_bytes(*len);
            let (value, behind) = if len == UNUSABLE {
                (None, behind)
            } else {
                behind.split_at_checked(len.into()).map(|(a, b)| (Some(a), b))?
            };
            if before == 0 {
                return value;
            }
            before -= 1;
            rest = behind;
        }
    }

    /// Whether any placeholder has this value.
    pub(crate) fn has(&self, value: &[u8]) -> bool {
        self.used.iter().any(|id| self.get(id) == Some(value))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.packed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject<'a>(client_id: &'a str, claims: &'a [(&'a str, &'a str)]) -> Subject<'a> {
        Subject { client_id, user: None, listener: "tls", claims, roles: &[] }
    }

    #[test]
    fn placeholder_values_are_extracted_regardless_of_the_separators() {
        let all = [
            Placeholder::ClientId,
            Placeholder::User,
            Placeholder::Claim("tenant".into()),
            Placeholder::Listener,
            Placeholder::Claim("other".into()),
        ];
        let mut used = PlaceholderSet::default();
        for number in [0, 1, 2, 3] {
            used.insert(PlaceholderId(number));
        }
        let bindings = PlaceholderValues::new(used, &all, &subject("c", &[("tenant", "acme")]));
        let values: Vec<Option<&[u8]>> = (0..5).map(|number| bindings.get(PlaceholderId(number))).collect();
        assert_eq!(values, [Some(&b"c"[..]), None, Some(b"acme"), Some(b"tls"), None]);
    }

    #[test]
    fn a_value_that_is_not_a_plain_level_has_no_placeholder_value() {
        for value in ["", "a/b", "/", "+", "#", "a+", "a#b", "a\0"] {
            assert_eq!(Placeholder::ClientId.value(&subject(value, &[])), None, "{value:?}");
        }
        let long = "a".repeat(usize::from(UNUSABLE));
        assert_eq!(Placeholder::ClientId.value(&subject(&long, &[])), None);
        assert_eq!(Placeholder::ClientId.value(&subject(&long[1..], &[])), Some(&long[1..]));
        assert_eq!(Placeholder::ClientId.value(&subject("$x {user}", &[])), Some("$x {user}"));
    }

    #[test]
    fn a_claim_with_two_values_has_no_placeholder_value() {
        let tenant = Placeholder::Claim("tenant".into());
        assert_eq!(tenant.value(&subject("c", &[("tenant", "a"), ("x", "b")])), Some("a"));
        assert_eq!(tenant.value(&subject("c", &[("tenant", "a"), ("tenant", "b")])), None);
        assert_eq!(tenant.value(&subject("c", &[])), None);
    }
}
