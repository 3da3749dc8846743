//! Executes commands and prints the client's events, to compare the clients of all languages: `scenario ADDRESS`.
//! `tests/scenario/README.md` describes the commands and the output.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{self, BufRead as _, Write as _};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tautwire_client::{
    AckToken, BoxError, Client, ConnectionEvent, Error, Message, Options, ProtocolVersion, Publication, QoS,
    ReasonCode, Reconnect, Requester, Responder, ResponseFailure, Subscribe, Subscription,
};
use tokio::sync::{OnceCell, mpsc, oneshot};
use tokio::task::JoinHandle;

type Failure = Box<dyn std::error::Error>;

/// The time limit for a request, unless an option sets it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const CAPACITY: usize = 10_000;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address] = arguments.as_slice() else {
        eprintln!("usage: scenario ADDRESS");
        return ExitCode::from(2);
    };
    match run(address).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(address: &str) -> Result<(), Failure> {
    let (tell, mut told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    let mut agent = Agent { address: address.to_owned(), running: None, capacity: CAPACITY };
    while let Some(line) = told.recv().await {
        agent.obey(&line).await.map_err(|error| format!("{line}: {error}"))?;
    }
    agent.close().await;
    Ok(())
}

/// Prints a line at once.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    // Nobody may be reading; that is no error.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

struct Agent {
    address: String,
    running: Option<Arc<Running>>,
    /// The capacity of subscriptions that are not read.
    capacity: usize,
}

/// A client and its pending commands.
struct Running {
    client: Client,
    request_timeout: Duration,
    capacity: usize,
    requester: OnceCell<Requester>,
    /// By filter, the newest last.
    subscriptions: Mutex<HashMap<String, Vec<LogAcceptance>>>,
    /// Messages that wait for the command `acknowledge`, by payload.
    held: Arc<Mutex<HashMap<String, AckToken>>>,
    /// Subscriptions that are not read.
    stalled: Mutex<Vec<Subscription>>,
    responders: Mutex<Vec<Responder>>,
}

/// A subscription whose messages are printed.
struct LogAcceptance {
    stop: oneshot::Sender<()>,
    /// Returns the subscription if it was stopped.
    task: JoinHandle<Option<Subscription>>,
}

impl Agent {
    async fn obey(&mut self, line: &str) -> Result<(), Failure> {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "connect" => {
                let (options, request_timeout) = match self.options(rest) {
                    Ok(options) => options,
                    Err(error) => match error.downcast_ref::<Error>() {
                        Some(error) => {
                            say(&format!("failed connect {}", told(error)));
                            return Ok(());
                        }
                        None => return Err(error),
                    },
                };
                match Client::connect(options).await {
                    Ok(client) => self.running = Some(Running::begin(client, request_timeout, self.capacity)),
                    Err(error) => say(&format!("failed connect {}", told(&error))),
                }
            }
            "start" => {
                let (options, request_timeout) = self.options(rest)?;
                self.running = Some(Running::begin(Client::start(options), request_timeout, self.capacity));
            }
            "close" => {
                self.close().await;
                say("closed");
            }
            _ => {
                let running = self.running.clone().ok_or("connect first")?;
                let words: Vec<String> = rest.splitn(3, ' ').map(str::to_owned).collect();
                begin(running.obey(command, words)?).await;
            }
        }
        Ok(())
    }

    fn options(&mut self, words: &str) -> Result<(Options, Duration), Failure> {
        let mut options = Options::new(&self.address)?;
        let mut request_timeout = REQUEST_TIMEOUT;
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            options = match name {
                "client" => options.client_id(value),
                "version" if value == "4" => options.version(ProtocolVersion::V3_1_1),
                "version" => options.version(ProtocolVersion::V5),
                "expiry" => options.session_expiry(Duration::from_secs(value.parse()?)),
                "resume" => options.clean_start(false),
                "user" => options.user_name(value),
                "password" => options.password(value),
                "attempts_ms" => {
                    let max = Duration::from_millis(value.parse()?);
                    options.reconnect(Some(Reconnect { min: Reconnect::default().min.min(max), max }))
                }
                "connect_ms" => options.connect_timeout(Duration::from_millis(value.parse()?)),
                "queue" => {
                    self.capacity = value.parse()?;
                    options
                }
                "timeout_ms" => {
                    request_timeout = Duration::from_millis(value.parse()?);
                    options
                }
                _ => return Err(format!("there is no option {name}").into()),
            };
        }
        Ok((options, request_timeout))
    }

    async fn close(&mut self) {
        let Some(running) = self.running.take() else { return };
        lock(&running.responders).clear();
        lock(&running.subscriptions).clear();
        lock(&running.stalled).clear();
        // The error of a lost connection has been printed already.
        let _ = running.client.disconnect().await;
    }
}

/// Runs a command while others are read. It is polled once at once, so that packets are in the order of the commands.
async fn begin(mut command: Pin<Box<dyn Future<Output = ()> + Send>>) {
    if poll_fn(|cx| Poll::Ready(command.as_mut().poll(cx))).await.is_pending() {
        tokio::spawn(command);
    }
}

impl Running {
    fn begin(client: Client, request_timeout: Duration, capacity: usize) -> Arc<Running> {
        tokio::spawn(follow(client.clone()));
        Arc::new(Running {
            client,
            request_timeout,
            capacity,
            requester: OnceCell::new(),
            subscriptions: Mutex::default(),
            held: Arc::default(),
            stalled: Mutex::default(),
            responders: Mutex::default(),
        })
    }

    /// Executes a command.
    fn obey(
        self: Arc<Self>,
        command: &str,
        words: Vec<String>,
    ) -> Result<Pin<Box<dyn Future<Output = ()> + Send>>, Failure> {
        let word = |at: usize| words.get(at).cloned().ok_or("a word is missing");
        let qos = || word(0)?.parse().ok().and_then(QoS::from_u8).ok_or("the QoS is 0, 1 or 2");
        Ok(match command {
            "subscribe" => {
                let (qos, filter) = (qos()?, rest(&words, 1));
                Box::pin(async move { self.subscribe(qos, filter, false).await })
            }
            "hold" => {
                let (qos, filter) = (qos()?, rest(&words, 1));
                Box::pin(async move { self.subscribe(qos, filter, true).await })
            }
            "stall" => {
                let (qos, filter) = (qos()?, rest(&words, 1));
                Box::pin(async move { self.stall(qos, &filter).await })
            }
            "stumble" => {
                let (qos, filter) = (qos()?, rest(&words, 1));
                Box::pin(async move { self.stumble(qos, &filter).await })
            }
            "acknowledge" => {
                let payload = rest(&words, 0);
                Box::pin(async move { self.acknowledge(&payload) })
            }
            "unsubscribe" => {
                let filter = rest(&words, 0);
                Box::pin(async move { self.unsubscribe(filter).await })
            }
            "publish" => {
                let (qos, topic, payload) = (qos()?, word(1)?, rest(&words, 2));
                Box::pin(async move { self.publish(qos, topic, payload).await })
            }
            "respond" => {
                let (filter, how, text) = (word(0)?, word(1)?, rest(&words, 2));
                Box::pin(async move { self.respond(filter, how, text).await })
            }
            "request" => {
                let (qos, topic, payload) = (qos()?, word(1)?, rest(&words, 2));
                Box::pin(async move { self.request(qos, topic, payload).await })
            }
            _ => return Err("there is no such command".into()),
        })
    }

    async fn subscribe(&self, qos: QoS, filter: String, holds: bool) {
        let wanted = Subscribe::to(filter.as_str()).qos(qos);
        let wanted = if holds { wanted.manual_acknowledgement() } else { wanted };
        match self.client.subscribe(wanted).await {
            Ok(subscription) => {
                // The printed line allows the next command to use the newest subscription.
                let mut subscriptions = lock(&self.subscriptions);
                say_granted(subscription.granted());
                let (stop, stopped) = oneshot::channel();
                let task = tokio::spawn(take(subscription, stopped, holds.then(|| Arc::clone(&self.held))));
                subscriptions.entry(filter).or_default().push(LogAcceptance { stop, task });
            }
            Err(error) => say(&format!("failed subscribe {}", told(&error))),
        }
    }

    /// Subscribes and does not read the messages.
    async fn stall(&self, qos: QoS, filter: &str) {
        if let Some(subscription) = self.granted(qos, filter).await {
            lock(&self.stalled).push(subscription);
        }
    }

    /// Subscribes, and drops the subscription while it handles the first message, as `?` does.
    async fn stumble(&self, qos: QoS, filter: &str) {
        let Some(mut subscription) = self.granted(qos, filter).await else { return };
        tokio::spawn(async move {
            if let Some(message) = subscription.next().await {
                say_message(&message);
                drop(subscription);
                say(&format!("stumbled {}", String::from_utf8_lossy(message.payload())));
            }
        });
    }

    async fn granted(&self, qos: QoS, filter: &str) -> Option<Subscription> {
        match self.client.subscribe(Subscribe::to(filter).qos(qos).capacity(self.capacity)).await {
            Ok(subscription) => {
                say_granted(subscription.granted());
                Some(subscription)
            }
            Err(error) => {
                say(&format!("failed subscribe {}", told(&error)));
                None
            }
        }
    }

    fn acknowledge(&self, payload: &str) {
        if let Some(token) = lock(&self.held).remove(payload) {
            self.client.acknowledge(token);
            say(&format!("acknowledged {payload}"));
        }
    }

    async fn unsubscribe(&self, filter: String) {
        let taking = lock(&self.subscriptions).get_mut(&filter).and_then(Vec::pop);
        let ended = match taking {
            Some(taking) => {
                // It may already have ended.
                let _ = taking.stop.send(());
                match taking.task.await {
                    Ok(Some(subscription)) => subscription.unsubscribe().await,
                    _ => Err(Error::Closed),
                }
            }
            None => self.client.unsubscribe(&[&filter], &[]).await.map(drop),
        };
        match ended {
            Ok(()) => say(&format!("unsubscribed {filter}")),
            Err(error) => say(&format!("failed unsubscribe {}", error.code())),
        }
    }

    async fn publish(&self, qos: QoS, topic: String, payload: String) {
        let published = async { self.client.publish(Publication::new(&topic, &payload).qos(qos)).await?.await };
        match published.await {
            Ok(published) => say(&format!("published {payload} {}", shown(published.reason))),
            Err(error) => say(&format!("failed publish {} {payload}", told(&error))),
        }
    }

    async fn respond(&self, filter: String, how: String, text: String) {
        let handler = move |request: Message| {
            let answer: Result<Vec<u8>, BoxError> = match how.as_str() {
                "echo" => Ok(request.payload().to_vec()),
                "failure" => Err(ResponseFailure::new(text.as_str()).into()),
                _ => Err(text.as_str().into()),
            };
            std::future::ready(answer)
        };
        match self.client.respond(filter.as_str(), handler).await {
            Ok(responder) => {
                say_granted(responder.granted());
                lock(&self.responders).push(responder);
            }
            Err(error) => say(&format!("failed subscribe {}", told(&error))),
        }
    }

    async fn request(&self, qos: QoS, topic: String, payload: String) {
        let requested = async {
            let requester = self.requester.get_or_try_init(|| self.client.requester()).await?;
            requester.request(Publication::new(&topic, &payload).qos(qos)).await
        };
        let response =
            tokio::time::timeout(self.request_timeout, requested).await.unwrap_or(Err(Error::RequestTimeout));
        match response {
            Ok(response) => say(&format!("response {}", String::from_utf8_lossy(response.payload()))),
            Err(Error::RequestFailed(sentence)) => say(&format!("failed request request_failed {sentence}")),
            Err(error) => say(&format!("failed request {}", told(&error))),
        }
    }
}

/// Prints the events of the connection.
async fn follow(client: Client) {
    let mut events = client.events();
    drop(client);
    while let Some(event) = events.next().await {
        match event {
            ConnectionEvent::Connected { session_present } => say(&format!("connected {}", u8::from(session_present))),
            ConnectionEvent::Disconnected(error) => say(&format!("disconnected {}", told(&error))),
            ConnectionEvent::AttemptFailed(error) => say(&format!("attempt {}", told(&error))),
            ConnectionEvent::HeldUp { filters } => say(&format!("held_up {}", filters.join(" "))),
            ConnectionEvent::Ended(Error::Closed) => {}
            ConnectionEvent::Ended(error) => say(&format!("ended {}", told(&error))),
            other => say(&format!("unknown {other:?}")),
        }
    }
}

/// Prints messages until the subscription ends or is stopped. With manual acknowledgement, messages go to `held`.
async fn take(
    mut subscription: Subscription,
    mut stopped: oneshot::Receiver<()>,
    held: Option<Arc<Mutex<HashMap<String, AckToken>>>>,
) -> Option<Subscription> {
    loop {
        let next = poll_fn(|cx| match Pin::new(&mut stopped).poll(cx) {
            Poll::Ready(_) => Poll::Ready(Err(())),
            Poll::Pending => subscription.poll_next(cx).map(Ok),
        });
        let message = match next.await {
            Err(()) => return Some(subscription),
            Ok(None) => {
                if let Some(error) = subscription.ended().filter(|error| error.code() == "subscribe_refused") {
                    let filters: Vec<&str> = subscription.granted().map(|(filter, _)| filter).collect();
                    say(&format!("lost {} {}", filters.join(" "), told(&error)));
                }
                return None;
            }
            Ok(Some(message)) => message,
        };
        if let (Some(held), Some(token)) = (&held, message.token()) {
            lock(held).insert(String::from_utf8_lossy(message.payload()).into_owned(), token);
        }
        say_message(&message);
    }
}

fn say_message(message: &Message) {
    let (qos, retain) = (message.qos().as_u8(), u8::from(message.retain()));
    say(&format!("message {} {qos} {retain} {}", message.topic(), String::from_utf8_lossy(message.payload())));
}

fn say_granted<'g>(granted: impl Iterator<Item = (&'g str, QoS)>) {
    for (filter, qos) in granted {
        say(&format!("subscribed {filter} {}", qos.as_u8()));
    }
}

/// The code of an error, and the reason code if the server sent one.
fn told(error: &Error) -> String {
    match error.reason() {
        Some(reason) => format!("{} {}", error.code(), shown(reason)),
        None => error.code().to_owned(),
    }
}

fn shown(reason: ReasonCode) -> String {
    format!("0x{:02X}", reason.as_u8())
}

/// The words from `at` on, joined.
fn rest(words: &[String], at: usize) -> String {
    words.get(at..).unwrap_or_default().join(" ")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
