//! What is published, as a stream of events.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use tautwire_contracts::Catalogue;
use tautwire_engine::{Tap, Tapped};
use tautwire_message::{MessageId, MessageRef};

use super::Admin;
use super::caller::Caller;
use super::connection::Connection;
use super::payload::{Readable, base64};
use super::response::{Response, STREAMED, Status};
use super::retained::filter;
use super::roles::Needs;
use super::routes::Call;
use super::spelled::Query;
use crate::fields::Fields;

/// Taps open at once. Each has one of the requests that may be under way.
const TAPS_MAX: usize = 4;
/// Messages in a second, where the request does not say how many.
const RATE_DEFAULT: u32 = 50;
const RATE_MAX: u32 = 500;
/// Messages that wait to be written: as many as come in a second.
const WAITING_MAX: usize = RATE_MAX as usize;
/// Time between two looks at what was skipped, and whether anybody still reads.
const LOOK: Duration = Duration::from_secs(1);
/// Time after which a line is written that says nothing, so that everybody on the way knows that the connection lives.
const COMMENT: Duration = Duration::from_secs(10);
/// Time for the reader to take what is written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// After this a tap ends, and whoever wants more has to ask, and to be allowed, again.
const TAP_MAX: Duration = Duration::from_secs(60 * 60);

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
                    X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n: open\n\n";

/// `GET /v1/tap`.
pub(super) fn answer(call: &mut Call<'_, '_>) -> Result<Response, Response> {
    let (admin, mut query) = (call.admin, Query::parse(&call.head.query)?);
    let filter = filter(&query.take("filter").unwrap_or_else(|| "#".to_owned()))?;
    let read = |text: &str| text.parse::<u32>().ok().filter(|rate| (1..=RATE_MAX).contains(rate));
    let rate = query.take_as("rate", &format!("a number from 1 to {RATE_MAX}"), read)?.unwrap_or(RATE_DEFAULT);
    query.finish("filter, rate")?;
    let counters = &admin.counters;
    if counters.taps.fetch_add(1, Ordering::AcqRel) >= TAPS_MAX {
        counters.taps.fetch_sub(1, Ordering::AcqRel);
        counters.taps_refused.fetch_add(1, Ordering::Relaxed);
        let why = format!("{TAPS_MAX} taps are open, which is as many as may be; close one");
        return Err(Response::error(Status::SERVICE_UNAVAILABLE, "busy", &why));
    }
    let (sender, messages) = sync_channel(WAITING_MAX);
    let began = Instant::now();
    let by = call.by();
    audit(call.peer, &by, "tap_open", &filter, 0);
    let watching = admin.control.watch(Tap::new(filter.clone(), rate, move |tapped| sender.try_send(tapped).is_ok()));
    let mut stream = Stream { connection: call.reading.connection(), caller: call.caller, shown: 0 };
    let _ended = stream.run(admin, watching.tap(), &messages, began + TAP_MAX);
    drop(watching);
    counters.taps.fetch_sub(1, Ordering::AcqRel);
    audit(call.peer, &by, "tap_closed", &filter, stream.shown);
    Ok(Response::new(Status::OK, STREAMED, ""))
}

/// The connection of a tap.
struct Stream<'s> {
    connection: &'s Connection,
    /// Who watches.
    caller: Option<&'s Caller>,
    /// Messages written.
    shown: u64,
}

impl Stream<'_> {
    /// Writes what comes until the end.
    ///
    /// # Errors
    /// Nobody reads any more.
    fn run(&mut self, admin: &Admin, tap: &Tap, messages: &Receiver<Tapped>, end: Instant) -> io::Result<()> {
        self.write(HEAD)?;
        let (mut next_look, mut next_comment) = (Instant::now() + LOOK, Instant::now() + COMMENT);
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            if now >= next_look {
                next_look = now + LOOK;
                self.look_for_end()?;
                if !self.caller.is_some_and(|caller| admin.still_may(caller, Needs::Payloads)) {
                    return Ok(());
                }
                let skipped = tap.take_skipped();
                if skipped > 0 {
                    admin.counters.tap_messages_skipped.fetch_add(skipped, Ordering::Relaxed);
                    self.write_event("skipped", &Fields::default().with("count", skipped))?;
                    next_comment = now + COMMENT;
                }
            }
            if now >= next_comment {
                next_comment = now + COMMENT;
                self.write(": still here\n\n")?;
            }
            match messages.recv_timeout(next_look.min(end).saturating_duration_since(now)) {
                Ok(tapped) => {
                    self.write_event("message", &described(&admin.control.contracts(), &tapped))?;
                    self.shown += 1;
                    next_comment = now + COMMENT;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// # Errors
    /// The other end has closed.
    fn look_for_end(&self) -> io::Result<()> {
        match self.connection.read(&mut [0; 256], Instant::now() + Duration::from_millis(1)) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn write_event(&self, name: &str, data: &Fields) -> io::Result<()> {
        let mut json = String::new();
        data.push_json(&mut json);
        // A line break would end the event; in JSON it stands between values alone.
        let json = json.replace(['\n', '\r'], " ");
        self.write(&format!("event: {name}\ndata: {json}\n\n"))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        self.connection.write_all(text.as_bytes(), Instant::now() + WRITE_TIMEOUT)
    }
}

fn described(contracts: &Catalogue, tapped: &Tapped) -> Fields {
    let Tapped { at_ms, topic, qos, retain, client_id, properties, payload, payload_bytes } = tapped;
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
    if is_cut { fields.with("cut", true) } else { fields }
}

/// The beginning of a payload, if it is text: a character may have been cut in two.
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
        event = event, filter = filter, by = by, address = &*address, messages = shown;
        ""
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_cut_in_two_is_left_out() {
        let text = |bytes: &[u8]| match text_of_part(bytes) {
            Readable::Text(text) => Some(text),
            _ => None,
        };
        assert_eq!(text("aé".as_bytes()).as_deref(), Some("aé"));
        assert_eq!(text(&"aé".as_bytes()[..2]).as_deref(), Some("a"));
        assert_eq!(text(b"a\xff"), None);
    }
}
