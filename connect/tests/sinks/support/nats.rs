//! A NATS server of its own, with JetStream.

use std::path::Path;
use std::process::Command;

use async_nats::jetstream;
use futures_util::StreamExt as _;
use tokio::net::TcpStream;

use super::process::Process;
use super::{free_port, wait_for};

/// The stream that stores what the sink publishes.
const STREAM: &str = "READINGS";

pub(crate) struct Nats {
    port: u16,
    process: Process,
}

impl Nats {
    pub(crate) async fn start(folder: &Path) -> Nats {
        let port = free_port();
        let (data, log) = (folder.join("nats"), folder.join("nats.log"));
        let process = Process::new(move || {
            let mut command = Command::new(std::env::var_os("TAUTWIRE_NATS_SERVER").unwrap());
            command.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(&data).arg("-l").arg(&log);
            command
        });
        let mut nats = Nats { port, process };
        nats.restart().await;
        let stream =
            jetstream::stream::Config { name: STREAM.into(), subjects: vec!["mqtt.>".into()], ..Default::default() };
        nats.context().await.create_stream(stream).await.unwrap();
        nats
    }

    pub(crate) async fn restart(&mut self) {
        self.process.kill();
        self.process.start();
        wait_for("NATS", || async { TcpStream::connect(("127.0.0.1", self.port)).await.ok() }).await;
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    async fn context(&self) -> jetstream::Context {
        wait_for("JetStream", async || {
            let context = jetstream::new(async_nats::connect(self.url()).await.ok()?);
            context.query_account().await.ok()?;
            Some(context)
        })
        .await
    }

    /// The number of messages in the stream.
    pub(crate) async fn count(&self) -> u64 {
        let context = self.context().await;
        wait_for("the stream", async || Some(context.get_stream(STREAM).await.ok()?.cached_info().state.messages)).await
    }

    /// All messages of the stream: subject, headers and payload.
    pub(crate) async fn messages(&self) -> Vec<async_nats::Message> {
        let stream = self.context().await.get_stream(STREAM).await.unwrap();
        let count = stream.cached_info().state.messages as usize;
        let consumer = stream.create_consumer(jetstream::consumer::pull::OrderedConfig::default()).await.unwrap();
        let messages = consumer.messages().await.unwrap();
        messages.take(count).map(|message| message.unwrap().split().0).collect().await
    }
}
