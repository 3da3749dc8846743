//! Bans, by the admin API.

use std::fmt::Write as _;

use tautwire_identity::{Ban, BanError, Banned};

use super::Admin;
use super::request::{Head, Reading};
use super::response::{JSON, Response, Status};
use crate::json::{self, Value, push_string};

/// Who can be banned, as it is called in JSON.
const KINDS: &str = "client_id, user or network";

/// All bans that hold.
pub(super) fn list(admin: &Admin) -> Response {
    let porter = admin.reloader.porter();
    let mut body = String::from("{\"bans\":[");
    for (at, Ban { who, until_unix_s, why }) in porter.bans().list(porter.now()).iter().enumerate() {
        body.push_str(if at > 0 { ",{" } else { "{" });
        let (kind, name) = match who {
            Banned::ClientId(name) => ("client_id", name.to_string()),
            Banned::User(name) => ("user", name.to_string()),
            Banned::Network(network) => ("network", network.to_string()),
        };
        push_string(&mut body, kind);
        body.push(':');
        push_string(&mut body, &name);
        match until_unix_s {
            Some(until) => _ = write!(body, ",\"until_unix_s\":{until}"),
            None => body.push_str(",\"until_unix_s\":null"),
        }
        body.push_str(",\"why\":");
        push_string(&mut body, why);
        body.push('}');
    }
    body.push_str("]}\n");
    Response::new(Status::OK, JSON, body)
}

/// Bans somebody, or changes the ban; who is connected under that name is disconnected.
pub(super) fn add(admin: &Admin, head: &Head, reading: &mut Reading<'_>) -> Response {
    let (who, value) = match asked(head, reading) {
        Ok(asked) => asked,
        Err(refusal) => return refusal,
    };
    let seconds = match value.get("seconds") {
        None | Some(Value::Null) => None,
        Some(Value::Number(text)) => match text.parse::<u64>() {
            Ok(seconds) => Some(seconds),
            Err(_) => return wrong("seconds: expected a whole number"),
        },
        Some(_) => return wrong("seconds: expected a whole number"),
    };
    let porter = admin.reloader.porter();
    let now = porter.now();
    let until_unix_s = seconds.map(|seconds| now.unix_s.saturating_add(seconds));
    let ban = Ban { who: who.clone(), until_unix_s, why: value.text("why").into() };
    if let Err(error) = porter.bans().add(ban, now) {
        return match error {
            BanError::Full => Response::error(Status::CONFLICT, "bans_full", "there are as many bans as may be"),
            BanError::Reason => wrong("why: the reason is too long"),
        };
    }
    log::info!("admin: {who} is banned");
    admin.reloader.enforce_bans();
    Response::new(Status::CREATED, JSON, "{}\n")
}

/// Takes a ban back.
pub(super) fn remove(admin: &Admin, head: &Head, reading: &mut Reading<'_>) -> Response {
    let who = match asked(head, reading) {
        Ok((who, _)) => who,
        Err(refusal) => return refusal,
    };
    if admin.reloader.porter().bans().remove(&who) {
        log::info!("admin: {who} is not banned any more");
        return Response::new(Status::NO_CONTENT, JSON, "");
    }
    Response::error(Status::NOT_FOUND, "not_found", "there is no such ban")
}

/// Who is meant by the body of a request.
fn asked(head: &Head, reading: &mut Reading<'_>) -> Result<(Banned, Value), Response> {
    let text = str::from_utf8(reading.body(head)?).map_err(|_| wrong("the body is not UTF-8"))?;
    let value = json::parse(text).map_err(|error| {
        let message = format!("the body is no JSON: {} at byte {}", error.message, error.offset);
        Response::error(Status::BAD_REQUEST, "bad_json", &message)
    })?;
    let named = |name: &str| value.get(name).and_then(Value::as_text).filter(|text| !text.is_empty());
    let who = match (named("client_id"), named("user"), named("network")) {
        (Some(name), None, None) => Banned::ClientId(name.into()),
        (None, Some(name), None) => Banned::User(name.into()),
        (None, None, Some(network)) => Banned::Network(network.parse().map_err(|error: String| wrong(&error))?),
        _ => return Err(wrong(&format!("say who is meant by one of {KINDS}"))),
    };
    Ok((who, value))
}

fn wrong(message: &str) -> Response {
    Response::error(Status::UNPROCESSABLE, "ban_value", message)
}
