//! Retained messages: list, show, remove; and the topic tree.

use tautwire_contracts::Catalogue;
use tautwire_engine::{FetchedMessage, RetainedQuery, TopicsQuery};
use tautwire_message::Body;
use tautwire_protocol::{TopicFilter, TopicName};

use super::messages::publish_error_response;
use super::payload::{Readable, base64, content_type};
use super::query::{Query, bad_request, decoded};
use super::request_context::RequestContext;
use super::response::{Response, Status, not_found, ok};
use crate::fields::Fields;

/// Largest payload that is shown.
const SHOWN_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Topics that clients cannot change, so there is nothing to remove below them.
const RESERVED: [&str; 4] = ["$SYS", "$share", "$as", "$quarantine"];

/// `GET /v1/retained`.
pub(super) fn list(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let (admin, mut query) = (call.admin, Query::parse(&call.head.query)?);
    let filter = filter(&query.take("filter").unwrap_or_else(|| "#".to_owned()))?;
    let after = query.take("after").map(Box::from);
    let limit = query.take_limit()?;
    query.finish("filter, limit, after")?;
    let request = RetainedQuery { filter, after, limit };
    let page = admin.control.retained_messages(request, call.query_deadline())?;
    let contracts = admin.control.contracts();
    let next = page.messages.last().filter(|_| page.messages.len() == limit).map(|(topic, _)| &**topic);
    let messages = page.messages.iter().map(|(topic, body)| to_fields(&contracts, topic, body)).collect::<Vec<_>>();
    Ok(ok(Fields::default().with("matched", page.matched).with("messages", messages).with("next", next)))
}

/// `GET /v1/retained/{+topic}`.
pub(super) fn show(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let admin = call.admin;
    Query::parse(&call.head.query)?.finish("none")?;
    let topic = decoded(call.name(0)).map_err(|why| bad_request(&format!("the topic: {why}")))?;
    TopicName::new(&topic).map_err(|error| bad_request(&format!("the topic: {error}")))?;
    let fetched = admin.control.retained_message(&topic, call.query_deadline())?;
    let message = match fetched {
        FetchedMessage::Message(message) => message,
        FetchedMessage::Nothing => return Err(not_found("no retained message on that topic")),
        FetchedMessage::Unreadable => {
            let why = "cannot read the message from disk; see the log";
            return Err(Response::error(Status::INTERNAL, "unreadable", why));
        }
    };
    let contracts = admin.control.contracts();
    let fields = to_fields(&contracts, &topic, &Body::Loaded(message.clone()));
    let payload = message.payload();
    if payload.len() > SHOWN_MAX_BYTES {
        let why = format!("the payload has {} bytes; the limit is {SHOWN_MAX_BYTES}", payload.len());
        return Err(Response::error(Status::UNPROCESSABLE, "payload_too_large", &why));
    }
    let (by, address) = (call.by(), call.peer.to_string());
    log::error!(
        target: crate::log::audit::TARGET,
        event = "retained_read", topic = &*topic, actor = &*by, address = &*address;
        ""
    );
    let fields = fields.with("payload_base64", base64(payload));
    Ok(ok(Readable::of(&contracts, &message.as_ref()).add_to(fields)))
}

/// `DELETE /v1/retained`.
pub(super) fn remove(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let (admin, mut query) = (call.admin, Query::parse(&call.head.query)?);
    let given = query
        .take("filter")
        .ok_or_else(|| bad_request("filter is missing: the topic filter of the messages to remove"))?;
    let filter = filter(&given)?;
    query.finish("filter")?;
    if filter.split('/').next().is_some_and(|first| RESERVED.contains(&first)) {
        let why = "messages that the broker publishes cannot be removed";
        return Err(Response::error(Status::FORBIDDEN, "not_authorized", why));
    }
    let timeout = call.time_left();
    let removed = admin.control.remove_retained(&filter, timeout).map_err(|error| publish_error_response(&error))?;
    let fields = Fields::default().with("deleted", removed.removed).with("refused", removed.refused);
    Ok(ok(fields.with("more", removed.has_more)))
}

/// `GET /v1/topics`.
pub(super) fn topics(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let (admin, mut query) = (call.admin, Query::parse(&call.head.query)?);
    let below = query.take("parent");
    if let Some(below) = below.as_deref().filter(|below| !below.is_empty()) {
        TopicName::new(below).map_err(|error| bad_request(&format!("parent: {error}")))?;
    }
    let after = query.take("after").map(Box::from);
    let limit = query.take_limit()?;
    query.finish("parent, limit, after")?;
    let request = TopicsQuery { below: below.as_deref().map(Box::from), after, limit };
    let found = admin.control.topics(request, call.query_deadline())?;
    let next = found.last().filter(|_| found.len() == limit).map(|(level, _)| &**level);
    let levels = found.iter().map(|(level, summary)| {
        let topic = below.as_ref().map_or_else(|| level.to_string(), |below| format!("{below}/{level}"));
        let fields = Fields::default().with("level", &**level).with("topic", topic);
        fields.with("retained", summary.retained).with("descendants", summary.below)
    });
    Ok(ok(Fields::default().with("levels", levels.collect::<Vec<_>>()).with("next", next)))
}

pub(super) fn filter(text: &str) -> Result<Box<str>, Response> {
    let filter = TopicFilter::new(text).map_err(|error| bad_request(&format!("filter: {error}")))?;
    if filter.matched() != text {
        return Err(bad_request("filter: a shared subscription is not allowed here"));
    }
    Ok(text.into())
}

/// The fields of a message, without its payload. The Content Type of a message on disk is not known here.
fn to_fields(contracts: &Catalogue, topic: &str, body: &Body) -> Fields {
    let content_type = body.loaded().and_then(|message| content_type(message.as_ref().properties).map(str::to_owned));
    Fields::default()
        .with("topic", topic)
        .with("qos", body.qos().as_u8())
        .with("payload_bytes", body.payload_bytes())
        .with("expires_ms", body.expires_at_ms())
        .with("content_type", content_type)
        .with("contract", contracts.find(topic).map(|contract| contract.name()))
}
