//! Fetches the contracts of a broker over MQTT.

use std::fmt;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use tautwire_client::blocking::Subscription;
use tautwire_client::{Error, Message, Publication, Published, Subscribe};
use tautwire_contracts::{Catalogue, Format, discovery};
use tautwire_protocol::{QoS, ReasonCode};

use super::{ConnectOptions, Connection, WaitOutcome};
use crate::json::push_string;

const REQUEST: &str = "$SYS/contracts/request";
const RESPONSE: &str = "$SYS/contracts/response";
/// The topic on which the broker publishes changes of its contracts.
pub(crate) const INDEX: &str = "$SYS/contracts/index.json";
/// Contracts per request.
const PAGE: usize = 20;

/// Why the contracts of a broker are unknown.
#[derive(Debug)]
pub(crate) enum DiscoveryError {
    /// The request failed.
    Client(Error),
    /// The broker denied the request.
    Denied(String),
    /// There was no valid response.
    Response(String),
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Denied(why) | Self::Response(why) => write!(f, "cannot get the contracts of the server: {why}"),
        }
    }
}

impl From<Error> for DiscoveryError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl ConnectOptions {
    /// Options for an additional connection.
    fn second_connection(&self) -> ConnectOptions {
        ConnectOptions {
            client_id: format!("tautwire-find-{:08x}", tautwire_router::random() as u32),
            clean_start: true,
            will: None,
            properties: Vec::new(),
            disconnect_properties: Vec::new(),
            ..self.clone()
        }
    }
}

/// Fetches the current contracts, or only the one for `topic`. Uses a separate connection, so that nothing interferes.
///
/// # Errors
/// Those of connecting; no response in time; an invalid response.
pub(crate) fn contracts(options: &ConnectOptions, topic: Option<&str>) -> Result<Catalogue, DiscoveryError> {
    let deadline = Instant::now() + options.timeout;
    let mut connection = Connection::open(options.second_connection())?;
    // The broker responds to the requester without a subscription; this is where the client delivers the response.
    let mut responses = connection.client.listen(Subscribe::to(RESPONSE))?;
    let mut pages: Vec<discovery::Page> = Vec::new();
    loop {
        let after = pages.last().map_or("", |page| &page.next);
        if !pages.is_empty() && after.is_empty() {
            break;
        }
        let mut request = format!("{{\"schemas\":true,\"limit\":{PAGE},\"after\":");
        push_string(&mut request, after);
        request.push_str(",\"topic\":");
        push_string(&mut request, topic.unwrap_or_default());
        request.push('}');
        let response = match send_request(&mut connection, &mut responses, &request, deadline)? {
            WaitOutcome::Ready(response) => response,
            WaitOutcome::Deadline => {
                let seconds = options.timeout.as_secs_f32();
                let why = format!("no response to {REQUEST} within {seconds} s; is it a Tautwire broker?");
                return Err(DiscoveryError::Response(why));
            }
            WaitOutcome::Interrupted => return Err(Error::Lost("interrupted".into()).into()),
        };
        pages.push(discovery::read(Format::Json, response.payload()).map_err(DiscoveryError::Response)?);
    }
    drop(responses);
    connection.close()?;
    Catalogue::of_pages(&pages).map_err(DiscoveryError::Response)
}

/// The first event after a request.
enum Reply {
    Response(Message),
    Acknowledged(Result<Published, Error>),
    Ended,
}

/// Publishes a request and waits for the response.
fn send_request(
    connection: &mut Connection,
    responses: &mut Subscription,
    request: &str,
    deadline: Instant,
) -> Result<WaitOutcome<Message>, DiscoveryError> {
    // The acknowledgement carries a refusal.
    let publication = |qos| Publication::new(REQUEST, request.as_bytes()).qos(qos);
    let (publishing, is_acknowledged) = match connection.client.publish(publication(QoS::AtLeastOnce)) {
        Err(Error::QoSNotSupported(_)) => (connection.client.publish(publication(QoS::AtMostOnce))?, false),
        publishing => (publishing?, true),
    };
    let mut publishing = publishing.into_future();
    let reply = connection.wait(Some(deadline), |cx| {
        let acknowledged = if is_acknowledged { Pin::new(&mut publishing).poll(cx) } else { Poll::Pending };
        // The broker responds before it acknowledges, so check for the response first.
        match responses.poll_next(cx) {
            Poll::Ready(Some(message)) => Poll::Ready(Reply::Response(message)),
            Poll::Ready(None) => Poll::Ready(Reply::Ended),
            Poll::Pending => acknowledged.map(Reply::Acknowledged),
        }
    })?;
    match reply {
        WaitOutcome::Ready(Reply::Response(message)) => Ok(WaitOutcome::Ready(message)),
        WaitOutcome::Ready(Reply::Ended) | WaitOutcome::Interrupted => Ok(WaitOutcome::Interrupted),
        WaitOutcome::Deadline => Ok(WaitOutcome::Deadline),
        WaitOutcome::Ready(Reply::Acknowledged(Err(Error::Refused {
            reason: ReasonCode::NotAuthorized,
            text,
            ..
        }))) => {
            let text = text.map(|text| format!(": {text}")).unwrap_or_default();
            Err(DiscoveryError::Denied(format!(
                "access to {REQUEST} is denied: {}{text}; the access rules must allow this client to publish to \
                 {REQUEST}, and contracts.discovery must be true",
                ReasonCode::NotAuthorized
            )))
        }
        WaitOutcome::Ready(Reply::Acknowledged(Err(error))) => Err(error.into()),
        // MQTT 3.1.1 has no code for a refusal.
        WaitOutcome::Ready(Reply::Acknowledged(Ok(_))) => Err(DiscoveryError::Response(format!(
            "the server accepted the request on {REQUEST} but did not respond: the access rules do not allow this client to publish there, \
             contracts.discovery is false, or it is not a Tautwire broker; with -V 5 a Tautwire broker gives the reason"
        ))),
    }
}
