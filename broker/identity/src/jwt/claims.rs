//! The claims of a verified token.

use tautwire_json::Value;

use crate::Claims;
use crate::limits::{CLAIM_BYTES_MAX, CLAIMS_MAX};

/// A time claim (RFC 7519, section 2: NumericDate), in whole seconds since 1970.
pub(super) fn time(claims: &Value, name: &str) -> Result<Option<u64>, String> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => {
            let seconds: f64 = number.parse().map_err(|_| format!("{name} is not a time"))?;
            // The conversion saturates: a time before 1970 is in the past, and a huge one never comes.
            if seconds.is_finite() { Ok(Some(seconds as u64)) } else { Err(format!("{name} is not a time")) }
        }
        Some(_) => Err(format!("{name} is not a time")),
    }
}

/// The claim of this name. A dot descends into an object: `realm_access.roles`. A claim whose own name contains the dots has precedence.
pub(super) fn at_path<'v>(claims: &'v Value, path: &str) -> Option<&'v Value> {
    claims
        .get(path)
        .or_else(|| path.match_indices('.').find_map(|(at, _)| at_path(claims.get(&path[..at])?, &path[at + 1..])))
}

/// The strings of a claim: a single one, or those of a list.
pub(super) fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Text(text) => vec![text],
        Value::List(items) => items.iter().filter_map(Value::as_text).collect(),
        _ => Vec::new(),
    }
}

/// All claims as names and values for access rules: lists become several values, and names in objects are joined with dots. Values over the
/// limits are skipped.
pub(super) fn flat(claims: &Value) -> Claims {
    let mut found = Vec::new();
    if let Value::Object(members) = claims {
        for (name, value) in members {
            collect(name, value, &mut found);
        }
    }
    found.into()
}

fn collect(name: &str, value: &Value, found: &mut Vec<(Box<str>, Box<str>)>) {
    if found.len() >= CLAIMS_MAX {
        return;
    }
    match value {
        Value::Text(text) | Value::Number(text) if name.len() + text.len() <= CLAIM_BYTES_MAX => {
            found.push((name.into(), text.as_str().into()));
        }
        Value::Bool(is) if name.len() < CLAIM_BYTES_MAX => {
            found.push((name.into(), if *is { "true" } else { "false" }.into()))
        }
        Value::List(items) => items.iter().for_each(|item| collect(name, item, found)),
        Value::Object(members) => {
            for (inner, value) in members {
                let name = format!("{name}.{inner}");
                if name.len() <= CLAIM_BYTES_MAX {
                    collect(&name, value, found);
                }
            }
        }
        _ => {}
    }
}
