//! The contracts of a broker, asked for over MQTT.

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
/// Where the broker says that its contracts have changed.
pub(crate) const INDEX: &str = "$SYS/contracts/index.json";
/// Contracts asked for at once.
const PAGE: usize = 20;

/// Why the contracts of a broker are not known.
#[derive(Debug)]
pub(crate) enum DiscoveryError {
    /// It cannot be asked.
    Client(Error),
    /// It does not let this client ask.
    Denied(String),
    /// It does not answer, or not in a way that is understood.
    Answer(String),
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Denied(why) | Self::Answer(why) => write!(f, "the server's contracts are not known: {why}"),
        }
    }
}

impl From<Error> for DiscoveryError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl ConnectOptions {
    /// The same for a connection beside the one that is meant.
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

/// The contracts that hold now; only the one for `topic`, if that is given. Asked for on a connection of its own, so that
/// nothing comes between.
///
/// # Errors
/// Those of connecting; no answer in time; an answer that is not understood.
pub(crate) fn contracts(options: &ConnectOptions, topic: Option<&str>) -> Result<Catalogue, DiscoveryError> {
    let deadline = Instant::now() + options.timeout;
    let mut connection = Connection::open(options.second_connection())?;
    // The broker answers the one who asks; the stream is where the client puts it.
    let mut answers = connection.client.listen(Subscribe::to(RESPONSE))?;
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
        let answer = match ask(&mut connection, &mut answers, &request, deadline)? {
            WaitOutcome::Ready(answer) => answer,
            WaitOutcome::Deadline => {
                let seconds = options.timeout.as_secs_f32();
                let why = format!("it did not answer at {REQUEST} within {seconds} s; is it Tautwire?");
                return Err(DiscoveryError::Answer(why));
            }
            WaitOutcome::Interrupted => return Err(Error::Lost("interrupted".into()).into()),
        };
        pages.push(discovery::read(Format::Json, answer.payload()).map_err(DiscoveryError::Answer)?);
    }
    drop(answers);
    connection.close()?;
    Catalogue::of_pages(&pages).map_err(DiscoveryError::Answer)
}

/// What comes first of a request.
enum Reply {
    Answer(Message),
    Acknowledged(Result<Published, Error>),
    Ended,
}

/// Publishes a request and waits for its answer.
fn ask(
    connection: &mut Connection,
    answers: &mut Subscription,
    request: &str,
    deadline: Instant,
) -> Result<WaitOutcome<Message>, DiscoveryError> {
    // A refusal comes with the acknowledgement.
    let publication = |qos| Publication::new(REQUEST, request.as_bytes()).qos(qos);
    let (publishing, is_acknowledged) = match connection.client.publish(publication(QoS::AtLeastOnce)) {
        Err(Error::QoSNotSupported(_)) => (connection.client.publish(publication(QoS::AtMostOnce))?, false),
        publishing => (publishing?, true),
    };
    let mut publishing = publishing.into_future();
    let reply = connection.wait(Some(deadline), |cx| {
        let acknowledged = if is_acknowledged { Pin::new(&mut publishing).poll(cx) } else { Poll::Pending };
        // The broker answers before it acknowledges: with the acknowledgement, the answer is there.
        match answers.poll_next(cx) {
            Poll::Ready(Some(message)) => Poll::Ready(Reply::Answer(message)),
            Poll::Ready(None) => Poll::Ready(Reply::Ended),
            Poll::Pending => acknowledged.map(Reply::Acknowledged),
        }
    })?;
    match reply {
        WaitOutcome::Ready(Reply::Answer(message)) => Ok(WaitOutcome::Ready(message)),
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
        WaitOutcome::Ready(Reply::Acknowledged(Ok(_))) => Err(DiscoveryError::Answer(format!(
            "it took the request on {REQUEST} and did not answer: the access rules deny this client to publish there, \
             contracts.discovery is false, or it is not Tautwire; with -V 5 a Tautwire broker gives the reason"
        ))),
    }
}
