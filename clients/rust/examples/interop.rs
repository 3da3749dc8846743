//! Tests a broker with this client, and this client with a broker: `interop HOST PORT [CASE…]` or `interop --list`.
//! Prints `ok NAME` or `FAIL NAME: reason` for each case.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tautwire_client::blocking::{Client, Subscription};
use tautwire_client::{
    Message, Options, Property, ProtocolVersion, Publication, QoS, Reconnect, Status, Subscribe, SubscriptionId,
    TopicName, Will,
};

/// The time limit for every step of a case.
const PATIENCE: Duration = Duration::from_secs(10);
const MESSAGES: u32 = 20;

type Outcome = Result<(), String>;
type Case = fn(&Run) -> Outcome;

const BOTH_VERSIONS: &[(&str, Case)] = &[
    ("connect", connect),
    ("qos0", |run| round_trip(run, QoS::AtMostOnce)),
    ("qos1", |run| round_trip(run, QoS::AtLeastOnce)),
    ("qos2", |run| round_trip(run, QoS::ExactlyOnce)),
    ("retained", retained),
    ("will", will),
    ("reconnect", reconnect),
];
const ONLY_V5: &[(&str, Case)] = &[("properties", properties)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let cases: Vec<(String, ProtocolVersion, Case)> = [("v3", ProtocolVersion::V3_1_1), ("v5", ProtocolVersion::V5)]
        .into_iter()
        .flat_map(|(prefix, version)| {
            let only = if version == ProtocolVersion::V5 { ONLY_V5 } else { &[] };
            BOTH_VERSIONS.iter().chain(only).map(move |(name, case)| (format!("{prefix}_{name}"), version, *case))
        })
        .collect();
    if arguments == ["--list"] {
        cases.iter().for_each(|(name, ..)| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    let [host, port, chosen @ ..] = arguments.as_slice() else {
        eprintln!("usage: interop HOST PORT [CASE…] | --list");
        return ExitCode::from(2);
    };
    if let Some(unknown) = chosen.iter().find(|wanted| !cases.iter().any(|(name, ..)| name == *wanted)) {
        eprintln!("no such case: {unknown}");
        return ExitCode::from(2);
    }
    let mut status = ExitCode::SUCCESS;
    for (name, version, case) in cases {
        if !chosen.is_empty() && !chosen.contains(&name) {
            continue;
        }
        let tag = format!("{:012x}", RandomState::new().hash_one(0) >> 16);
        match case(&Run { address: format!("{host}:{port}"), version, tag }) {
            Ok(()) => println!("ok {name}"),
            Err(reason) => {
                println!("FAIL {name}: {reason}");
                status = ExitCode::FAILURE;
            }
        }
    }
    status
}

/// One run of one case.
struct Run {
    address: String,
    version: ProtocolVersion,
    /// Part of topics and client identifiers, unique for this run.
    tag: String,
}

impl Run {
    fn options(&self, name: &str) -> Result<Options, String> {
        self.options_at(&self.address, name)
    }

    fn options_at(&self, address: &str, name: &str) -> Result<Options, String> {
        let quick = Reconnect { min: Duration::from_millis(20), max: Duration::from_millis(500) };
        let options = Options::new(&format!("mqtt://{address}")).map_err(|error| error.to_string())?;
        let options = options.version(self.version).client_id(format!("{name}{}", self.tag));
        Ok(options.reconnect(Some(quick)).connect_timeout(PATIENCE))
    }

    fn connect(&self, name: &str) -> Result<Client, String> {
        Client::connect(self.options(name)?).map_err(|error| error.to_string())
    }

    fn topic(&self, suffix: &str) -> String {
        format!("interop/{}/{suffix}", self.tag)
    }
}

fn connect(run: &Run) -> Outcome {
    let client = run.connect("a")?;
    expect(matches!(client.status(), Status::Online { session_present: false }), "a new session")?;
    client.disconnect().map_err(|error| error.to_string())
}

/// Messages are published and received, once each, in order, at their QoS, with RETAIN and DUP clear.
fn round_trip(run: &Run, qos: QoS) -> Outcome {
    let topic = run.topic("roundtrip");
    let (publisher, subscriber) = (run.connect("p")?, run.connect("s")?);
    let mut stream = subscribe(&subscriber, Subscribe::to(topic.as_str()).qos(qos))?;
    let mut handles = Vec::new();
    for number in 0..MESSAGES {
        let payload = number.to_string();
        let publication = Publication::new(&topic, &payload).qos(qos);
        handles.push(publisher.publish(publication).map_err(|error| error.to_string())?);
    }
    for handle in handles {
        handle
            .wait_timeout(PATIENCE)
            .map_err(|_| "an acknowledgement is missing")?
            .map_err(|error| error.to_string())?;
    }
    for number in 0..MESSAGES {
        let message = next(&mut stream)?;
        expect(message.payload() == number.to_string().as_bytes(), "the messages in order")?;
        expect(message.qos() == qos, "the QoS at which it was published")?;
        expect(!message.retain() && !message.dup(), "RETAIN and DUP clear")?;
    }
    expect(stream.next_timeout(Duration::from_millis(50)).is_err(), "nothing twice")?;
    publisher.disconnect().and_then(|()| subscriber.disconnect()).map_err(|error| error.to_string())
}

fn retained(run: &Run) -> Outcome {
    let topic = run.topic("retained");
    let publisher = run.connect("p")?;
    publish(&publisher, Publication::new(&topic, "kept").qos(QoS::AtLeastOnce).retain(true))?;
    let subscriber = run.connect("s")?;
    let mut stream = subscribe(&subscriber, Subscribe::to(topic.as_str()).qos(QoS::AtLeastOnce))?;
    let message = next(&mut stream)?;
    expect(message.payload() == b"kept" && message.retain(), "the retained message, with RETAIN")?;
    publish(&publisher, Publication::new(&topic, "").qos(QoS::AtLeastOnce).retain(true))?;
    let late = run.connect("l")?;
    let mut stream = subscribe(&late, Subscribe::to(topic.as_str()).qos(QoS::AtLeastOnce))?;
    publish(&publisher, Publication::new(&topic, "live").qos(QoS::AtLeastOnce))?;
    expect(next(&mut stream)?.payload() == b"live", "nothing retained after it was deleted")
}

fn will(run: &Run) -> Outcome {
    let topic = run.topic("will");
    let witness = run.connect("w")?;
    let mut stream = subscribe(&witness, Subscribe::to(topic.as_str()).qos(QoS::AtLeastOnce))?;
    let relay = Relay::start(&run.address)?;
    let will = Will::new(&topic, "gone").map_err(|error| error.to_string())?.qos(QoS::AtLeastOnce);
    let options = run.options_at(&relay.address, "d")?.will(will).reconnect(None);
    let _dying = Client::connect(options).map_err(|error| error.to_string())?;
    relay.cut();
    expect(next(&mut stream)?.payload() == b"gone", "the will")
}

/// The connection is cut, a message is published meanwhile, and the client resumes its session.
fn reconnect(run: &Run) -> Outcome {
    let topic = run.topic("reconnect");
    let relay = Relay::start(&run.address)?;
    let options = run.options_at(&relay.address, "r")?.persistent(Duration::from_secs(600));
    let client = Client::connect(options).map_err(|error| error.to_string())?;
    let mut stream = subscribe(&client, Subscribe::to(topic.as_str()).qos(QoS::AtLeastOnce))?;
    let publisher = run.connect("p")?;
    relay.close();
    relay.cut();
    let mut watch = client.watch();
    while !matches!(watch.next_timeout(PATIENCE).map_err(|error| error.to_string())?, Status::Offline(_)) {}
    publish(&publisher, Publication::new(&topic, "meanwhile").qos(QoS::AtLeastOnce))?;
    relay.open();
    expect(next(&mut stream)?.payload() == b"meanwhile", "the message that was published meanwhile")?;
    expect(matches!(client.status(), Status::Online { session_present: true }), "the session to be resumed")?;
    publish(&publisher, Publication::new(&topic, "after").qos(QoS::AtLeastOnce))?;
    expect(next(&mut stream)?.payload() == b"after", "the message once")?;
    client.disconnect().map_err(|error| error.to_string())?;
    // Do not leave the session behind.
    let options = run.options("r")?;
    Client::connect(options).and_then(|client| client.disconnect()).map_err(|error| error.to_string())
}

fn properties(run: &Run) -> Outcome {
    let topic = run.topic("properties");
    let client = run.connect("c")?;
    let identifier = SubscriptionId::new(4711).ok_or("an identifier")?;
    let subscribe_to = Subscribe::to(topic.as_str()).qos(QoS::AtLeastOnce).identifier(identifier);
    let mut stream = subscribe(&client, subscribe_to)?;
    let answers = run.topic("answers");
    let pairs = [("b", "1"), ("a", "2"), ("b", "3"), ("b", "1")];
    let publication = Publication::new(&topic, "text")
        // QoS 0: one broker answers user properties with an invalid PUBACK.
        .qos(QoS::AtMostOnce)
        .text()
        .content_type("text/plain")
        .response_topic(&answers)
        .correlation_data(b"\x00\xFFid")
        .expiry(Duration::from_secs(300));
    let publication =
        pairs.iter().fold(publication, |publication, (name, value)| publication.user_property(name, value));
    publish(&client, publication)?;
    let message = next(&mut stream)?;
    let came = message.properties();
    expect(came.content_type() == Some("text/plain"), "the content type")?;
    expect(came.response_topic().map(TopicName::as_str) == Some(&answers), "the response topic")?;
    expect(came.correlation_data() == Some(b"\x00\xFFid"), "the correlation data")?;
    expect(came.user_properties().collect::<Vec<_>>() == pairs, "the user properties in order, with repetitions")?;
    expect(
        came.message_expiry_interval().is_some_and(|left_s| (290..=300).contains(&left_s)),
        "the remaining expiry interval",
    )?;
    let says_text = came
        .iter()
        .any(|property| matches!(property, Property::PayloadFormatIndicator(tautwire_client::PayloadFormat::Utf8)));
    expect(says_text, "the payload format")?;
    expect(came.subscription_identifiers().eq([identifier]), "the subscription identifier")
}

fn subscribe(client: &Client, subscribe: Subscribe) -> Result<Subscription, String> {
    client.subscribe(subscribe).map_err(|error| error.to_string())
}

fn publish(client: &Client, publication: Publication<'_>) -> Outcome {
    let handle = client.publish(publication).map_err(|error| error.to_string())?;
    let acknowledged = handle.wait_timeout(PATIENCE).map_err(|_| "the acknowledgement is missing")?;
    acknowledged.map(|_| ()).map_err(|error| error.to_string())
}

fn next(stream: &mut Subscription) -> Result<Message, String> {
    stream.next_timeout(PATIENCE).map_err(|error| error.to_string())
}

fn expect(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(format!("expected {what}")) }
}

/// A relay between client and broker that can cut connections.
struct Relay {
    address: String,
    state: Arc<Mutex<RelayState>>,
}

#[derive(Default)]
struct RelayState {
    is_closed: bool,
    streams: Vec<TcpStream>,
}

impl Relay {
    fn start(target: &str) -> Result<Relay, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?.to_string();
        let relay = Relay { address, state: Arc::default() };
        let (state, target) = (relay.state.clone(), target.to_owned());
        std::thread::spawn(move || {
            for incoming in listener.incoming().map_while(Result::ok) {
                let Ok(mut state) = state.lock() else { return };
                if state.is_closed {
                    continue;
                }
                let Ok(outgoing) = TcpStream::connect(&target) else { continue };
                for (from, to) in [(&incoming, &outgoing), (&outgoing, &incoming)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                    std::thread::spawn(move || pass_on(from, to));
                }
                state.streams.extend([incoming, outgoing]);
            }
        });
        Ok(relay)
    }

    /// Closes all connections.
    fn cut(&self) {
        if let Ok(mut state) = self.state.lock() {
            for stream in state.streams.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    fn close(&self) {
        self.set_closed(true);
    }

    fn open(&self) {
        self.set_closed(false);
    }

    fn set_closed(&self, is_closed: bool) {
        if let Ok(mut state) = self.state.lock() {
            state.is_closed = is_closed;
        }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(count) = from.read(&mut bytes)
        && count > 0
        && to.write_all(&bytes[..count]).is_ok()
    {}
    let _ = to.shutdown(Shutdown::Both);
}
