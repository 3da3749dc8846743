//! A live stream of published messages, as server-sent events.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hyper::body::Bytes;

use tautwire_contracts::Catalogue;
use tautwire_engine::{Tap, TappedMessage};
use tautwire_message::{MessageId, MessageRef};
use tautwire_reactor::TapGuard;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout_at;

use super::caller::Caller;
use super::payload::{Readable, base64};
use super::query::Query;
use super::request_context::RequestContext;
use super::response::{Response, Status};
use super::retained::filter;
use super::roles::Permission;
use super::state::AdminState;
use super::transport::Client;
use crate::fields::Fields;

/// Limit for open taps.
const TAPS_MAX: usize = 4;
/// Default limit of messages per second.
const RATE_DEFAULT: u32 = 50;
const RATE_MAX: u32 = 500;
/// Messages queued for writing: one second's worth.
const WAITING_MAX: usize = RATE_MAX as usize;
/// Interval at which skipped messages are reported and the client is checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of the comment lines that keep an otherwise silent connection open.
const COMMENT: Duration = Duration::from_secs(10);
/// Longest duration of a tap. After it the client has to open a new one, with a new permission check.
const TAP_MAX: Duration = Duration::from_secs(60 * 60);

const EVENTS: &str = "text/event-stream";

/// `GET /v1/tap`.
pub(super) fn answer(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let (admin, mut query) = (call.admin, Query::parse(&call.head.query)?);
    let filter = filter(&query.take("filter").unwrap_or_else(|| "#".to_owned()))?;
    let read = |text: &str| text.parse::<u32>().ok().filter(|rate| (1..=RATE_MAX).contains(rate));
    let rate = query.take_as("rate", &format!("a number from 1 to {RATE_MAX}"), read)?.unwrap_or(RATE_DEFAULT);
    query.finish("filter, rate")?;
    if call.head.is_head() {
        return Ok(Response::new(Status::OK, EVENTS, ""));
    }
    let counters = &admin.counters;
    if counters.taps.fetch_add(1, Ordering::AcqRel) >= TAPS_MAX {
        counters.taps.fetch_sub(1, Ordering::AcqRel);
        counters.taps_refused.fetch_add(1, Ordering::Relaxed);
        let why = format!("the limit of {TAPS_MAX} open taps is reached; close one");
        return Err(Response::error(Status::SERVICE_UNAVAILABLE, "busy", &why));
    }
    let (sender, messages) = channel(WAITING_MAX);
    let began = Instant::now();
    let by = call.by();
    audit(call.peer, &by, "tap_open", &filter, 0);
    let watching = admin.control.watch(Tap::new(filter.clone(), rate, move |tapped| sender.try_send(tapped).is_ok()));
    // One event is buffered; further messages stay in the message queue.
    let (events, parts) = channel(1);
    let mut stream = Stream {
        admin: admin.clone(),
        client: call.client.clone(),
        caller: call.caller.cloned(),
        events,
        shown: 0,
        peer: call.peer,
        by,
        filter,
    };
    Handle::current().spawn(async move {
        let _ended = stream.run(watching, messages, began + TAP_MAX).await;
    });
    Ok(Response::stream(EVENTS, parts))
}

/// The events of a tap.
struct Stream {
    admin: Arc<AdminState>,
    client: Client,
    /// The caller, for permission checks.
    caller: Option<Caller>,
    events: Sender<Bytes>,
    /// Messages written.
    shown: u64,
    peer: SocketAddr,
    by: String,
    filter: Box<str>,
}

/// The client has disconnected.
struct ClientDisconnected;

impl Stream {
    /// Writes events until the tap ends.
    async fn run(
        &mut self,
        watching: TapGuard,
        mut messages: Receiver<TappedMessage>,
        end: Instant,
    ) -> Result<(), ClientDisconnected> {
        self.write(": open\n\n".to_owned()).await?;
        let (mut next_look, mut next_comment) = (Instant::now() + POLL_INTERVAL, Instant::now() + COMMENT);
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            if now >= next_look {
                next_look = now + POLL_INTERVAL;
                if self.client.is_disconnected() || !self.is_still_allowed() {
                    return Ok(());
                }
                let skipped = watching.tap().take_skipped();
                if skipped > 0 {
                    self.admin.counters.tap_messages_skipped.fetch_add(skipped, Ordering::Relaxed);
                    self.write_event("skipped", &Fields::default().with("count", skipped)).await?;
                    next_comment = now + COMMENT;
                }
            }
            if now >= next_comment {
                next_comment = now + COMMENT;
                self.write(": still here\n\n".to_owned()).await?;
            }
            match timeout_at(next_look.min(end).into(), messages.recv()).await {
                Ok(Some(tapped)) => {
                    let to_fields = to_fields(&self.admin.control.contracts(), &tapped);
                    self.write_event("message", &to_fields).await?;
                    self.shown += 1;
                    next_comment = now + COMMENT;
                }
                // Time for the next check.
                Err(_) => {}
                Ok(None) => return Ok(()),
            }
        }
    }

    fn is_still_allowed(&self) -> bool {
        self.caller.as_ref().is_some_and(|caller| self.admin.is_still_allowed(caller, Permission::Payloads))
    }

    async fn write_event(&self, name: &str, data: &Fields) -> Result<(), ClientDisconnected> {
        let mut json = String::new();
        data.push_json(&mut json);
        // A line break would end the event; in JSON it only occurs between values.
        let json = json.replace(['\n', '\r'], " ");
        self.write(format!("event: {name}\ndata: {json}\n\n")).await
    }

    /// Writes one whole event: each part of the body is one HTTP chunk.
    async fn write(&self, text: String) -> Result<(), ClientDisconnected> {
        self.events.send(text.into()).await.map_err(|_| ClientDisconnected)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.admin.counters.taps.fetch_sub(1, Ordering::AcqRel);
        audit(self.peer, &self.by, "tap_closed", &self.filter, self.shown);
    }
}

fn to_fields(contracts: &Catalogue, tapped: &TappedMessage) -> Fields {
    let TappedMessage { at_ms, topic, qos, retain, client_id, properties, payload, payload_bytes } = tapped;
    let fields = Fields::default()
        .with("at_ms", *at_ms)
        .with("topic", &**topic)
        .with("qos", qos.as_u8())
        .with("retain", *retain)
        .with("client_id", client_id.as_deref())
        .with("payload_bytes", *payload_bytes);
    let is_cut = payload.len() < *payload_bytes;
    let readable = if is_cut {
        text_of_part(payload)
    } else {
        let message = MessageRef {
            id: MessageId::NONE,
            topic,
            properties,
            payload,
            qos: *qos,
            retain: *retain,
            expires_at_ms: None,
        };
        Readable::of(contracts, &message)
    };
    let fields = match readable {
        Readable::Bytes => fields.with("payload_base64", base64(payload)),
        readable => readable.add_to(fields),
    };
    let fields = fields.with("contract", contracts.find(topic).map(|contract| contract.name()));
    if is_cut { fields.with("truncated", true) } else { fields }
}

/// The start of a truncated payload, if it is text. A partial last character is dropped.
fn text_of_part(payload: &[u8]) -> Readable {
    let whole = match str::from_utf8(payload) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => str::from_utf8(&payload[..error.valid_up_to()]).ok(),
        Err(_) => None,
    };
    whole.map_or(Readable::Bytes, |text| Readable::Text(text.to_owned()))
}

fn audit(peer: SocketAddr, by: &str, event: &str, filter: &str, shown: u64) {
    let address = peer.to_string();
    log::error!(
        target: crate::log::audit::TARGET,
        event = event, filter = filter, actor = by, address = &*address, messages = shown;
        ""
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_character_is_omitted() {
        let text = |bytes: &[u8]| match text_of_part(bytes) {
            Readable::Text(text) => Some(text),
            _ => None,
        };
        assert_eq!(text("aé".as_bytes()).as_deref(), Some("aé"));
        assert_eq!(text(&"aé".as_bytes()[..2]).as_deref(), Some("a"));
        assert_eq!(text(b"a\xff"), None);
    }
}
