//! `tautwire pub`: publishes one message, one message repeatedly, or a message for each line of standard input.

use std::collections::VecDeque;
use std::io::Read as _;
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tautwire_client::{Error, Publication, Published, Publishing, Refused};
use tautwire_contracts::Format;
use tautwire_protocol::{Property, PropertyContext, PropertyId, QoS, TopicName};

use super::arguments::{Argument, Arguments, Command, OptionGroup, flag, value};
use super::client_options::{
    CONNECTION_OPTIONS, ClientOptions, NOTES, PROPERTY_OPTION, WILL_OPTIONS, checked, environment_password, qos,
    topic_name,
};
use super::refused::advice_for_message;
use super::server_options::TLS_OPTIONS;
use super::{CommandExit, Exit, properties};
use crate::client::{ConnectOptions, Connection, Input, WaitOutcome, discovery};
use crate::stderr;

pub(crate) static COMMAND: Command = Command {
    name: "pub",
    usage: &["[OPTION]… TOPIC [MESSAGE]", "[OPTION]… -t TOPIC (-m MESSAGE | -f FILE | -l | -s | -n)"],
    about: "Publishes a message and waits for the broker to acknowledge it.",
    groups: &[
        OptionGroup {
            title: "Message",
            options: &[
                value(Some('t'), "topic", "TOPIC", "The topic, instead of the first argument."),
                value(Some('m'), "message", "TEXT", "The payload, instead of the second argument."),
                value(Some('f'), "file", "FILE", "The payload is the content of this file."),
                flag(Some('s'), "stdin", "The payload is all of standard input."),
                flag(Some('l'), "stdin-lines", "Each line of standard input is a message."),
                value(
                    None,
                    "json",
                    "TEXT",
                    "The payload is this JSON, encoded in the format of the topic's contract, which is fetched first.",
                ),
                flag(Some('n'), "null-message", "The payload is empty; with -r it clears the retained message."),
                value(Some('q'), "qos", "QOS", "0, 1 or 2. Default: 0."),
                flag(Some('r'), "retain", "Retain the message."),
                value(None, "repeat", "N", "Publish the message N times."),
                value(None, "repeat-delay", "SECONDS", "Delay between messages; may have a fraction. Default: 0."),
                value(
                    Some('M'),
                    "max-inflight",
                    "N",
                    "Maximum number of unacknowledged QoS 1 and 2 messages. Default: 100.",
                ),
            ],
        },
        OptionGroup {
            title: "Properties (MQTT 5.0)",
            options: &[
                value(None, "content-type", "TEXT", "Content type of the payload, such as text/plain."),
                value(None, "payload-format", "FORMAT", "utf8 or bytes."),
                value(None, "message-expiry", "SECONDS", "Message expiry interval."),
                value(None, "response-topic", "TOPIC", "Topic for the response."),
                value(None, "correlation-data", "TEXT", "Data that correlates the response with this message."),
                value(None, "topic-alias", "N", "Send the topic once, and then this number instead."),
                value(None, "user-property", "NAME=VALUE", "A user property. May be repeated."),
                PROPERTY_OPTION,
            ],
        },
        OptionGroup { title: "Connection", options: CONNECTION_OPTIONS },
        OptionGroup { title: "TLS", options: TLS_OPTIONS },
        OptionGroup { title: "Will", options: WILL_OPTIONS },
    ],
    notes: &[NOTES],
};

/// Unacknowledged QoS 1 and 2 messages, unless the broker or `-M` allows fewer.
const MAX_IN_FLIGHT: u16 = 100;
/// Largest payload that fits into a PUBLISH.
const PAYLOAD_MAX_BYTES: u64 = 268_435_455;

#[derive(Debug)]
struct Options {
    client: ClientOptions,
    topic: TopicName<'static>,
    source: Source,
    qos: QoS,
    retain: bool,
    repeat: u64,
    repeat_delay: Duration,
    max_in_flight: u16,
}

/// The source of the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Text(String),
    /// JSON to encode with the contract of the topic.
    Json(String),
    File(std::path::PathBuf),
    Stdin,
    StdinLines,
}

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let mut options = parse(&mut arguments)?;
    let connect = ConnectOptions {
        max_in_flight: options.max_in_flight,
        ..options.client.connect_options(&arguments, "pub", environment_password())?
    };
    let quiet = options.client.quiet;
    match publish(&options, connect) {
        Ok(exit) => Ok(exit.into()),
        Err(CommandExit::Failure { exit, .. }) if quiet => Ok(exit.into()),
        Err(stop) => Err(stop),
    }
}

fn parse(arguments: &mut Arguments) -> Result<Options, CommandExit> {
    let mut client = ClientOptions::default();
    let mut topic = None;
    let mut source = None;
    let (mut qos_given, mut retain, mut max_in_flight) = (QoS::AtMostOnce, false, MAX_IN_FLIGHT);
    let (mut repeat, mut repeat_delay) = (1, Duration::ZERO);
    let mut positional = Vec::new();
    while let Some(argument) = arguments.next()? {
        let name = match argument {
            Argument::Option(name) => name,
            Argument::Positional(text) => {
                positional.push(text);
                continue;
            }
        };
        let context = PropertyContext::Publish;
        match name {
            "topic" if topic.is_some() => {
                return Err(arguments.failure("only one topic is allowed"));
            }
            "topic" => topic = Some(topic_name(arguments)?),
            "message" => {
                let text = arguments.string()?;
                set_source(&mut source, Source::Text(text), arguments)?;
            }
            "json" => {
                let text = arguments.string()?;
                set_source(&mut source, Source::Json(text), arguments)?;
            }
            "file" => {
                let path = arguments.os_string()?.into();
                set_source(&mut source, Source::File(path), arguments)?;
            }
            "stdin" => set_source(&mut source, Source::Stdin, arguments)?,
            "stdin-lines" => set_source(&mut source, Source::StdinLines, arguments)?,
            "null-message" => set_source(&mut source, Source::Text(String::new()), arguments)?,
            "qos" => qos_given = qos(arguments)?,
            "retain" => retain = true,
            "repeat" => repeat = arguments.number(1..=u64::MAX)?,
            "repeat-delay" => repeat_delay = arguments.seconds()?,
            "max-inflight" => max_in_flight = arguments.number(1..=65_535)?,
            "content-type" => add(&mut client, PropertyId::ContentType, arguments)?,
            "payload-format" => add(&mut client, PropertyId::PayloadFormatIndicator, arguments)?,
            "message-expiry" => add(&mut client, PropertyId::MessageExpiryInterval, arguments)?,
            "response-topic" => add(&mut client, PropertyId::ResponseTopic, arguments)?,
            "correlation-data" => add(&mut client, PropertyId::CorrelationData, arguments)?,
            "topic-alias" => add(&mut client, PropertyId::TopicAlias, arguments)?,
            "user-property" => {
                let property = checked(arguments, |text| properties::user_property(text.to_owned()))?;
                client.add(context, property, arguments)?;
            }
            _ if client.take(name, arguments)? => {}
            _ => return Err(arguments.failure("is not supported by this command")),
        }
    }
    let mut positional = positional.into_iter();
    if topic.is_none()
        && let Some(text) = positional.next()
    {
        topic = Some(TopicName::new(text.leak()).map_err(|error| arguments.command_failure(&error.to_string()))?);
    }
    for text in positional {
        set_source(&mut source, Source::Text(text), arguments)?;
    }
    let topic = topic.ok_or_else(|| arguments.command_failure("a topic is missing"))?;
    let source = source.ok_or_else(|| {
        arguments.command_failure(
            "a message is missing; write it as the second argument, or use -m, --json, -f, -l, -s or -n",
        )
    })?;
    if source == Source::StdinLines && (repeat != 1 || !repeat_delay.is_zero()) {
        return Err(arguments.command_failure("--repeat cannot be used with -l"));
    }
    Ok(Options { client, topic, source, qos: qos_given, retain, repeat, repeat_delay, max_in_flight })
}

fn set_source(source: &mut Option<Source>, given: Source, arguments: &Arguments) -> Result<(), CommandExit> {
    match source.replace(given) {
        None => Ok(()),
        Some(_) => Err(arguments.command_failure("the message is given more than once")),
    }
}

fn add(client: &mut ClientOptions, id: PropertyId, arguments: &mut Arguments) -> Result<(), CommandExit> {
    let property = checked(arguments, |text| properties::parse(id, vec![text.to_owned()]))?;
    client.add(PropertyContext::Publish, property, arguments)
}

fn publish(options: &Options, connect: ConnectOptions) -> Result<Exit, CommandExit> {
    let mut properties = options.client.publish.clone().into_vec();
    let payload = match &options.source {
        Source::Json(text) => {
            let (payload, format) = encoded(&connect, options.topic.as_str(), text)?;
            if options.client.is_v5() && !options.client.publish.contains(PropertyId::ContentType) {
                properties.push(Property::ContentType(format.content_type()));
            }
            Some(payload)
        }
        source => read_payload(source)?,
    };
    let connection = Connection::open(connect)?;
    if options.client.debug {
        let id = connection.client.client_id();
        stderr::write_line(format_args!("connected as {id} (session present: {})", connection.session_present()));
    }
    let mut publisher = Publisher {
        options,
        properties,
        connection,
        sent: 0,
        pending: VecDeque::new(),
        refused: 0,
        interrupted: false,
    };
    let sent = match payload {
        Some(payload) => publisher.send_repeatedly(&payload),
        None => publisher.send_lines(),
    };
    match sent {
        Ok(()) => {
            publisher.connection.close()?;
            let all_acknowledged = publisher.refused == 0;
            Ok(if all_acknowledged { Exit::Success } else { Exit::Refused })
        }
        Err(stop) => {
            if stop.is_connection_usable() || publisher.interrupted {
                let _ = publisher.connection.close();
            }
            Err(stop)
        }
    }
}

/// Encodes JSON in the first format of the topic's contract; returns the payload and the format.
fn encoded(connect: &ConnectOptions, topic: &str, text: &str) -> Result<(Vec<u8>, Format), CommandExit> {
    let catalogue = discovery::contracts(connect, Some(topic))?;
    let contract = catalogue.find(topic).ok_or_else(|| {
        let topic = topic.escape_debug();
        CommandExit::failure(
            Exit::Usage,
            format!("the broker has no contract for {topic}; use -m to publish JSON unchanged"),
        )
    })?;
    let violation_failure = |violation: Box<tautwire_contracts::Violation>| {
        CommandExit::failure(
            Exit::Refused,
            format!("the message violates the contract {}: {violation}", contract.name()),
        )
    };
    let format = contract.formats().first().copied().unwrap_or(Format::Json);
    let mut payload = Vec::new();
    contract.transcode(Format::Json, format, text.as_bytes(), &mut payload, usize::MAX).map_err(violation_failure)?;
    contract.check(topic, Some(format.content_type()), &payload).map_err(violation_failure)?;
    Ok((payload, format))
}

/// Reads the payload; `None` if lines are read instead.
fn read_payload(source: &Source) -> Result<Option<Vec<u8>>, CommandExit> {
    let mut payload = Vec::new();
    let (name, read) = match source {
        Source::Text(text) | Source::Json(text) => return Ok(Some(text.clone().into_bytes())),
        Source::StdinLines => return Ok(None),
        Source::Stdin => {
            ("standard input".to_owned(), std::io::stdin().lock().take(PAYLOAD_MAX_BYTES + 1).read_to_end(&mut payload))
        }
        Source::File(path) => (
            path.display().to_string(),
            std::fs::File::open(path).and_then(|file| file.take(PAYLOAD_MAX_BYTES + 1).read_to_end(&mut payload)),
        ),
    };
    read.map_err(|error| CommandExit::failure(Exit::Usage, format!("{name} cannot be read: {error}")))?;
    if payload.len() as u64 > PAYLOAD_MAX_BYTES {
        return Err(CommandExit::failure(Exit::Usage, format!("{name} is too large for an MQTT message")));
    }
    Ok(Some(payload))
}

struct Publisher<'a> {
    options: &'a Options,
    properties: Vec<Property<'static>>,
    connection: Connection,
    sent: u64,
    /// Unacknowledged messages with their numbers, which appear in output.
    pending: VecDeque<(u64, Publishing)>,
    refused: u64,
    interrupted: bool,
}

/// An event for the publisher.
enum PublisherEvent {
    /// The oldest unacknowledged message is complete.
    Done(u64, Result<Published, Error>),
    Input(Input),
    /// The message was sent.
    Sent,
}

impl Publisher<'_> {
    fn send_repeatedly(&mut self, payload: &[u8]) -> Result<(), CommandExit> {
        let mut next_at = Instant::now();
        loop {
            let more = self.sent < self.options.repeat;
            if !more && self.pending.is_empty() {
                return Ok(());
            }
            let is_due = more && Instant::now() >= next_at;
            let deadline = (more && !is_due && self.has_room()).then_some(next_at);
            let to_send = (is_due && self.has_room()).then_some(payload);
            match self.wait(deadline, to_send)? {
                WaitOutcome::Ready(PublisherEvent::Sent) => next_at = Instant::now() + self.options.repeat_delay,
                WaitOutcome::Ready(_) | WaitOutcome::Deadline => {}
                WaitOutcome::Interrupted => return self.interrupt(more),
            }
        }
    }

    fn send_lines(&mut self) -> Result<(), CommandExit> {
        let unreadable = |error| CommandExit::failure(Exit::Usage, format!("standard input cannot be read: {error}"));
        let (mut is_requested, mut ended) = (false, false);
        let mut line = None;
        loop {
            if ended && line.is_none() && self.pending.is_empty() {
                return Ok(());
            }
            if !is_requested && !ended && line.is_none() && self.has_room() {
                self.connection.request_line().map_err(unreadable)?;
                is_requested = true;
            }
            match self.wait(None, line.as_deref())? {
                WaitOutcome::Ready(PublisherEvent::Sent) => line = None,
                WaitOutcome::Ready(PublisherEvent::Input(input)) => {
                    is_requested = false;
                    match input {
                        Input::Line(read) => line = Some(read),
                        Input::Ended => ended = true,
                        Input::Failed(error) => return Err(unreadable(error)),
                    }
                }
                WaitOutcome::Ready(PublisherEvent::Done(..)) | WaitOutcome::Deadline => {}
                WaitOutcome::Interrupted => return self.interrupt(line.is_some()),
            }
        }
    }

    fn has_room(&self) -> bool {
        self.pending.len() < usize::from(self.options.max_in_flight)
    }

    /// Waits for the next event and handles it. `to_send` is published once the limits allow it.
    fn wait(
        &mut self,
        deadline: Option<Instant>,
        to_send: Option<&[u8]>,
    ) -> Result<WaitOutcome<PublisherEvent>, CommandExit> {
        let publication = to_send.map(|payload| {
            let publication = Publication::new(self.options.topic.as_str(), payload);
            let publication = publication.qos(self.options.qos).retain(self.options.retain);
            self.properties.iter().fold(publication, |publication, property| publication.property(*property))
        });
        let (inputs, client) = (self.connection.inputs(), self.connection.client.clone());
        let pending = &mut self.pending;
        let mut publish_result = None;
        let woken = self.connection.wait(deadline, |cx| {
            if let Some((number, outcome)) = poll_oldest(pending, cx) {
                return Poll::Ready(PublisherEvent::Done(number, outcome));
            }
            if let Some(publication) = &publication
                && let Poll::Ready(outcome) = client.poll_publish(publication, cx)
            {
                publish_result = Some(outcome);
                return Poll::Ready(PublisherEvent::Sent);
            }
            inputs.poll_input(cx).map(PublisherEvent::Input)
        })?;
        match woken {
            WaitOutcome::Ready(PublisherEvent::Done(number, outcome)) => {
                self.report(number, &outcome);
                Ok(WaitOutcome::Ready(PublisherEvent::Done(number, outcome)))
            }
            WaitOutcome::Ready(PublisherEvent::Sent) => {
                let Some(publish_result) = publish_result else { return Ok(WaitOutcome::Deadline) };
                let publishing = publish_result?;
                self.sent += 1;
                if self.options.client.debug {
                    stderr::write_line(format_args!(
                        "sent message {} ({} bytes)",
                        self.sent,
                        to_send.unwrap_or_default().len()
                    ));
                }
                self.pending.push_back((self.sent, publishing));
                Ok(WaitOutcome::Ready(PublisherEvent::Sent))
            }
            other => Ok(other),
        }
    }

    fn report(&mut self, number: u64, outcome: &Result<Published, Error>) {
        match outcome {
            Ok(published) if self.options.client.debug && self.options.qos != QoS::AtMostOnce => {
                stderr::write_line(format_args!("message {number} is acknowledged: {}", published.reason));
            }
            Ok(_) => {}
            Err(error) => {
                self.refused += 1;
                if !self.options.client.quiet {
                    stderr::write_line(format_args!(
                        "tautwire: {}",
                        refusal(number, error, self.options.topic.as_str())
                    ));
                }
            }
        }
    }

    /// Ends early; an error if messages are pending.
    fn interrupt(&mut self, more: bool) -> Result<(), CommandExit> {
        self.interrupted = true;
        match self.pending.len() {
            0 if !more => Ok(()),
            unacknowledged => Err(CommandExit::failure(
                Exit::Connection,
                format!("interrupted after {} messages, {unacknowledged} of them unacknowledged", self.sent),
            )),
        }
    }
}

/// The oldest unacknowledged message, if it is complete.
fn poll_oldest(
    pending: &mut VecDeque<(u64, Publishing)>,
    cx: &mut Context<'_>,
) -> Option<(u64, Result<Published, Error>)> {
    let (number, publishing) = pending.front_mut()?;
    let number = *number;
    match Pin::new(publishing).poll(cx) {
        Poll::Ready(outcome) => {
            pending.pop_front();
            Some((number, outcome))
        }
        Poll::Pending => None,
    }
}

fn refusal(number: u64, error: &Error, topic: &str) -> String {
    match error {
        Error::Refused { what: Refused::Message, reason, text, .. } => {
            let text = text.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
            let advice = advice_for_message(*reason, topic).map(|advice| format!("; {advice}")).unwrap_or_default();
            format!("message {number} is refused: {reason}{text}{advice}")
        }
        other => format!("message {number}: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::{arguments, message};
    use super::*;

    fn parsed(given: &[&str]) -> Result<(Options, ConnectOptions), String> {
        let mut arguments = arguments(&COMMAND, given);
        let mut options = parse(&mut arguments).map_err(message)?;
        let connect = options.client.connect_options(&arguments, "pub", None).map_err(message)?;
        Ok((options, connect))
    }

    #[test]
    fn topic_and_message_can_be_arguments_or_options() {
        for given in [
            &["a/b", "hi"][..],
            &["-t", "a/b", "-m", "hi"],
            &["-t", "a/b", "hi"],
            &["hi", "-t", "a/b"],
            &["--message=hi", "a/b"],
        ] {
            let (options, _) = parsed(given).expect("parses");
            assert_eq!((options.topic.as_str(), &options.source), ("a/b", &Source::Text("hi".into())), "{given:?}");
        }
        assert_eq!(parsed(&["a", "-n"]).expect("parses").0.source, Source::Text(String::new()));
        assert_eq!(parsed(&["a", "-l"]).expect("parses").0.source, Source::StdinLines);
    }

    #[test]
    fn missing_and_excess_arguments_are_reported() {
        let refused = |given: &[&str]| parsed(given).map(|_| ()).expect_err("refused");
        assert!(refused(&[]).contains("a topic is missing"));
        assert!(refused(&["a"]).contains("a message is missing"));
        assert!(refused(&["a", "m", "-n"]).contains("more than once"));
        assert!(refused(&["a/#", "m"]).contains("+ or #"));
        assert!(refused(&["a", "m", "-q", "3"]).contains("-q: expected one of 0, 1, 2, found \"3\""));
        assert!(refused(&["a", "-l", "--repeat", "2"]).contains("--repeat cannot be used with -l"));
        assert!(refused(&["a", "m", "-c"]).contains("-c needs a client identifier"));
        assert!(refused(&["a", "m", "--will-qos", "1"]).contains("a will needs --will-topic"));
        assert!(refused(&["a", "m", "-V", "3.1.1", "--content-type", "x"]).contains("need MQTT 5.0"));
        assert!(refused(&["a", "m", "-V", "4"]).contains("expected one of 5, 3.1.1, 3.1"));
        assert!(
            refused(&["a", "m", "-D", "publish", "will-delay-interval", "1"]).contains("not a property of PUBLISH")
        );
        assert!(refused(&["a", "m", "-P", "secret"]).contains("TAUTWIRE_PASSWORD"));
        assert!(refused(&["a", "m", "--retian"]).contains("did you mean --retain?"));
    }

    #[test]
    fn connection_options_are_applied() {
        let (_, connect) = parsed(&[
            "a",
            "m",
            "-h",
            "example.test",
            "-p",
            "1884",
            "-i",
            "me",
            "-u",
            "ann",
            "-k",
            "0",
            "-c",
            "-V",
            "mqttv5",
            "--will-topic",
            "w",
            "--will-payload",
            "bye",
            "--will-qos",
            "2",
            "--will-retain",
            "--will-delay",
            "5",
            "-D",
            "connect",
            "user-property",
            "k",
            "v",
        ])
        .expect("parses");
        assert_eq!(
            (connect.server.host.as_str(), connect.server.port, connect.keep_alive_s),
            ("example.test", 1884, 0)
        );
        assert_eq!((connect.client_id.as_str(), connect.user_name.as_deref()), ("me", Some("ann")));
        assert!(!connect.clean_start);
        assert_eq!(connect.properties, [Property::UserProperty("k", "v"), Property::SessionExpiryInterval(u32::MAX)]);
        let will = connect.will.expect("a will");
        assert_eq!((will.topic.as_str(), will.payload.as_slice(), will.qos), ("w", &b"bye"[..], QoS::ExactlyOnce));
        assert!(will.retain);
        assert_eq!(will.properties, [Property::WillDelayInterval(5)]);
    }

    #[test]
    fn a_client_without_an_identifier_gets_a_valid_one() {
        let (_, first) = parsed(&["a", "m"]).expect("parses");
        let (_, second) = parsed(&["a", "m"]).expect("parses");
        assert_ne!(first.client_id, second.client_id);
        assert!(first.client_id.len() <= 23, "{}", first.client_id);
        assert!(first.clean_start && first.properties.is_empty());
    }

    #[test]
    fn the_password_comes_from_the_environment_or_a_file() {
        let password = |given: &[&str], environment: Option<&str>| {
            let mut arguments = arguments(&COMMAND, given);
            let mut options = parse(&mut arguments).map_err(message)?;
            let connect = options.client.connect_options(&arguments, "pub", environment.map(Into::into));
            connect.map(|connect| connect.password).map_err(message)
        };
        assert_eq!(password(&["a", "m", "-u", "x"], Some("pw")), Ok(Some(b"pw".to_vec())));
        assert_eq!(password(&["a", "m", "-u", "x"], Some("")), Ok(None));
        assert_eq!(password(&["a", "m"], None), Ok(None));
        assert!(password(&["a", "m", "-V", "311"], Some("pw")).is_err_and(|text| text.contains("needs a user name")));
        assert!(password(&["a", "m", "--password-file", "no-such"], None).is_err_and(|text| text.contains("no-such")));
        let path = std::env::temp_dir().join(format!("tautwire-password-test-{}", std::process::id()));
        std::fs::write(&path, "from file \r\n").expect("writes");
        let path_text = path.display().to_string();
        assert_eq!(password(&["a", "m", "--password-file", &path_text], Some("pw")), Ok(Some(b"from file ".to_vec())));
        std::fs::remove_file(&path).expect("removes");
    }

    #[test]
    fn every_documented_option_is_accepted() {
        for option in COMMAND.groups.iter().flat_map(|group| group.options) {
            let name = format!("--{}", option.name);
            let result = parsed(&[&name, "publish", "topic-alias", "1"]);
            assert!(!result.as_ref().is_err_and(|text| text.contains("not supported by this command")), "{name}");
        }
    }
}
