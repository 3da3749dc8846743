//! One connection with awaited steps, for both of rumqttc's clients.

use std::collections::VecDeque;

use rumqttc::v5::mqttbytes::v5::{ConnAckProperties, PublishProperties};
use tokio::sync::mpsc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::connection::{Event, EventLoop, Message, Options, Original, Version};
use crate::harness::{Failure, Outcome, Run, expect};
use crate::{v3, v5};

/// Commands to the network side.
pub enum Command {
    /// Close the TCP connection without DISCONNECT, like a crash.
    Cut,
    /// Reconnect the same client, with its in-flight messages.
    Resume,
}

pub enum Client {
    V3(rumqttc::AsyncClient),
    V5(rumqttc::v5::AsyncClient),
}

pub struct Peer<'a> {
    pub client: Client,
    pub session_present: bool,
    pub connack: ConnAckProperties,
    run: &'a Run,
    events: UnboundedReceiver<Event>,
    commands: UnboundedSender<Command>,
    inbox: VecDeque<Message>,
    others: VecDeque<Event>,
}

impl<'a> Peer<'a> {
    pub async fn connect(run: &'a Run, version: Version, options: Options) -> Outcome<Peer<'a>> {
        let (event_sender, events) = mpsc::unbounded_channel();
        let (commands, command_receiver) = mpsc::unbounded_channel();
        let client = match version {
            Version::V3 => {
                let (client, event_loop) = v3::open(run, options);
                tokio::task::spawn_local(drive(event_loop, event_sender, command_receiver));
                Client::V3(client)
            }
            Version::V5 => {
                let (client, event_loop) = v5::open(run, options);
                tokio::task::spawn_local(drive(event_loop, event_sender, command_receiver));
                Client::V5(client)
            }
        };
        let mut peer = Peer {
            client,
            session_present: false,
            connack: empty_connack(),
            run,
            events,
            commands,
            inbox: VecDeque::new(),
            others: VecDeque::new(),
        };
        peer.connected().await?;
        Ok(peer)
    }

    /// A plain client with a clean session.
    pub async fn plain(run: &'a Run, version: Version) -> Outcome<Peer<'a>> {
        Peer::connect(run, version, Options { client_id: run.client_id(unique()), ..Options::default() }).await
    }

    /// Subscribes with one QoS for all filters and returns the SUBACK's reason codes.
    pub async fn subscribe(&mut self, qos: u8, filters: &[&str]) -> Outcome<Vec<u8>> {
        match &self.client {
            Client::V3(client) => v3::subscribe(client, qos, filters).await?,
            Client::V5(client) => v5::subscribe(client, qos, filters).await?,
        }
        self.subscribed().await
    }

    /// Waits for the SUBACK of a SUBSCRIBE that has been requested.
    pub async fn subscribed(&mut self) -> Outcome<Vec<u8>> {
        let codes = self
            .other("SUBACK", |event| match event {
                Event::SubAck(codes) => Ok(codes),
                event => Err(event),
            })
            .await?;
        expect(codes.iter().all(|code| *code <= 2), format!("subscription refused: {codes:?}"))?;
        Ok(codes)
    }

    /// Unsubscribes and returns the UNSUBACK's reason codes (none in 3.1.1).
    pub async fn unsubscribe(&mut self, filter: &str) -> Outcome<Vec<u8>> {
        let requested = match &self.client {
            Client::V3(client) => client.unsubscribe(filter).await.map_err(|error| error.to_string()),
            Client::V5(client) => client.unsubscribe(filter).await.map_err(|error| error.to_string()),
        };
        requested.map_err(Failure)?;
        self.other("UNSUBACK", |event| match event {
            Event::UnsubAck(codes) => Ok(codes),
            event => Err(event),
        })
        .await
    }

    /// Publishes and waits until its exchange is complete; at QoS 0 there is nothing to wait for.
    pub async fn publish(&mut self, topic: &str, payload: impl Into<Vec<u8>>, qos: u8) -> Outcome {
        self.send(topic, payload.into(), qos, false).await?;
        self.published(u8::from(qos > 0).into()).await.map(drop)
    }

    pub async fn retain(&mut self, topic: &str, payload: &str, qos: u8) -> Outcome {
        self.send(topic, payload.into(), qos, true).await?;
        self.published(u8::from(qos > 0).into()).await.map(drop)
    }

    pub async fn publish_all(&mut self, topic: &str, payloads: &[String], qos: u8) -> Outcome {
        for payload in payloads {
            self.send(topic, payload.clone().into_bytes(), qos, false).await?;
        }
        self.published(if qos > 0 { payloads.len() } else { 0 }).await.map(drop)
    }

    /// Publishes with MQTT 5.0 properties and returns the reason code.
    pub async fn publish_with(
        &mut self,
        topic: &str,
        payload: &str,
        qos: u8,
        properties: PublishProperties,
    ) -> Outcome<u8> {
        v5::publish(self.v5(), topic, payload.into(), qos, false, properties).await?;
        Ok(self.published(u8::from(qos > 0).into()).await?.pop().unwrap_or(0))
    }

    /// Waits for the end of this many publish exchanges and returns their reason codes.
    async fn published(&mut self, count: usize) -> Outcome<Vec<u8>> {
        let mut codes = Vec::new();
        while codes.len() < count {
            let code = self.other("end of a publish", |event| match event {
                Event::Published(code) => Ok(code),
                event => Err(event),
            });
            codes.push(code.await?);
        }
        Ok(codes)
    }

    pub async fn receive(&mut self) -> Outcome<Message> {
        loop {
            if let Some(message) = self.inbox.pop_front() {
                return Ok(message);
            }
            self.read("message").await?;
        }
    }

    pub async fn receive_many(&mut self, count: usize) -> Outcome<Vec<Message>> {
        let mut messages = Vec::new();
        while messages.len() < count {
            if self.inbox.is_empty() {
                self.read(&format!("message ({} of {count} so far)", messages.len())).await?;
            }
            messages.extend(self.inbox.pop_front());
        }
        Ok(messages)
    }

    /// Everything that arrives before the message with this payload: the fence, which is not returned.
    pub async fn receive_until(&mut self, payload: &str) -> Outcome<Vec<Message>> {
        let mut messages = Vec::new();
        loop {
            let message = self.receive().await?;
            if message.payload == payload.as_bytes() {
                return Ok(messages);
            }
            messages.push(message);
        }
    }

    /// Acknowledges by hand (only with `manual_acks`).
    pub async fn acknowledge(&self, message: &Message) -> Outcome {
        let requested = match (&self.client, &message.original) {
            (Client::V3(client), Original::V3(publish)) => client.ack(publish).await.map_err(|error| error.to_string()),
            (Client::V5(client), Original::V5(publish)) => client.ack(publish).await.map_err(|error| error.to_string()),
            _ => Err("a message of the other protocol version".to_owned()),
        };
        requested.map_err(Failure)
    }

    /// Sends DISCONNECT and closes.
    pub async fn disconnect(&mut self) -> Outcome {
        let requested = match &self.client {
            Client::V3(client) => client.disconnect().await.map_err(|error| error.to_string()),
            Client::V5(client) => client.disconnect().await.map_err(|error| error.to_string()),
        };
        requested.map_err(Failure)?;
        self.closed().await.map(drop)
    }

    pub async fn cut(&mut self) -> Outcome {
        self.command(Command::Cut)?;
        self.closed().await.map(drop)
    }

    pub async fn resume(&mut self) -> Outcome {
        self.command(Command::Resume)?;
        self.connected().await
    }

    /// Waits for the end of the connection and returns the broker's reason code, if it gave one.
    pub async fn closed(&mut self) -> Outcome<Option<u8>> {
        loop {
            let at = self.others.iter().position(|event| matches!(event, Event::Closed { .. }));
            if let Some(Event::Closed { reason, .. }) = at.and_then(|at| self.others.remove(at)) {
                return Ok(reason);
            }
            self.take("end of the connection").await?;
        }
    }

    /// The MQTT 5.0 client. Only 5.0 cases use it.
    pub fn v5(&self) -> &rumqttc::v5::AsyncClient {
        match &self.client {
            Client::V5(client) => client,
            Client::V3(_) => unreachable!("a case of MQTT 5.0 runs with the MQTT 5.0 client"),
        }
    }

    async fn send(&self, topic: &str, payload: Vec<u8>, qos: u8, retain: bool) -> Outcome {
        match &self.client {
            Client::V3(client) => v3::publish(client, topic, payload, qos, retain).await,
            Client::V5(client) => v5::publish(client, topic, payload, qos, retain, PublishProperties::default()).await,
        }
    }

    async fn connected(&mut self) -> Outcome {
        let (present, properties) = self
            .other("CONNACK", |event| match event {
                Event::Connected { session_present, properties } => Ok((session_present, properties)),
                event => Err(event),
            })
            .await?;
        self.session_present = present;
        self.connack = properties.map_or_else(empty_connack, |properties| *properties);
        Ok(())
    }

    fn command(&self, command: Command) -> Outcome {
        self.commands.send(command).map_err(|_| Failure("the client has ended already".to_owned()))
    }

    /// Returns the first event that `pick` accepts; others stay queued.
    async fn other<T>(&mut self, what: &str, pick: impl Fn(Event) -> Result<T, Event>) -> Outcome<T> {
        loop {
            for _ in 0..self.others.len() {
                let Some(event) = self.others.pop_front() else { break };
                match pick(event) {
                    Ok(value) => return Ok(value),
                    Err(event) => self.others.push_back(event),
                }
            }
            self.read(what).await?;
        }
    }

    /// Waits for one more event; the end of the connection is a failure.
    async fn read(&mut self, what: &str) -> Outcome {
        self.take(what).await?;
        match self.others.back() {
            Some(Event::Closed { error, .. }) => Err(Failure(format!("no {what}: the connection ended: {error}"))),
            _ => Ok(()),
        }
    }

    async fn take(&mut self, what: &str) -> Outcome {
        self.run.waits_for(what);
        match self.events.recv().await {
            Some(Event::Received(message)) => self.inbox.push_back(*message),
            Some(event) => self.others.push_back(event),
            None => return Err(Failure(format!("no {what}: the client has ended"))),
        }
        Ok(())
    }
}

pub fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::text).collect()
}

/// Polls rumqttc, which does all its work there, until the connection ends or the peer is dropped.
async fn drive(
    mut event_loop: impl EventLoop,
    events: UnboundedSender<Event>,
    mut commands: UnboundedReceiver<Command>,
) {
    loop {
        tokio::select! {
            command = commands.recv() => {
                let Some(Command::Cut) = command else { return };
                event_loop.cut();
                let _ = events.send(Event::Closed { reason: None, error: "cut".to_owned() });
                let Some(Command::Resume) = commands.recv().await else { return };
            }
            event = event_loop.next() => {
                let Some(event) = event else { continue };
                let ended = matches!(event, Event::Closed { .. });
                let _ = events.send(event);
                if ended {
                    return;
                }
            }
        }
    }
}

/// Numbers clients whose identifier does not matter.
fn unique() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn empty_connack() -> ConnAckProperties {
    ConnAckProperties {
        session_expiry_interval: None,
        receive_max: None,
        max_qos: None,
        retain_available: None,
        max_packet_size: None,
        assigned_client_identifier: None,
        topic_alias_max: None,
        reason_string: None,
        user_properties: Vec::new(),
        wildcard_subscription_available: None,
        subscription_identifiers_available: None,
        shared_subscription_available: None,
        server_keep_alive: None,
        response_information: None,
        server_reference: None,
        authentication_method: None,
        authentication_data: None,
    }
}
