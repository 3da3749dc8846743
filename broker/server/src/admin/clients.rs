//! Clients and their sessions: list, inspect, disconnect.

use tautwire_engine::{ClientDetail, ClientOrder, ClientSummary, ClientsQuery, DropEvent, Rank};
use tautwire_protocol::ProtocolVersion;
use tautwire_session::{SubscriptionRecord, session_name};

use super::query::{Query, bad_request, decoded};
use super::request_context::RequestContext;
use super::response::{JSON, Response, Status, not_found, ok};
use crate::fields::Fields;

/// Valid values of `sort`.
const ORDERS: [(&str, ClientOrder); 8] = [
    ("client_id", ClientOrder::ClientId),
    ("user", ClientOrder::User),
    ("queued_messages", ClientOrder::QueuedMessages),
    ("queued_bytes", ClientOrder::QueuedBytes),
    ("in_flight", ClientOrder::InFlight),
    ("subscriptions", ClientOrder::Subscriptions),
    ("memory_bytes", ClientOrder::HeldBytes),
    ("dropped_messages", ClientOrder::DroppedMessages),
];

/// The client that a request addresses.
pub(super) struct ClientSelector {
    /// The name of its session.
    pub(super) name: String,
    /// The remaining query parameters.
    pub(super) query: Query,
}

impl ClientSelector {
    pub(super) fn from_request(call: &RequestContext<'_, '_>) -> Result<ClientSelector, Response> {
        let mut query = Query::parse(&call.head.query)?;
        let client_id = decoded(call.name(0)).map_err(|why| bad_request(&format!("the Client Identifier: {why}")))?;
        let mount_point = query.take("mount_point");
        Ok(ClientSelector { name: session_name(mount_point.as_deref(), &client_id).into_owned(), query })
    }
}

pub(super) fn list(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let mut query = Query::parse(&call.head.query)?;
    let truth = |text: &str| text.parse::<bool>().ok();
    let orders = ORDERS.map(|(name, _)| name).join(", ");
    let request = ClientsQuery {
        text: query.take("search").unwrap_or_default().into(),
        connected: query.take_as("connected", "true or false", truth)?,
        is_stale: query.take_as("stale", "true or false", truth)?,
        listener: query.take("listener").map(Box::from),
        order: query
            .take_as("sort", &format!("one of {orders}"), |text| {
                ORDERS.iter().find(|(name, _)| *name == text).map(|(_, order)| *order)
            })?
            .unwrap_or_default(),
        descending: query.take_as("descending", "true or false", truth)?.unwrap_or(false),
        after: query.take_as("after", "the value of `next` in an earlier response", read_cursor)?,
        limit: query.take_limit()?,
    };
    query.finish("search, connected, stale, listener, sort, descending, after, limit")?;
    let page = call.admin.control.clients(&request, call.query_deadline())?;
    let is_full = page.clients.len() == request.limit;
    let next = page.clients.last().filter(|_| is_full).map(|(rank, _)| cursor(rank));
    let clients = page.clients.iter().map(|(_, summary)| to_fields(summary)).collect::<Vec<_>>();
    let body = Fields::default().with("matched", page.matched).with("clients", clients);
    Ok(ok(body.with("next", next.as_deref())))
}

pub(super) fn one(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let selector = ClientSelector::from_request(call)?;
    selector.query.finish("mount_point")?;
    let found = call.admin.control.client(&selector.name, call.query_deadline())?;
    let detail = found.ok_or_else(no_client)?;
    Ok(ok(detailed(&detail)))
}

pub(super) fn subscriptions(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let ClientSelector { name, mut query } = ClientSelector::from_request(call)?;
    let (after, limit) = (query.take("after").unwrap_or_default(), query.take_limit()?);
    query.finish("mount_point, after, limit")?;
    let found = call.admin.control.subscriptions(&name, &after, limit, call.query_deadline())?;
    let found = found.ok_or_else(no_client)?;
    let next = found.last().filter(|_| found.len() == limit).map(|(filter, _)| &**filter);
    let list = found.iter().map(|(filter, record)| subscription(filter, record)).collect::<Vec<_>>();
    Ok(ok(Fields::default().with("subscriptions", list).with("next", next)))
}

/// Disconnects the client; its session is kept.
pub(super) fn end_connection(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    end(call, false)
}

pub(super) fn end_session(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    end(call, true)
}

fn end(call: &RequestContext<'_, '_>, ends_session: bool) -> Result<Response, Response> {
    let selector = ClientSelector::from_request(call)?;
    selector.query.finish("mount_point")?;
    let found = call.admin.control.disconnect(&selector.name, ends_session, call.time_left())?;
    if !found {
        let message = if ends_session { "no such session" } else { "no such client is connected" };
        return Err(not_found(message));
    }
    Ok(Response::new(Status::NO_CONTENT, JSON, ""))
}

fn to_fields(summary: &ClientSummary) -> Fields {
    let mut object = Fields::default()
        .with("client_id", &*summary.client_id)
        .with("mount_point", summary.mount_point.as_deref())
        .with("user", summary.user.as_deref())
        .with("connected", summary.connection.is_some());
    if let Some(connection) = &summary.connection {
        let peer = connection.peer.map(|peer| peer.to_string());
        object = object
            .with("listener", &*connection.listener)
            .with("address", peer.as_deref())
            .with("encrypted", connection.is_encrypted)
            .with("protocol", protocol(connection.version))
            .with("keep_alive_s", connection.keep_alive_s)
            .with("connected_ms", connection.connected_ms)
            .with("last_received_ms", connection.last_received_ms)
            .with("output_bytes", connection.output_bytes)
            .with("connection_bytes", connection.held_bytes);
    }
    object
        .with("session_expiry_s", summary.session_expiry_s)
        .with("expires_at_ms", summary.ends_at_ms)
        .with("subscriptions", summary.subscriptions)
        .with("queued_messages", summary.queued_messages)
        .with("queued_bytes", summary.queued_bytes)
        .with("in_flight", summary.in_flight)
        .with("memory_bytes", summary.held_bytes)
        .with("disconnected_ms", summary.disconnected_ms)
        .with("stale", summary.is_stale)
        .with("dropped_messages", summary.dropped_messages)
}

fn detailed(detail: &ClientDetail) -> Fields {
    to_fields(&detail.summary)
        .with("resumed", detail.resumed)
        .with("send_maximum", detail.send_maximum)
        .with("maximum_packet_size_bytes", detail.maximum_packet_size_bytes)
        .with("inbound_in_flight", detail.receiving)
        .with("will_topic", detail.will_topic.as_deref())
        .with("roles", detail.roles.iter().map(|role| &**role).collect::<Vec<_>>())
        .with("authenticated_by", detail.authenticated_by)
        .with("paused_for", detail.reading_paused_for.clone())
        .with("pending_acks", detail.delayed_acks)
        .with("drops", detail.drops.iter().map(drop_event).collect::<Vec<_>>())
}

pub(super) fn drop_event(event: &DropEvent) -> Fields {
    let object = Fields::default().with("reason", event.reason.code()).with("topic", &*event.topic);
    object.with("count", event.count).with("last_ms", event.last_ms)
}

pub(super) fn subscription(filter: &str, record: &SubscriptionRecord) -> Fields {
    let options = &record.options;
    Fields::default()
        .with("filter", filter)
        .with("qos", options.qos.as_u8())
        .with("no_local", options.no_local)
        .with("retain_as_published", options.retain_as_published)
        .with("retain_handling", options.retain_handling as u8)
        .with("identifier", record.identifier.map(|identifier| identifier.get()))
        .with("format", record.format.map(|format| format.name()))
}

fn protocol(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::V5 => "5.0",
        ProtocolVersion::V3_1_1 => "3.1.1",
        ProtocolVersion::V3_1 => "3.1",
    }
}

/// The position of the next page as text that needs no percent-encoding.
fn cursor(rank: &Rank) -> String {
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{}.{}.{}", rank.number, hex(&rank.text), hex(&rank.name))
}

fn read_cursor(text: &str) -> Option<Rank> {
    let unhex = |hex: &str| {
        let digits: Vec<u8> =
            hex.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
        let pairs =
            digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]))?;
        String::from_utf8(pairs.collect()).ok()
    };
    let mut parts = text.splitn(3, '.');
    let number = parts.next()?.parse().ok()?;
    Some(Rank { number, text: unhex(parts.next()?)?.into(), name: unhex(parts.next()?)?.into() })
}

fn no_client() -> Response {
    not_found("the client has no session")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_round_trips() {
        let rank = Rank { number: 7, text: "ä.b".into(), name: "m/\0c".into() };
        assert_eq!(read_cursor(&cursor(&rank)), Some(rank));
        for wrong in ["", "1", "1.a.b", "1.zz.61", "x..", "1.c3.61", "-1.."] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }
}
