//! The contracts of a broker, asked for over MQTT.

use std::fmt;
use std::time::Instant;

use tautwire_client::{Error, Publication, Subscribe};
use tautwire_contracts::{Catalogue, Format, discovery};

use super::{ConnectOptions, Connection, Woken};
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
    /// It does not answer, or not in a way that is understood.
    Answer(String),
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Answer(why) => write!(f, "the server's contracts are not known: {why}"),
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
    fn beside(&self) -> ConnectOptions {
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
    let mut connection = Connection::open(options.beside())?;
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
        connection.client.publish(Publication::new(REQUEST, request.as_bytes()))?;
        let answer = connection.wait(Some(deadline), |cx| answers.poll_next(cx))?;
        pages.push(match answer {
            Woken::Ready(Some(message)) => {
                discovery::read(Format::Json, message.payload()).map_err(DiscoveryError::Answer)?
            }
            Woken::Deadline => {
                return Err(DiscoveryError::Answer(format!(
                    "it did not answer at {REQUEST} within {} s; is it Tautwire?",
                    options.timeout.as_secs_f32()
                )));
            }
            Woken::Ready(None) | Woken::Interrupted => return Err(Error::Lost("interrupted".into()).into()),
        });
    }
    drop(answers);
    connection.close()?;
    Catalogue::of_pages(&pages).map_err(DiscoveryError::Answer)
}
