//! `tautwire sub`: subscribes and prints messages.

use std::io::{self, Write};
use std::pin::Pin;
use std::process::ExitCode;
use std::task::Poll;
use std::time::{Duration, Instant};

use tautwire_client::{AckToken, Error, Refused, Subscribe, Subscription};
use tautwire_protocol::{
    Property, PropertyContext, QoS, ReasonCode, RetainHandling, SubscriptionOptions, TopicFilter, topic_matches,
};

use super::arguments::{Argument, Arguments, Command, OptionGroup, flag, value};
use super::client_options::{
    CONNECTION_OPTIONS, ClientOptions, NOTES, PROPERTY_OPTION, WILL_OPTIONS, checked, environment_password, qos,
};
use super::decode::Decoder;
use super::format::{self, Format, NotJson};
use super::server_options::TLS_OPTIONS;
use super::{CommandExit, Exit, properties};
use crate::client::{ConnectOptions, Connection, Message, WaitOutcome};
use crate::stderr;
use crate::time::UtcTime;

pub(crate) static COMMAND: Command = Command {
    name: "sub",
    usage: &["[OPTION]… FILTER…"],
    about: "Subscribes to topic filters and prints the payload of each message on its own line.",
    groups: &[
        OptionGroup {
            title: "Subscription",
            options: &[
                value(Some('t'), "topic", "FILTER", "A topic filter, like the arguments. May be repeated."),
                value(Some('q'), "qos", "QOS", "Maximum QoS: 0, 1 or 2. Default: 0."),
                flag(None, "no-local", "Exclude messages that this client publishes."),
                flag(None, "retain-as-published", "Keep the retain flag as the publisher set it."),
                value(
                    None,
                    "retain-handling",
                    "WHEN",
                    "Send retained messages always, only if the subscription is new, or never.",
                ),
                value(
                    None,
                    "subscription-identifier",
                    "N",
                    "A number that is sent with each message of this subscription.",
                ),
                value(
                    Some('U'),
                    "unsubscribe",
                    "FILTER",
                    "Unsubscribe from this filter of an existing session. May be repeated.",
                ),
                value(None, "user-property", "NAME=VALUE", "A user property for SUBSCRIBE. May be repeated."),
                PROPERTY_OPTION,
            ],
        },
        OptionGroup {
            title: "Output",
            options: &[
                value(Some('C'), "count", "N", "End after N messages."),
                value(Some('W'), "timeout", "SECONDS", "End after this time, with exit code 27."),
                flag(Some('E'), "exit-when-subscribed", "End as soon as the broker has acknowledged the subscription."),
                flag(Some('R'), "no-stale", "Exclude messages that were retained before."),
                flag(
                    None,
                    "retained-only",
                    "Print only messages that were retained before; end at the first other one.",
                ),
                value(Some('T'), "filter-out", "FILTER", "Exclude topics that match this filter. May be repeated."),
                flag(Some('v'), "verbose", "Print the topic before the payload."),
                value(Some('F'), "format", "FORMAT", "Print in this format; see below."),
                flag(None, "json", "Print each message as a line of JSON, like -F %j."),
                flag(
                    None,
                    "decode",
                    "Print payloads as JSON, whatever their format, using the contracts of the broker. They are fetched first, \
                     and again when they change.",
                ),
                flag(Some('N'), "no-newline", "Print no line end after a message."),
            ],
        },
        OptionGroup { title: "Connection", options: CONNECTION_OPTIONS },
        OptionGroup { title: "TLS", options: TLS_OPTIONS },
        OptionGroup { title: "Will", options: WILL_OPTIONS },
    ],
    notes: &[format::HELP, NOTES],
};

#[derive(Debug)]
struct Options {
    client: ClientOptions,
    filters: Vec<TopicFilter<'static>>,
    unsubscribe: Vec<TopicFilter<'static>>,
    filter_out: Vec<TopicFilter<'static>>,
    subscription: SubscriptionOptions,
    count: Option<u64>,
    timeout: Option<Duration>,
    exit_when_subscribed: bool,
    no_stale: bool,
    retained_only: bool,
    format: Format,
    decode: bool,
    newline: bool,
}

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let started = Instant::now();
    let mut arguments = Arguments::new(&COMMAND, parser);
    let mut options = parse(&mut arguments)?;
    let mut connect = options.client.connect_options(&arguments, "sub", environment_password())?;
    if let Some(timeout) = options.timeout {
        connect.timeout = connect.timeout.min(timeout.max(TIMEOUT_MIN));
    }
    let quiet = options.client.quiet;
    match subscribe(&mut options, connect, started) {
        Ok(exit) => Ok(exit.into()),
        Err(CommandExit::Failure { exit, .. }) if quiet => Ok(exit.into()),
        Err(stop) => Err(stop),
    }
}

fn parse(arguments: &mut Arguments) -> Result<Options, CommandExit> {
    let mut options = Options {
        client: ClientOptions::default(),
        filters: Vec::new(),
        unsubscribe: Vec::new(),
        filter_out: Vec::new(),
        subscription: SubscriptionOptions {
            qos: QoS::AtMostOnce,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::SendAtSubscribe,
        },
        count: None,
        timeout: None,
        exit_when_subscribed: false,
        no_stale: false,
        retained_only: false,
        format: Format::payload(),
        decode: false,
        newline: true,
    };
    while let Some(argument) = arguments.next()? {
        let name = match argument {
            Argument::Option(name) => name,
            Argument::Positional(text) => {
                let filter =
                    TopicFilter::new(text.leak()).map_err(|error| arguments.command_failure(&error.to_string()))?;
                options.filters.push(filter);
                continue;
            }
        };
        match name {
            "topic" => options.filters.push(topic_filter(arguments)?),
            "qos" => options.subscription.qos = qos(arguments)?,
            "no-local" => options.subscription.no_local = true,
            "retain-as-published" => options.subscription.retain_as_published = true,
            "retain-handling" => options.subscription.retain_handling = arguments.choice(RETAIN_HANDLING)?,
            "subscription-identifier" => {
                let id = checked(arguments, properties::subscription_identifier)?;
                options.client.add(PropertyContext::Subscribe, Property::SubscriptionIdentifier(id), arguments)?;
            }
            "unsubscribe" => options.unsubscribe.push(topic_filter(arguments)?),
            "user-property" => {
                let property = checked(arguments, |text| properties::user_property(text.to_owned()))?;
                options.client.add(PropertyContext::Subscribe, property, arguments)?;
            }
            "count" => options.count = Some(arguments.number(1..=u64::MAX)?),
            "timeout" => options.timeout = Some(arguments.seconds()?),
            "exit-when-subscribed" => options.exit_when_subscribed = true,
            "no-stale" => options.no_stale = true,
            "retained-only" => options.retained_only = true,
            "filter-out" => options.filter_out.push(topic_filter(arguments)?),
            "verbose" => options.format = Format::topic_and_payload(),
            "format" => options.format = checked(arguments, Format::parse)?,
            "json" => options.format = Format::json(),
            "decode" => options.decode = true,
            "no-newline" => options.newline = false,
            _ if options.client.take(name, arguments)? => {}
            _ => return Err(arguments.failure("is not supported by this command")),
        }
    }
    check(&options, arguments)?;
    Ok(options)
}

/// Minimum timeout for a connection.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);

const RETAIN_HANDLING: &[(&str, RetainHandling)] = &[
    ("always", RetainHandling::SendAtSubscribe),
    ("new", RetainHandling::SendIfNew),
    ("never", RetainHandling::DoNotSend),
    ("0", RetainHandling::SendAtSubscribe),
    ("1", RetainHandling::SendIfNew),
    ("2", RetainHandling::DoNotSend),
];

fn topic_filter(arguments: &mut Arguments) -> Result<TopicFilter<'static>, CommandExit> {
    let text = arguments.string()?;
    TopicFilter::new(text.leak()).map_err(|error| arguments.failure(&error.to_string()))
}

fn check(options: &Options, arguments: &Arguments) -> Result<(), CommandExit> {
    let fail = |message: &str| Err(arguments.command_failure(message));
    if options.filters.is_empty() && options.unsubscribe.is_empty() {
        return fail("a topic filter is missing, for example 'demo/#'");
    }
    if options.no_stale && options.retained_only {
        return fail("-R and --retained-only exclude each other; use one of them");
    }
    let subscription = &options.subscription;
    let plain = !subscription.no_local
        && !subscription.retain_as_published
        && subscription.retain_handling == RetainHandling::SendAtSubscribe;
    if !options.client.is_v5() && !plain {
        return fail("--no-local, --retain-as-published and --retain-handling need MQTT 5.0 (-V 5)");
    }
    if subscription.no_local && options.filters.iter().any(|filter| filter.share().is_some()) {
        return fail("--no-local cannot be used with a shared subscription");
    }
    Ok(())
}

fn subscribe(options: &mut Options, connect: ConnectOptions, started: Instant) -> Result<Exit, CommandExit> {
    let deadline = options.timeout.map(|timeout| started + timeout);
    let mut decoder = match options.decode.then(|| Decoder::new(&connect)).transpose() {
        Err(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => return Ok(Exit::Timeout),
        decoder => decoder?,
    };
    let mut connection = match Connection::open(connect) {
        Err(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => return Ok(Exit::Timeout),
        connected => connected?,
    };
    if options.client.debug {
        let id = connection.client.client_id();
        stderr::write_line(format_args!("connected as {id} (session present: {})", connection.session_present()));
    }
    let subscribe_properties = std::mem::take(&mut options.client.subscribe).into_vec();
    let unsubscribe_properties = std::mem::take(&mut options.client.unsubscribe).into_vec();
    if let Some(decoder) = &mut decoder {
        decoder.watch(&options.client, &options.filters, &mut connection, deadline)?;
    }
    let mut printer = Printer {
        options,
        decoder,
        out: io::stdout().lock(),
        buffer: Vec::new(),
        printed: 0,
        printed_tokens: Vec::new(),
    };
    // Keep the stream until the connection is closed: dropping it would end the subscription.
    let mut stream = None;
    let end = printer
        .subscribe(&mut connection, &mut stream, &subscribe_properties, &unsubscribe_properties, deadline)
        .and_then(|end| match (end, &mut stream) {
            (None, Some(stream)) => printer.run(&mut connection, stream, deadline),
            (None, None) => Ok(StopReason::Done(Exit::Success)),
            (Some(end), _) => Ok(end),
        });
    // Also print buffered output after a failure.
    let read = printer.flush(&connection);
    match (end, read) {
        (Ok(StopReason::Done(exit)), Ok(true)) => {
            connection.close()?;
            Ok(exit)
        }
        // The reader of the output is gone, so nobody sees errors.
        (Ok(_), Ok(_)) => {
            let _ = connection.close();
            Ok(Exit::Success)
        }
        (Err(stop), _) | (Ok(_), Err(stop)) => {
            if stop.is_connection_usable() {
                let _ = connection.close();
            }
            Err(stop)
        }
    }
}

enum StopReason {
    Done(Exit),
    OutputClosed,
}

/// An event for the printer.
enum SubscriberEvent {
    Message(tautwire_client::Message),
    /// The contracts have changed.
    Update,
    /// No more messages for now.
    Pause,
}

/// Prints messages to standard output, buffered while more of them are available.
struct Printer<'a> {
    options: &'a Options,
    decoder: Option<Decoder>,
    out: io::StdoutLock<'static>,
    buffer: Vec<u8>,
    printed: u64,
    /// Tokens of buffered messages, acknowledged after they are written.
    printed_tokens: Vec<AckToken>,
}

/// Size at which buffered output is written even if more messages are available.
const OUTPUT_BATCH_BYTES: usize = 64 * 1024;

impl Printer<'_> {
    /// Subscribes and unsubscribes; returns the exit if nothing else is to do.
    fn subscribe(
        &self,
        connection: &mut Connection,
        stream: &mut Option<Subscription>,
        subscribe_properties: &[Property<'static>],
        unsubscribe_properties: &[Property<'static>],
        deadline: Option<Instant>,
    ) -> Result<Option<StopReason>, CommandExit> {
        if let Some(request) = request(self.options, subscribe_properties)? {
            let mut subscribing = connection.client.subscribing(request)?;
            match connection.wait(deadline, |cx| Pin::new(&mut subscribing).poll(cx))? {
                WaitOutcome::Ready(subscribed) => *stream = Some(subscribed?),
                WaitOutcome::Interrupted => return Ok(Some(StopReason::Done(Exit::Success))),
                WaitOutcome::Deadline => return Ok(Some(StopReason::Done(Exit::Timeout))),
            }
        }
        if let Some(stream) = stream {
            self.print_granted(stream);
            if self.options.exit_when_subscribed && self.options.unsubscribe.is_empty() {
                return Ok(Some(StopReason::Done(Exit::Success)));
            }
        }
        if self.options.unsubscribe.is_empty() {
            return Ok(None);
        }
        let filters: Vec<&str> = self.options.unsubscribe.iter().map(|filter| filter.as_str()).collect();
        let mut unsubscribing = connection.client.unsubscribing(&filters, unsubscribe_properties)?;
        match connection.wait(deadline, |cx| Pin::new(&mut unsubscribing).poll(cx))? {
            WaitOutcome::Ready(reasons) => self.check_unsubscribed(&reasons?)?,
            WaitOutcome::Interrupted => return Ok(Some(StopReason::Done(Exit::Success))),
            WaitOutcome::Deadline => return Ok(Some(StopReason::Done(Exit::Timeout))),
        }
        let is_all = self.options.filters.is_empty() || self.options.exit_when_subscribed;
        Ok(is_all.then_some(StopReason::Done(Exit::Success)))
    }

    fn run(
        &mut self,
        connection: &mut Connection,
        stream: &mut Subscription,
        deadline: Option<Instant>,
    ) -> Result<StopReason, CommandExit> {
        loop {
            let mut is_waiting = false;
            let next = connection.wait(deadline, |cx| {
                if self.decoder.as_mut().is_some_and(|decoder| decoder.poll_updates(cx).is_ready()) {
                    return Poll::Ready(SubscriberEvent::Update);
                }
                match stream.poll_next(cx) {
                    // Write buffered output before waiting.
                    Poll::Pending if !self.buffer.is_empty() || !self.printed_tokens.is_empty() => {
                        is_waiting = true;
                        Poll::Ready(SubscriberEvent::Pause)
                    }
                    // The stream ends with the connection, which reports the reason.
                    Poll::Pending | Poll::Ready(None) => Poll::Pending,
                    Poll::Ready(Some(message)) => Poll::Ready(SubscriberEvent::Message(message)),
                }
            })?;
            let end = match next {
                WaitOutcome::Ready(SubscriberEvent::Message(message)) => {
                    self.printed_tokens.extend(message.token());
                    self.take(&Message::from(&message))
                }
                WaitOutcome::Ready(SubscriberEvent::Update) => {
                    if let Some(decoder) = &mut self.decoder {
                        decoder.refresh()?;
                    }
                    None
                }
                WaitOutcome::Ready(SubscriberEvent::Pause) => None,
                WaitOutcome::Deadline => return Ok(StopReason::Done(Exit::Timeout)),
                WaitOutcome::Interrupted => return Ok(StopReason::Done(Exit::Success)),
            };
            if (is_waiting || self.buffer.len() >= OUTPUT_BATCH_BYTES) && !self.flush(connection)? {
                return Ok(StopReason::OutputClosed);
            }
            if let Some(exit) = end {
                return Ok(StopReason::Done(exit));
            }
        }
    }

    /// Prints the message, unless it is filtered out; returns the exit after the last one.
    fn take(&mut self, message: &Message<'_>) -> Option<Exit> {
        let options = self.options;
        if options.retained_only && !message.retain {
            return Some(Exit::Success);
        }
        if options.no_stale && message.retain {
            return None;
        }
        if options.filter_out.iter().any(|filter| topic_matches(filter.matched(), message.topic)) {
            return None;
        }
        if let Some(why) = message.transcoding_error()
            && !options.format.has_transcoding_error()
        {
            if !options.client.quiet {
                let topic = message.topic;
                let why = why.escape_debug();
                stderr::write_line(format_args!(
                    "tautwire: the broker could not transcode a message on {topic:?}: {why}"
                ));
            }
            return None;
        }
        let decoded = self.decoder.as_ref().map(|decoder| decoder.decoded(message)).transpose();
        let rendered = decoded.and_then(|payload| {
            let payload = payload.as_deref().unwrap_or(message.payload);
            let message = Message { payload, ..message.clone() };
            let rendered = options.format.render(&message, &UtcTime::now(), &mut self.buffer);
            rendered.map_err(|NotJson| "is not JSON".to_owned())
        });
        if let Err(why) = rendered {
            if !options.client.quiet {
                stderr::write_line(format_args!("tautwire: the payload of a message on {:?} {why}", message.topic));
            }
            return None;
        }
        if options.newline {
            self.buffer.push(b'\n');
        }
        self.printed += 1;
        (options.count == Some(self.printed)).then_some(Exit::Success)
    }

    /// Writes buffered output, then acknowledges its messages. Returns whether the output is still open.
    fn flush(&mut self, connection: &Connection) -> Result<bool, CommandExit> {
        let written = self.out.write_all(&self.buffer).and_then(|()| self.out.flush());
        self.buffer.clear();
        match written {
            Ok(()) => {
                for token in self.printed_tokens.drain(..) {
                    connection.client.acknowledge(token);
                }
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(CommandExit::failure(Exit::Usage, format!("standard output cannot be written: {error}"))),
        }
    }

    fn print_granted(&self, stream: &Subscription) {
        if self.options.client.debug {
            for (filter, qos) in stream.granted() {
                stderr::write_line(format_args!("subscribed {filter} (QoS {})", qos.as_u8()));
            }
        }
    }

    fn check_unsubscribed(&self, reasons: &[ReasonCode]) -> Result<(), Error> {
        for (filter, reason) in self.options.unsubscribe.iter().zip(reasons) {
            if reason.as_u8() >= 0x80 {
                let subject = Refused::Unsubscription(filter.as_str().into());
                return Err(Error::Refused { what: subject, reason: *reason, text: None, server_reference: None });
            }
            if self.options.client.debug {
                stderr::write_line(format_args!("unsubscribed {}: {reason}", filter.as_str()));
            }
        }
        Ok(())
    }
}

/// The subscription request for the options.
fn request(options: &Options, properties: &[Property<'static>]) -> Result<Option<Subscribe>, Error> {
    let mut filters = options.filters.iter().map(|filter| filter.as_str());
    let Some(first) = filters.next() else { return Ok(None) };
    // Print all messages of the session, including those of earlier subscriptions.
    let mut request = Subscribe::to(first).manual_acknowledgement().and_the_rest();
    for filter in filters {
        request = request.and(filter);
    }
    let subscription = options.subscription;
    request = request.qos(subscription.qos).retain_handling(subscription.retain_handling);
    if subscription.no_local {
        request = request.no_local();
    }
    if subscription.retain_as_published {
        request = request.retain_as_published();
    }
    for property in properties {
        request = request.property(*property)?;
    }
    Ok(Some(request))
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::{arguments, message};
    use super::*;

    fn parsed(given: &[&str]) -> Result<Options, String> {
        let mut arguments = arguments(&COMMAND, given);
        let mut options = parse(&mut arguments).map_err(message)?;
        options.client.connect_options(&arguments, "sub", None).map_err(message)?;
        Ok(options)
    }

    #[test]
    fn filters_can_be_arguments_and_options() {
        let options = parsed(&["a/#", "-t", "b/+", "$share/g/c"]).expect("parses");
        let filters: Vec<_> = options.filters.iter().map(|filter| filter.as_str()).collect();
        assert_eq!(filters, ["a/#", "b/+", "$share/g/c"]);
    }

    #[test]
    fn options_are_applied_to_the_subscription() {
        let options = parsed(&[
            "a",
            "-q",
            "2",
            "--no-local",
            "--retain-as-published",
            "--retain-handling",
            "new",
            "--subscription-identifier",
            "7",
            "-C",
            "3",
            "-W",
            "1.5",
            "-T",
            "a/b",
            "-N",
        ])
        .expect("parses");
        assert_eq!(
            options.subscription,
            SubscriptionOptions {
                qos: QoS::ExactlyOnce,
                no_local: true,
                retain_as_published: true,
                retain_handling: RetainHandling::SendIfNew,
            }
        );
        assert_eq!(
            (options.count, options.timeout, options.newline),
            (Some(3), Some(Duration::from_millis(1500)), false)
        );
        assert_eq!(options.client.subscribe.into_vec().len(), 1);
    }

    #[test]
    fn conflicting_options_are_reported() {
        let refused = |given: &[&str]| parsed(given).map(|_| ()).expect_err("refused");
        assert!(refused(&[]).contains("a topic filter is missing"));
        assert!(refused(&["a/#/b"]).contains("#"));
        assert!(refused(&["a", "-R", "--retained-only"]).contains("exclude each other"));
        assert!(refused(&["a", "-V", "3.1.1", "--no-local"]).contains("need MQTT 5.0"));
        assert!(refused(&["a", "-V", "3.1.1", "--subscription-identifier", "1"]).contains("need MQTT 5.0"));
        assert!(refused(&["$share/g/a", "--no-local"]).contains("shared"));
        assert!(refused(&["a", "-F", "%z"]).contains("-F: %z is not a field"));
        assert!(refused(&["a", "-C", "0"]).contains("from 1"));
        assert!(refused(&["a", "-W", "-1"]).contains("expected seconds"));
    }

    #[test]
    fn every_documented_option_is_accepted() {
        for option in COMMAND.groups.iter().flat_map(|group| group.options) {
            let name = format!("--{}", option.name);
            let result = parsed(&[&name, "subscribe", "user-property", "1"]);
            assert!(!result.as_ref().is_err_and(|text| text.contains("not supported by this command")), "{name}");
        }
    }
}
