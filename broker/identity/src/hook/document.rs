//! The JSON documents of a hook: requests and responses.

use base64ct::{Base64, Encoding as _};
use tautwire_json::{Value, push_string};

use crate::limits::{CLAIM_BYTES_MAX, CLAIMS_MAX, CLIENT_ID_BYTES_MAX, ROLES_MAX, USER_NAME_BYTES_MAX};
use crate::text::checked_name;
use crate::{AuthAttempt, CertificateFields, Claims, Principal, Secret};

/// The decision of a hook.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum HookDecision {
    Allow(Principal),
    /// The reason is for the log.
    Deny(Option<Box<str>>),
    /// The hook does not know the client; the next backend is asked.
    Ignore,
}

impl std::fmt::Debug for HookDecision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HookDecision::Allow(principal) => principal.fmt(f),
            HookDecision::Deny(_) => f.write_str("Deny"),
            HookDecision::Ignore => f.write_str("Ignore"),
        }
    }
}

impl HookDecision {
    /// Removes a reason that contains the client's password, which must not be logged.
    pub(super) fn without_password(self, attempt: &AuthAttempt) -> HookDecision {
        let has_password = |why: &str| {
            let password = attempt.password.as_ref().map(|password| password.expose()).filter(|it| !it.is_empty());
            password.is_some_and(|password| why.as_bytes().windows(password.len()).any(|part| part == password))
        };
        match self {
            HookDecision::Deny(Some(why)) if has_password(&why) => HookDecision::Deny(None),
            decision => decision,
        }
    }
}

/// The request document for an attempt.
pub(super) fn request(attempt: &AuthAttempt) -> Secret {
    let origin = &attempt.origin;
    // Allocated with enough capacity, so that no copy of the password is left behind by reallocation.
    let length = attempt.password.as_ref().map_or(0, |password| password.expose().len());
    let mut text = String::with_capacity(4_096 + 6 * length);
    text.push_str("{\"version\":1,\"client_id\":");
    push_string(&mut text, &attempt.client_id);
    if let Some(name) = &attempt.user_name {
        field(&mut text, "user_name", name);
    }
    if let Some(password) = &attempt.password {
        match str::from_utf8(password.expose()) {
            Ok(password) => field(&mut text, "password", password),
            Err(_) => field(&mut text, "password_base64", &Base64::encode_string(password.expose())),
        }
    }
    field(&mut text, "listener", &origin.listener);
    if let Some(address) = origin.address {
        field(&mut text, "address", &address.to_canonical().to_string());
    }
    if let Some(uid) = origin.peer_uid {
        text.push_str(&format!(",\"peer_uid\":{uid}"));
    }
    let encrypted = if origin.is_encrypted { "true" } else { "false" };
    let mqtt = if attempt.is_v5 { "5" } else { "3" };
    text.push_str(&format!(",\"encrypted\":{encrypted},\"mqtt\":{mqtt}"));
    if let Some(fields) = origin.certificate.as_ref().and_then(CertificateFields::of) {
        push_certificate(&mut text, &fields);
    }
    text.push('}');
    Secret::new(text)
}

fn field(text: &mut String, name: &str, value: &str) {
    text.push_str(&format!(",\"{name}\":"));
    push_string(text, value);
}

fn push_certificate(text: &mut String, fields: &CertificateFields) {
    text.push_str(",\"certificate\":{");
    let mut names: Vec<&str> = fields.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    for (index, name) in names.into_iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        push_string(text, name);
        text.push_str(":[");
        for (index, (_, value)) in fields.iter().filter(|(known, _)| *known == name).enumerate() {
            text.push_str(if index == 0 { "" } else { "," });
            push_string(text, value);
        }
        text.push(']');
    }
    text.push('}');
}

/// Parses a response: the decision, and the maximum number of seconds to cache it.
pub(super) fn response(body: &[u8], user_name: Option<&str>) -> Result<(HookDecision, Option<u64>), String> {
    let text = str::from_utf8(body).map_err(|_| "it is not UTF-8")?;
    let value = tautwire_json::parse(text).map_err(|error| format!("it is not JSON: {}", error.message))?;
    if value.has_duplicates() {
        return Err("it has a duplicate name".to_owned());
    }
    let cache_s = number(&value, "cache_s")?;
    let decision = match value.get("result").and_then(Value::as_text) {
        Some("allow") => HookDecision::Allow(principal(&value, user_name)?),
        Some("deny") => HookDecision::Deny(value.get("reason").and_then(Value::as_text).map(Into::into)),
        Some("ignore") => HookDecision::Ignore,
        _ => return Err("its result is not allow, deny or ignore".to_owned()),
    };
    Ok((decision, cache_s))
}

fn principal(value: &Value, user_name: Option<&str>) -> Result<Principal, String> {
    let name = |field: &str, bytes_max| match value.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(name)) => checked_name(name, bytes_max)
            .map(Some)
            .ok_or_else(|| format!("{field} is empty, too long, or has control characters")),
        Some(other) => Err(format!("{field} is {}, not a string", other.kind())),
    };
    // If the hook gives no user, the client has its user name. `null` makes it anonymous.
    let user = match (value.get("user"), user_name) {
        (None, Some(user_name)) => Some(
            checked_name(user_name, USER_NAME_BYTES_MAX)
                .ok_or("the client's user name is not valid, and the response gives no user")?,
        ),
        _ => name("user", USER_NAME_BYTES_MAX)?,
    };
    Ok(Principal {
        user,
        client_id: name("client_id", CLIENT_ID_BYTES_MAX)?,
        claims: claims(value)?,
        roles: roles(value)?,
        expires_at_unix_s: number(value, "expires_at")?,
        backend: "hook",
    })
}

fn claims(value: &Value) -> Result<Claims, String> {
    let members = match value.get("claims") {
        None | Some(Value::Null) => return Ok(Box::default()),
        Some(Value::Object(members)) => members,
        Some(_) => return Err("claims is not an object".to_owned()),
    };
    let mut claims: Vec<(Box<str>, Box<str>)> = Vec::new();
    for (name, value) in members {
        let values = match value {
            Value::List(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let text = value.as_text().ok_or_else(|| "a claim is neither a string nor a list of strings".to_owned())?;
            if name.len() + text.len() > CLAIM_BYTES_MAX || claims.len() >= CLAIMS_MAX {
                return Err("there are too many claims, or one is too long".to_owned());
            }
            claims.push((name.as_str().into(), text.into()));
        }
    }
    Ok(claims.into())
}

fn roles(value: &Value) -> Result<Box<[Box<str>]>, String> {
    let items = match value.get("roles") {
        None | Some(Value::Null) => return Ok(Box::default()),
        Some(Value::List(items)) if items.len() <= ROLES_MAX => items,
        Some(_) => return Err(format!("roles is not a list of at most {ROLES_MAX} strings")),
    };
    items.iter().map(|item| item.as_text().map(Into::into).ok_or_else(|| "a role is not a string".to_owned())).collect()
}

/// A non-negative whole number.
fn number(value: &Value, name: &str) -> Result<Option<u64>, String> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => {
            number.parse().map(Some).map_err(|_| format!("{name} is not a non-negative whole number"))
        }
        Some(_) => Err(format!("{name} is not a number")),
    }
}
