//! The contracts of a broker, asked for over MQTT.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Instant;

use tautwire_contracts::{Catalogue, Format, discovery};
use tautwire_protocol::{QoS, TopicName};

use super::{Client, ClientError, ConnectOptions, Event, OutgoingMessage, Woken};
use crate::json::push_string;

const REQUEST: &str = "$SYS/contracts/request";
const RESPONSE: &str = "$SYS/contracts/response";
/// Where the broker says that its contracts have changed.
pub(crate) const INDEX: &str = "$SYS/contracts/index.json";
/// Contracts asked for at once.
const PAGE: usize = 20;

impl ConnectOptions {
    /// The same for a connection beside the one that is meant.
    fn beside(&self) -> ConnectOptions {
        ConnectOptions {
            client_id: format!("tautwire-find-{:08x}", RandomState::new().hash_one(0) as u32),
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
pub(crate) fn contracts(options: &ConnectOptions, topic: Option<&str>) -> Result<Catalogue, ClientError> {
    let deadline = Instant::now() + options.timeout;
    let mut client = Client::connect(options.beside())?;
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
        client.publish(&OutgoingMessage {
            topic: Some(TopicName::new(REQUEST).map_err(|error| ClientError::Lost(error.to_string()))?),
            payload: request.as_bytes(),
            qos: QoS::AtMostOnce,
            retain: false,
            properties: &[],
        })?;
        let page = await_answer(&mut client, deadline, options)?;
        pages.push(page);
    }
    client.disconnect()?;
    Catalogue::of_pages(&pages).map_err(ClientError::Discovery)
}

fn await_answer(
    client: &mut Client,
    deadline: Instant,
    options: &ConnectOptions,
) -> Result<discovery::Page, ClientError> {
    loop {
        while let Some(event) = client.poll()? {
            if let Event::Message(message) = event
                && message.topic == RESPONSE
            {
                return discovery::read(Format::Json, message.payload).map_err(ClientError::Discovery);
            }
        }
        match client.wait(Some(deadline))? {
            Woken::Deadline => {
                return Err(ClientError::Discovery(format!(
                    "it did not answer at {REQUEST} within {} s; is it Tautwire?",
                    options.timeout.as_secs_f32()
                )));
            }
            Woken::Interrupted => return Err(ClientError::Lost("interrupted".into())),
            _ => {}
        }
    }
}
