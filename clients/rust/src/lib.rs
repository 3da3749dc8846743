//! An MQTT 5.0 and 3.1.1 client.
//!
//! * [`Client`] is for async code, on tokio (feature `tokio`, on by default). [`blocking::Client`] is for threads and is
//!   always available. Both have the same functions.
//! * A task or a thread of its own drives the protocol, so there is no loop to poll. The application cannot block keep
//!   alive, acknowledgements or reconnecting, and you can call everything from anywhere, also while you handle a message.
//! * Publishing returns a handle that resolves when the server has completely acknowledged the message. Subscribing returns
//!   a stream, with automatic or manual acknowledgement.
//! * After a lost connection it reconnects, resumes the session, sends unacknowledged messages again, and subscribes again
//!   if the server has lost the session.
//! * Every queue and buffer has a limit ([`Limits`]) and a counter ([`Counters`]).
//! * [`machine`] is the protocol without I/O, for applications with their own sockets; [`transport`] is the opposite: sockets with TLS and
//!   WebSocket, for applications with their own protocol machine.
//!
//! Features: `tokio`, `tls` (`mqtts://`), `websocket` (`ws://`, with `tls` `wss://`), `scram` (`Scram`), `tracing`.
#![cfg_attr(
    feature = "tokio",
    doc = r#"
```no_run
use tautwire_client::{Client, Options, Publication, QoS, Subscribe};

# async fn run() -> Result<(), tautwire_client::Error> {
let client = Client::connect(Options::new("mqtt://localhost:1883")?).await?;
let mut greetings = client.subscribe(Subscribe::to("demo/#").qos(QoS::AtLeastOnce)).await?;

let sent = client.publish(Publication::new("demo/hello", "hi").qos(QoS::AtLeastOnce)).await?;
sent.await?; // The server has it.

while let Some(message) = greetings.next().await {
    println!("{}: {} bytes", message.topic(), message.payload().len());
    break;
}
client.disconnect().await?;
# Ok(())
# }
```
"#
)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

#[cfg(feature = "tokio")]
mod asynchronous;
pub mod blocking;
mod driver;
mod duration;
mod error;
mod log;
pub mod machine;
mod message;
mod options;
mod properties;
mod publication;
mod scram;
mod state;
mod store;
mod subscribe;
mod sync;
mod tls;
pub mod transport;
mod wire;

#[cfg(feature = "tokio")]
pub use asynchronous::{Client, Responder, StatusWatch};
pub use error::{BoxError, Cause, Error, Refused};
pub use machine::{AckToken, MachineCounters, Offer, Published};
pub use message::Message;
pub use options::{Authenticator, Credentials, Limits, NEVER_EXPIRES, Options, Reconnect, Scheme, Server, Will};
pub use publication::Publication;
#[cfg(feature = "scram")]
pub use scram::Scram;
pub use scram::ScramFault;
pub use state::{
    ConnectionEvent, Counters, Events, Publishing, Requester, Response, ResponseFailure, Status, Subscribing,
    Subscription, Unsubscribing,
};
pub use store::FileStore;
pub use subscribe::{Overflow, Subscribe};
pub use tautwire_protocol::{
    PayloadFormat, Properties, Property, ProtocolVersion, PubAckReason, QoS, ReasonCode, RetainHandling,
    SubscriptionId, TopicFilter, TopicName,
};
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use tls::{TlsFailure, TlsFault};

/// The examples of the README compile.
#[cfg(all(doctest, feature = "scram", feature = "tls", feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct Readme;
