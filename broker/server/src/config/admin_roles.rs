//! Users of the password file that may use the admin API.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use super::value::{Setting, ValueError, quoted, texts};
use crate::admin::{Grant, Role};

/// Users with their roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AdminRoles(pub(crate) Vec<(Box<str>, Grant)>);

impl Setting for AdminRoles {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"USER = ROLE\" or \"USER = ROLE payloads\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let mut users: Vec<(Box<str>, Grant)> = Vec::new();
        for text in texts::<Self>(value)? {
            let (name, grant) = user(text).ok_or_else(|| {
                ValueError::Range(format!(
                    "\"{}\" is not a user, \"=\" and one of read, operate, administer; write it like \"ann = operate\" or \
                     \"ann = operate payloads\"",
                    text.escape_debug()
                ))
            })?;
            if users.iter().any(|(known, _)| **known == *name) {
                return Err(ValueError::Range(format!("\"{}\" is listed twice", name.escape_debug())));
            }
            users.push((name.into(), grant));
        }
        Ok(Self(users))
    }

    fn to_toml(&self) -> String {
        let users = self.0.iter().map(|(name, Grant { role, payloads })| {
            quoted(&format!("{name} = {role}{}", if *payloads { " payloads" } else { "" }))
        });
        format!("[{}]", users.collect::<Vec<_>>().join(", "))
    }
}

fn user(text: &str) -> Option<(&str, Grant)> {
    let (name, grant) = text.rsplit_once('=')?;
    let mut words = grant.split_whitespace();
    let role = Role::named(words.next()?)?;
    let payloads = match (words.next(), words.next()) {
        (None, _) => false,
        (Some("payloads"), None) => true,
        _ => return None,
    };
    Some((name.trim(), Grant { role, payloads })).filter(|(name, _)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_round_trip() {
        let text = "[\"ann = administer payloads\", \"b=c = read\"]";
        let value = |text: &str| AdminRoles::from_toml(DeValue::parse(text).expect("TOML").get_ref(), None);
        let roles = value(text).expect("two users");
        assert_eq!(roles.0[0], ("ann".into(), Grant { role: Role::Administer, payloads: true }));
        assert_eq!(roles.0[1], ("b=c".into(), Grant { role: Role::Read, payloads: false }));
        assert_eq!(roles.to_toml(), text);
        for wrong in [
            "\"ann\"",
            "\"ann = root\"",
            "\"= read\"",
            "\"ann = read write\"",
            "\"a = read payloads x\"",
            "[\"a = read\", \"a = operate\"]",
            "3",
        ] {
            assert!(value(wrong).is_err(), "{wrong}");
        }
    }
}
