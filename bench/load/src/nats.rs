//! A plain NATS client in a separate process: it publishes to streams of the servers between Tautwire brokers, and waits for their
//! acknowledgements. A reference for a broker that stores its messages there.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use async_nats::{Client, Request};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::broker::command_killed_with_parent;
use crate::failure::{ErrorContext, Failure, Result};
use crate::system::CpuClock;

/// The number of streams of a cluster's log, so that the same number of leaders share the work.
const STREAMS: usize = 16;
const STREAM_MAX_AGE_NS: u64 = 3_600_000_000_000;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of acknowledged messages, and the time.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Rate {
    messages: f64,
    elapsed_s: f64,
    cpu_s: f64,
}

impl Rate {
    pub(crate) fn add(&mut self, slice: Rate) {
        self.messages += slice.messages;
        self.elapsed_s += slice.elapsed_s;
        self.cpu_s += slice.cpu_s;
    }

    pub(crate) fn per_s(&self) -> f64 {
        self.messages / self.elapsed_s
    }

    pub(crate) fn cpu_us_per_message(&self) -> f64 {
        self.cpu_s * 1e6 / self.messages
    }
}

/// The process, controlled by lines. It is killed when dropped.
pub(crate) struct NatsPublisher {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl NatsPublisher {
    pub(crate) fn start(servers: &[&str], window: usize, payload_bytes: usize) -> Result<Self> {
        let mut command = command_killed_with_parent(&std::env::current_exe()?)?;
        command.arg("nats-publisher").arg(servers.join(","));
        command.args([window.to_string(), payload_bytes.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let not_there = || Failure::new("the publisher has no pipes");
        let orders = process.stdin.take().ok_or_else(not_there)?;
        let answers = BufReader::new(process.stdout.take().ok_or_else(not_there)?);
        Ok(Self { process, orders, answers })
    }

    /// Publishes for the given time, and waits for the messages in flight.
    pub(crate) fn publish(&mut self, duration: Duration) -> Result<Rate> {
        writeln!(self.orders, "{}", duration.as_millis())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        match numbers.as_slice() {
            &[messages, elapsed_s, cpu_s] => Ok(Rate { messages, elapsed_s, cpu_s }),
            _ => Err(Failure::new(format!("unexpected output of the NATS publisher: {line:?}"))),
        }
    }
}

impl Drop for NatsPublisher {
    fn drop(&mut self) {
        // It may have exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The other half: reads lines with a number of milliseconds, publishes for that time, and prints the number of
/// acknowledged messages, the seconds, and the seconds of CPU time.
pub(crate) fn serve_nats_publisher(servers: &str, window: usize, payload_bytes: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let servers: Vec<&str> = servers.split(',').collect();
        let client = async_nats::connect(servers).await.during(|| "connecting to NATS".to_owned())?;
        for number in 0..STREAMS {
            make_stream(&client, number).await?;
        }
        for line in io::stdin().lock().lines() {
            let duration = line?.trim().parse().map(Duration::from_millis).during(|| "an order".to_owned())?;
            let clock = CpuClock::read(std::process::id())?;
            let (messages, elapsed_s) = publish(&client, window, payload_bytes, duration).await?;
            let cpu_s = CpuClock::read(std::process::id())?.seconds_since(&clock);
            println!("{messages} {elapsed_s} {cpu_s}");
            io::stdout().flush()?;
        }
        Ok(())
    })
}

/// Configured like the log of a cluster.
async fn make_stream(client: &Client, number: usize) -> Result<()> {
    let (name, subject) = (format!("BARE_{number:02}"), subject(number));
    let stream = serde_json::json!({
        "name": name, "subjects": [subject], "retention": "limits", "storage": "file", "discard": "old",
        "num_replicas": 3, "max_age": STREAM_MAX_AGE_NS,
    });
    let request = Request::new().payload(stream.to_string().into()).timeout(Some(ANSWER_TIMEOUT));
    let answer = client.send_request(format!("$JS.API.STREAM.CREATE.{name}"), request).await;
    let answer = answer.during(|| format!("making {name}"))?;
    match serde_json::from_slice::<serde_json::Value>(&answer.payload).during(|| format!("making {name}"))?.get("error")
    {
        None => Ok(()),
        Some(error) => Err(Failure::new(format!("making {name}: {error}"))),
    }
}

fn subject(number: usize) -> String {
    format!("bare.{number:02}")
}

async fn publish(client: &Client, window: usize, payload_bytes: usize, duration: Duration) -> Result<(u64, f64)> {
    let payload = vec![b'x'; payload_bytes];
    let mut next = 0;
    let mut one = || {
        next += 1;
        let request = Request::new().payload(payload.clone().into()).timeout(Some(ANSWER_TIMEOUT));
        client.send_request(subject(next % STREAMS), request)
    };
    let mut under_way: FuturesUnordered<_> = (0..window).map(|_| one()).collect();
    let (begun, mut done) = (Instant::now(), 0);
    while let Some(answer) = under_way.next().await {
        let answer = answer.during(|| "publishing to NATS".to_owned())?;
        if !answer.payload.starts_with(b"{\"stream\"") {
            return Err(Failure::new(format!("NATS answered {}", String::from_utf8_lossy(&answer.payload))));
        }
        done += 1;
        if begun.elapsed() < duration {
            under_way.push(one());
        }
    }
    Ok((done, begun.elapsed().as_secs_f64()))
}
