//! Rules that map certificates to users.

use std::fmt;
use std::sync::Arc;

use super::{CertificateFields, Field};
use crate::limits::{CLIENT_ID_BYTES_MAX, USER_NAME_BYTES_MAX};
use crate::{Certificate, Principal, Refusal, RefusalCode};

/// Rules for certificates: the first that matches, and whose templates can be filled, gives the client's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRules {
    /// The rules, in the order in which they are tried.
    pub rules: Vec<CertificateRule>,
}

/// Conditions on a certificate, and the names it gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateRule {
    /// Patterns for fields. For each, some value of its field must match.
    pub when: Vec<Pattern>,
    /// The user. Without it, the holder is anonymous.
    pub user: Option<Template>,
    /// The Client Identifier, whatever the client requests. Without it, the client chooses its own.
    pub client_id: Option<Template>,
    /// Names of roles, for access rules.
    pub roles: Vec<Box<str>>,
}

/// A pattern for a certificate field: `*` matches any run of characters, and may occur at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    field: Field,
    before: Box<str>,
    /// The text after the star, if there is one.
    after: Option<Box<str>>,
}

/// A template with fields: `{cn}`, `{o}`, `{ou}`, `{dns}`, `{email}`, `{uri}`, `{ip}`, `{san}`, `{issuer}`, `{serial}`, `{fingerprint}`. It
/// uses the first of several values. `{*}` is the text that the star of the rule's first pattern with a star matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    Field(Field),
    Star,
}

/// An invalid pattern or template, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError(String);

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RuleError {}

impl CertificateRules {
    /// The common name is the user.
    ///
    /// # Panics
    /// Never: the template is valid.
    #[must_use]
    pub fn common_name() -> CertificateRules {
        let user = Some(Template(vec![Piece::Field(Field::CommonName)]));
        CertificateRules { rules: vec![CertificateRule { user, ..CertificateRule::default() }] }
    }

    /// The principal of a certificate's holder.
    pub(crate) fn principal(&self, certificate: &Certificate) -> Result<Principal, Refusal> {
        let fields = CertificateFields::of(certificate).ok_or_else(|| {
            Refusal::new(RefusalCode::Certificate, "the client's certificate is valid, but its names cannot be read")
        })?;
        self.rules.iter().find_map(|rule| rule.principal(&fields)).ok_or_else(|| {
            let log = format!("no certificate rule matches the client's certificate{}", RuleDisplay(&fields));
            Refusal::new(RefusalCode::NoRule, log)
        })
    }
}

impl CertificateRule {
    fn principal(&self, fields: &CertificateFields) -> Option<Principal> {
        let mut star = None;
        for pattern in &self.when {
            let found = fields.values(pattern.field).find_map(|value| pattern.matched(value))?;
            if pattern.after.is_some() {
                star.get_or_insert(found);
            }
        }
        let name = |template: &Option<Template>, bytes_max| match template {
            Some(template) => template.filled(fields, star, bytes_max).map(Some),
            None => Some(None),
        };
        Some(Principal {
            user: name(&self.user, USER_NAME_BYTES_MAX)?,
            client_id: name(&self.client_id, CLIENT_ID_BYTES_MAX)?,
            claims: fields.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            roles: self.roles.clone().into(),
            expires_at_unix_s: None,
            backend: "certificate",
        })
    }
}

impl Pattern {
    /// A pattern for the field called `field`.
    ///
    /// # Errors
    /// There is no such field, or the pattern has more than one star.
    pub fn new(field: &str, pattern: &str) -> Result<Pattern, RuleError> {
        let field = named(field)?;
        let (before, after) = match pattern.split_once('*') {
            Some((_, after)) if after.contains('*') => {
                return Err(RuleError(format!("{pattern}: a pattern may have only one *")));
            }
            Some((before, after)) => (before, Some(after.into())),
            None => (pattern, None),
        };
        Ok(Pattern { field, before: before.into(), after })
    }

    /// The text that the star matches; empty if there is no star.
    fn matched<'v>(&self, value: &'v str) -> Option<&'v str> {
        let rest = value.strip_prefix(&*self.before)?;
        match &self.after {
            Some(after) => rest.strip_suffix(&**after),
            None => rest.is_empty().then_some(rest),
        }
    }
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// A brace is unbalanced, or there is no such field.
    pub fn new(text: &str) -> Result<Template, RuleError> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once('{') {
            let (name, behind) = behind.split_once('}').ok_or_else(|| {
                RuleError(format!("{text}: a brace is not closed; write a field as {{cn}}, for example"))
            })?;
            pieces.push(Piece::Text(before.into()));
            pieces.push(if name == "*" { Piece::Star } else { Piece::Field(named(name)?) });
            rest = behind;
        }
        pieces.push(Piece::Text(rest.into()));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        if pieces.is_empty() {
            return Err(RuleError("a name must not be empty".to_owned()));
        }
        if pieces.iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains('}'))) {
            return Err(RuleError(format!("{text}: a brace is not opened; write a field as {{cn}}, for example")));
        }
        Ok(Template(pieces))
    }

    /// The filled template, if the certificate has all fields.
    fn filled(&self, fields: &CertificateFields, star: Option<&str>, bytes_max: usize) -> Option<Arc<str>> {
        let mut name = String::new();
        for piece in &self.0 {
            name.push_str(match piece {
                Piece::Text(text) => text,
                Piece::Field(field) => fields.values(*field).next()?,
                Piece::Star => star.filter(|star| !star.is_empty())?,
            });
        }
        (name.len() <= bytes_max).then(|| name.into())
    }
}

fn named(name: &str) -> Result<Field, RuleError> {
    let known = || Field::ALL.iter().copied();
    known().find(|field| field.name() == name).ok_or_else(|| {
        let names: Vec<&str> = known().map(Field::name).collect();
        RuleError(format!("unknown certificate field {}; known fields are {}", name.escape_debug(), names.join(", ")))
    })
}

/// The first common name, for the log.
struct RuleDisplay<'f>(&'f CertificateFields);

impl fmt::Display for RuleDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.values(Field::CommonName).next() {
            Some(name) => write!(f, " of {}", name.escape_debug()),
            None => Ok(()),
        }
    }
}
