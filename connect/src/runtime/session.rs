//! The session of a sink in the broker.

use std::num::NonZeroU16;
use std::time::Duration;

use tautwire_client::{
    Client, ConnectionEvent, Events, Limits, Message, NEVER_EXPIRES, Options, Reconnect, Subscribe, Subscription, Tls,
};

use super::Record;
use crate::config::{Broker, SinkConfig};

/// A connector is one of few clients, so it need not wait as long as a fleet.
const RECONNECT: Reconnect = Reconnect { min: Duration::from_millis(100), max: Duration::from_secs(5) };

/// The client of a sink, with its messages.
pub(super) struct Session {
    pub(super) client: Client,
    subscription: Subscription,
    events: Events,
}

/// What happens next in a session.
pub(super) enum SessionEvent {
    Message(Message),
    Connected { session_present: bool },
    Disconnected(String),
}

impl Session {
    /// Connects with the persistent session of the sink, and subscribes. It waits for a broker that is not reachable.
    ///
    /// # Errors
    /// The broker refuses the client or the subscription.
    pub(super) async fn start(broker: &Broker, sink: &SinkConfig) -> Result<Session, String> {
        let failed = |error: tautwire_client::Error| format!("sink {}: {error}", sink.name);
        let client = Client::start(options(broker, sink).map_err(failed)?);
        let events = client.events();
        let mut filters = sink.filters.iter();
        let mut subscribe = Subscribe::to(filters.next().cloned().unwrap_or_default());
        for filter in filters {
            subscribe = subscribe.and(filter.clone());
        }
        // The broker sends what it has for the session before it reads SUBSCRIBE.
        let subscribe = subscribe.qos(sink.qos).manual_acknowledgement().and_the_rest();
        let subscription = client.subscribe(subscribe).await.map_err(failed)?;
        Ok(Session { client, subscription, events })
    }

    /// The next event; the connection's come before messages.
    ///
    /// # Errors
    /// The client has ended for good.
    pub(super) async fn next(&mut self) -> Result<SessionEvent, String> {
        loop {
            tokio::select! {
                biased;
                event = self.events.next() => match event {
                    Some(ConnectionEvent::Connected { session_present }) => return Ok(SessionEvent::Connected { session_present }),
                    Some(ConnectionEvent::Disconnected(error) | ConnectionEvent::AttemptFailed(error)) => {
                        return Ok(SessionEvent::Disconnected(error.to_string()));
                    }
                    Some(ConnectionEvent::Ended(error)) => return Err(error.to_string()),
                    Some(_) => {}
                    None => return Err("the client has ended".into()),
                },
                message = self.subscription.next() => match message {
                    Some(message) => return Ok(SessionEvent::Message(message)),
                    None => return Err(self.subscription.ended().map_or_else(String::new, |error| error.to_string())),
                },
            }
        }
    }

    /// Acknowledges messages that the target has.
    pub(super) fn acknowledge(&self, records: &[Record]) {
        for token in records.iter().filter_map(|record| record.message.token()) {
            self.client.acknowledge_with_next(token);
        }
        self.client.flush();
    }
}

fn options(broker: &Broker, sink: &SinkConfig) -> Result<Options, tautwire_client::Error> {
    let mut limits = Limits::default();
    // Messages that arrive before SUBACK wait for the stream; the client must not acknowledge any by itself.
    limits.unclaimed_messages = usize::from(u16::MAX);
    let expiry = sink.session_expiry;
    let mut options = Options::new(&broker.url)?
        .client_id(&sink.client_id)
        .persistent(if expiry.is_zero() { NEVER_EXPIRES } else { expiry })
        .receive_maximum(NonZeroU16::new(sink.receive_maximum).unwrap_or(NonZeroU16::MIN))
        .reconnect(Some(RECONNECT))
        .limits(limits);
    if let Some(user) = &broker.user {
        options = options.user_name(user);
    }
    if let Some(password) = broker.password_env.as_ref().and_then(|name| std::env::var(name).ok()) {
        options = options.password(password);
    }
    if broker.ca_file.is_some() || broker.certificate_file.is_some() {
        let mut tls = Tls::default();
        if let Some(path) = &broker.ca_file {
            tls = tls.trust_file(path)?;
        }
        if let (Some(certificate), Some(key)) = (&broker.certificate_file, &broker.key_file) {
            tls = tls.identity_files(certificate, key)?;
        }
        options = options.tls(tls);
    }
    Ok(options)
}
