//! Bans, by the admin API.

use tautwire_identity::{Ban, BanError, Banned};

use super::Admin;
use super::request::{Head, Reading};
use super::response::{JSON, Response, Status};
use crate::identity::ban_file;
use crate::json::{self, Value};

/// Who can be banned, as it is called in JSON.
const KINDS: &str = "client_id, user or network";

/// All bans that hold.
pub(super) fn list(admin: &Admin) -> Response {
    let porter = admin.reloader.porter();
    let body = ban_file::to_json(&porter.bans().list(porter.now()));
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
    kept(admin, Response::new(Status::CREATED, JSON, "{}\n"))
}

/// Takes a ban back.
pub(super) fn remove(admin: &Admin, head: &Head, reading: &mut Reading<'_>) -> Response {
    let who = match asked(head, reading) {
        Ok((who, _)) => who,
        Err(refusal) => return refusal,
    };
    if admin.reloader.porter().bans().remove(&who) {
        log::info!("admin: {who} is not banned any more");
        return kept(admin, Response::new(Status::NO_CONTENT, JSON, ""));
    }
    Response::error(Status::NOT_FOUND, "not_found", "there is no such ban")
}

/// Writes down what holds now, where there is a file for it.
fn kept(admin: &Admin, done: Response) -> Response {
    match admin.reloader.porter().keep_bans() {
        Ok(()) => done,
        Err(error) => {
            log::error!("bans are not kept: {error}");
            let message = format!("it is so until the broker ends, and not after a restart: {error}");
            Response::error(Status::INTERNAL, "bans_not_written", &message)
        }
    }
}

/// Who is meant by the body of a request.
fn asked(head: &Head, reading: &mut Reading<'_>) -> Result<(Banned, Value), Response> {
    let text = str::from_utf8(reading.body(head)?).map_err(|_| wrong("the body is not UTF-8"))?;
    let value = json::parse(text).map_err(|error| {
        let message = format!("the body is no JSON: {} at byte {}", error.message, error.offset);
        Response::error(Status::BAD_REQUEST, "bad_json", &message)
    })?;
    let who = ban_file::banned(&value).map_err(|why| match why {
        Some(why) => wrong(&why),
        None => wrong(&format!("say who is meant by one of {KINDS}")),
    })?;
    Ok((who, value))
}

fn wrong(message: &str) -> Response {
    Response::error(Status::UNPROCESSABLE, "ban_value", message)
}
