//! What `tautwire pub`, `sub` and `discover` share: a connection of the client crate that is not made again once it is lost, and
//! waiting for it, for signals and for lines of standard input at once.

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

/// Time given at the end to finish QoS 2 handshakes.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How to connect. Properties count for MQTT 5.0.
#[derive(Debug, Clone)]
pub(crate) struct ConnectOptions {
    pub(crate) server: Server,
    pub(crate) tls: Tls,
    pub(crate) version: ProtocolVersion,
    pub(crate) client_id: String,
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Vec<u8>>,
    /// The password is proved and not sent.
    pub(crate) scram: Option<ScramHash>,
    /// 0 turns keep alive off.
    pub(crate) keep_alive_s: u16,
    pub(crate) clean_start: bool,
    pub(crate) will: Option<WillMessage>,
    pub(crate) properties: Vec<Property<'static>>,
    pub(crate) disconnect_properties: Vec<Property<'static>>,
    /// For an attempt to connect, from the lookup of the name to CONNACK.
    pub(crate) timeout: Duration,
    /// QoS 1 and 2 messages sent and not acknowledged at once; the broker's Receive Maximum counts where it is lower.
    pub(crate) max_in_flight: u16,
}

/// The hash of a mechanism of SCRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScramHash {
    Sha256,
    Sha512,
}

/// The message that the broker publishes if this client goes without a word.
#[derive(Debug, Clone)]
pub(crate) struct WillMessage {
    pub(crate) topic: TopicName<'static>,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) properties: Vec<Property<'static>>,
}

/// A message received, as it is printed.
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

/// The user property with which the broker says why it could not convert a payload, in place of the payload.
const TRANSCODING_ERROR: &str = "tautwire-transcoding-error";

impl<'a> Message<'a> {
    /// Why the broker could not convert the payload into the format that the subscription asks for.
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
            // What the user asks for is among the properties.
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
    // Messages beyond those under way wait where they come from.
    limits.queue_messages = 1;
    limits
}

/// What ended a wait.
#[derive(Debug)]
pub(crate) enum WaitOutcome<T> {
    /// What was waited for.
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
            // Ends come to `wait` by themselves, and others follow.
            Poll::Ready(_) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        })?;
        match online {
            WaitOutcome::Ready(()) => Ok(connection),
            _ => Err(Error::Lost("interrupted before CONNACK came".into())),
        }
    }

    /// Whether the broker went on with a session that it had.
    pub(crate) fn session_present(&self) -> bool {
        matches!(self.client.status(), Status::Online { session_present: true })
    }

    /// Sleeps until `poll` is ready, a signal comes, or the deadline passes.
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
                // First what has come, then that nothing more will.
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

    /// Asks for the next line of standard input, once; it comes through [`Connection::inputs`].
    pub(crate) fn request_line(&mut self) -> io::Result<()> {
        self.inputs.request_line()
    }

    /// A handle to what comes from standard input, to be polled within [`Connection::wait`].
    pub(crate) fn inputs(&self) -> Inputs {
        self.inputs.clone()
    }

    /// Ends the connection cleanly: what is owed is sent, DISCONNECT after it, and the broker closes.
    ///
    /// # Errors
    /// The connection was lost before, or the broker ended it with a reason.
    pub(crate) fn close(self) -> Result<(), Error> {
        self.client.disconnect_with(&self.disconnect_properties)
    }
}
