//! A driver in Rust: `echo HOST PORT QOS NAME` or `ping HOST PORT QOS DIGIT`. See `README.md`.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::{BufRead, Write as _};
use std::time::{Duration, Instant};

use tautwire_client::{Client, Error, Options, ProtocolVersion, Publication, QoS, Subscribe, Subscription};

const PAYLOAD_BYTES: usize = 16;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [task, host, port, qos, name] = words.as_slice() else {
        eprintln!("usage: echo HOST PORT QOS NAME | ping HOST PORT QOS DIGIT");
        std::process::exit(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let way = Way {
        address: format!("mqtt://{host}:{port}"),
        qos: qos.parse().ok().and_then(QoS::from_u8).expect("a QoS from 0 to 2"),
    };
    let ended = runtime.block_on(async {
        match task.as_str() {
            "echo" => echo(&way, name).await,
            _ => ping(&way, name).await,
        }
    });
    if let Err(error) = ended {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

struct Way {
    address: String,
    qos: QoS,
}

impl Way {
    fn topic(&self, direction: &str, name: &str) -> String {
        format!("rtt/{}/{direction}/{name}", self.qos.as_u8())
    }

    async fn open(&self, filter: &str) -> Result<(Client, Subscription), Error> {
        let options =
            Options::new(&self.address)?.version(ProtocolVersion::V3_1_1).keep_alive(Duration::ZERO).reconnect(None);
        let client = Client::connect(options).await?;
        let messages = client.subscribe(Subscribe::to(filter).qos(self.qos)).await?;
        println!("ready");
        Ok((client, messages))
    }
}

async fn echo(way: &Way, name: &str) -> Result<(), Error> {
    let back: Vec<String> = (0..10).map(|digit| way.topic("back", &digit.to_string())).collect();
    let (client, mut messages) = way.open(&way.topic("there", name)).await?;
    while let Some(message) = messages.next().await {
        let payload = message.payload();
        let digit = usize::from(payload[0] - b'0');
        client.publish(Publication::new(&back[digit], payload).qos(way.qos)).await?;
    }
    Ok(())
}

async fn ping(way: &Way, digit: &str) -> Result<(), Error> {
    let (client, mut messages) = way.open(&way.topic("back", digit)).await?;
    let mut number = 0_u64;
    let mut times: Vec<Duration> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input is text");
        let [server, count, limit_ms] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("SERVER COUNT LIMIT_MS")
        };
        let topic = way.topic("there", server);
        let count: usize = count.parse().expect("a count");
        let end = Instant::now() + Duration::from_millis(limit_ms.parse().expect("milliseconds"));
        times.clear();
        loop {
            number += 1;
            let payload = format!("{digit}{number:0width$}", width = PAYLOAD_BYTES - 1);
            let sent = Instant::now();
            client.publish(Publication::new(&topic, &payload).qos(way.qos)).await?;
            let reply = messages.next().await.expect("the connection holds");
            let now = Instant::now();
            assert_eq!(reply.payload(), payload.as_bytes(), "not the reply to the last message");
            times.push(now - sent);
            if times.len() >= count || now > end {
                break;
            }
        }
        let mut said = String::new();
        for time in &times {
            let _ = write!(said, "{} ", time.as_nanos());
        }
        println!("{said}");
        std::io::stdout().flush().expect("standard output takes it");
    }
    Ok(())
}
