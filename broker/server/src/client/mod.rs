//! The connection of `tautwire pub`, `sub` and `discover`: it does not reconnect, and it waits for the broker, signals and standard input
//! at the same time.

pub(crate) mod discovery;
mod wake;

use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tautwire_client::blocking::{self, StatusWatch, block_on};
use tautwire_client::{Error, Limits, Options, Scram, Server, Status, Tls, Will};
use tautwire_protocol::{PacketId, Properties, Property, ProtocolVersion, QoS, TopicName};

pub(crate) use wake::Input;
use wake::Inputs;

/// Time to finish QoS 2 handshakes before disconnecting.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How to connect. Properties apply to MQTT 5.0.
#[derive(Debug, Clone)]
pub(crate) struct ConnectOptions {
    pub(crate) server: Server,
    pub(crate) tls: Tls,
    pub(crate) version: ProtocolVersion,
    pub(crate) client_id: String,
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Vec<u8>>,
    /// Authenticate by SCRAM instead of sending the password.
    pub(crate) scram: Option<ScramHash>,
    /// 0 turns keep alive off.
    pub(crate) keep_alive_s: u16,
    pub(crate) clean_start: bool,
    pub(crate) will: Option<WillMessage>,
    pub(crate) properties: Vec<Property<'static>>,
    pub(crate) disconnect_properties: Vec<Property<'static>>,
    /// Timeout of an attempt to connect, from the name lookup to CONNACK.
    pub(crate) timeout: Duration,
    /// Maximum of unacknowledged QoS 1 and 2 messages; the broker's Receive Maximum applies if it is lower.
    pub(crate) max_in_flight: u16,
}

/// The hash function of SCRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScramHash {
    Sha256,
    Sha512,
}

/// The will: the broker publishes it if this client disconnects without DISCONNECT.
#[derive(Debug, Clone)]
pub(crate) struct WillMessage {
    pub(crate) topic: TopicName<'static>,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) properties: Vec<Property<'static>>,
}

/// A received message to print.
#[derive(Debug, Clone)]
pub(crate) struct Message<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) packet_id: Option<PacketId>,
    pub(crate) properties: Properties<'a>,
}

impl<'a> From<&'a tautwire_client::Message> for Message<'a> {
    fn from(message: &'a tautwire_client::Message) -> Self {
        Self {
            topic: message.topic(),
            payload: message.payload(),
            qos: message.qos(),
            retain: message.retain(),
            packet_id: message.packet_id(),
            properties: message.properties(),
        }
    }
}

/// The user property with the reason why the broker could not transcode a payload; the payload is then empty.
const TRANSCODING_ERROR: &str = "tautwire-transcoding-error";

impl<'a> Message<'a> {
    /// Why the broker could not transcode the payload to the requested format.
    pub(crate) fn transcoding_error(&self) -> Option<&'a str> {
        let mut properties = self.properties.user_properties().filter(|_| self.payload.is_empty());
        properties.find_map(|(name, why)| (name == TRANSCODING_ERROR).then_some(why))
    }
}

impl ConnectOptions {
    fn into_options(self) -> Result<Options, Error> {
        let mut options = Options::at(self.server)
            .tls(self.tls)
            .version(self.version)
            .client_id(self.client_id)
            .clean_start(self.clean_start)
            // The user's value is among the properties.
            .session_expiry(Duration::ZERO)
            .keep_alive(Duration::from_secs(self.keep_alive_s.into()))
            .connect_timeout(self.timeout)
            .ping_timeout(Duration::from_secs(self.keep_alive_s.max(1).into()))
            .disconnect_timeout(DISCONNECT_TIMEOUT)
            .reconnect(None)
            .limits(limits(self.max_in_flight));
        if let Some(hash) = self.scram {
            let (user, password) = (self.user_name.unwrap_or_default(), self.password.unwrap_or_default());
            options = options.authenticator(match hash {
                ScramHash::Sha256 => Scram::sha256(&user, password)?,
                ScramHash::Sha512 => Scram::sha512(&user, password)?,
            });
        } else {
            if let Some(user_name) = self.user_name {
                options = options.user_name(user_name);
            }
            if let Some(password) = self.password {
                options = options.password(password);
            }
        }
        if let Some(message) = self.will {
            let mut will = Will::new(message.topic.as_str(), message.payload)?.qos(message.qos).retain(message.retain);
            for property in message.properties {
                will = will.property(property)?;
            }
            options = options.will(will);
        }
        for property in self.properties {
            options = options.connect_property(property)?;
        }
        Ok(options)
    }
}

fn limits(max_in_flight: u16) -> Limits {
    let mut limits = Limits::default();
    limits.in_flight = max_in_flight;
    // Further messages wait at their source.
    limits.queue_messages = 1;
    limits
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum WaitOutcome<T> {
    /// The result.
    Ready(T),
    /// SIGINT or SIGTERM.
    Interrupted,
    Deadline,
}

/// A connection to a broker.
pub(crate) struct Connection {
    pub(crate) client: blocking::Client,
    inputs: Inputs,
    watch: StatusWatch,
    disconnect_properties: Vec<Property<'static>>,
}

impl Connection {
    /// Connects and waits for CONNACK.
    ///
    /// # Errors
    /// No connection, no answer in time, or a refusal.
    pub(crate) fn open(mut options: ConnectOptions) -> Result<Self, Error> {
        let disconnect_properties = std::mem::take(&mut options.disconnect_properties);
        let inputs = Inputs::watch_signals().map_err(|error| Error::Lost(error.to_string().into()))?;
        let client = blocking::Client::start(options.into_options()?)?;
        let watch = client.watch();
        let mut connection = Self { client, inputs, watch, disconnect_properties };
        let mut watch = connection.client.watch();
        let online = connection.wait(None, |cx| match watch.poll_next(cx) {
            Poll::Ready(Status::Online { .. }) => Poll::Ready(()),
            // `wait` handles the end of the connection; other states follow.
            Poll::Ready(_) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        })?;
        match online {
            WaitOutcome::Ready(()) => Ok(connection),
            _ => Err(Error::Lost("interrupted before CONNACK".into())),
        }
    }

    /// Whether the broker resumed a session.
    pub(crate) fn session_present(&self) -> bool {
        matches!(self.client.status(), Status::Online { session_present: true })
    }

    /// Waits until `poll` is ready, a signal arrives, or the deadline passes.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn wait<T>(
        &mut self,
        deadline: Option<Instant>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<WaitOutcome<T>, Error> {
        let Self { inputs, watch, .. } = self;
        let woken = block_on(
            std::future::poll_fn(|cx| {
                if inputs.poll_interrupted(cx).is_ready() {
                    return Poll::Ready(Ok(WaitOutcome::Interrupted));
                }
                // Handle received messages before the end of the connection.
                if let Poll::Ready(ready) = poll(cx) {
                    return Poll::Ready(Ok(WaitOutcome::Ready(ready)));
                }
                while let Poll::Ready(status) = watch.poll_next(cx) {
                    if let Status::Closed(why) = status {
                        return Poll::Ready(Err(why));
                    }
                }
                Poll::Pending
            }),
            deadline,
        );
        woken.unwrap_or(Ok(WaitOutcome::Deadline))
    }

    /// Requests one line of standard input; it arrives through [`Connection::inputs`].
    pub(crate) fn request_line(&mut self) -> io::Result<()> {
        self.inputs.request_line()
    }

    /// A handle to standard input, to be polled within [`Connection::wait`].
    pub(crate) fn inputs(&self) -> Inputs {
        self.inputs.clone()
    }

    /// Ends the connection cleanly: sends pending packets and DISCONNECT, and waits until the broker closes.
    ///
    /// # Errors
    /// The connection was lost before, or the broker ended it with a reason.
    pub(crate) fn close(self) -> Result<(), Error> {
        self.client.disconnect_with(&self.disconnect_properties)
    }
}
