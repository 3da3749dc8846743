//! A broker with a data directory, and its clients.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tautwire_client::{Client, Options, Publication, QoS, Reconnect};
use tokio::net::TcpStream;

use super::process::Process;
use super::{free_port, wait_for};

pub(crate) struct Broker {
    pub(crate) port: u16,
    process: Process,
}

impl Broker {
    pub(crate) async fn start(folder: &Path) -> Broker {
        let port = free_port();
        let data = folder.join("broker");
        let process = Process::new(move || {
            let mut command = Command::new(std::env::var_os("TAUTWIRE").unwrap());
            command.args(["serve", "--threads", "1", "--set", "log.level=error"]);
            command.args(["--listen", &format!("127.0.0.1:{port}"), "--set", &format!("data.path={}", data.display())]);
            command.stdout(Stdio::null());
            command
        });
        let mut broker = Broker { port, process };
        broker.restart().await;
        broker
    }

    pub(crate) async fn restart(&mut self) {
        self.process.kill();
        self.process.start();
        wait_for("the broker", || async { TcpStream::connect(("127.0.0.1", self.port)).await.ok() }).await;
    }

    pub(crate) fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// A client whose session survives a broker that is killed.
    pub(crate) fn client(&self, client_id: &str) -> Client {
        let reconnect = Reconnect { min: Duration::from_millis(20), max: Duration::from_millis(200) };
        let options = Options::new(&self.url()).unwrap().client_id(client_id);
        Client::start(options.persistent(Duration::from_secs(3600)).reconnect(Some(reconnect)))
    }
}

/// Publishes a message and waits until the broker has it.
pub(crate) async fn publish(client: &Client, topic: &str, payload: &str) {
    client.publish(Publication::new(topic, payload).qos(QoS::ExactlyOnce)).await.unwrap().await.unwrap();
}

/// Publishes numbered readings, each once, and waits until the broker has all of them.
pub(crate) async fn publish_readings(client: &Client, count: u64) {
    let mut pending = std::collections::VecDeque::new();
    for number in 0..count {
        let topic = format!("sensors/d{}/reading", number % 10);
        let payload = format!(r#"{{"deviceId":"d{}","number":"{number}","celsius":{}}}"#, number % 10, number % 40);
        pending.push_back(client.publish(Publication::new(&topic, &payload).qos(QoS::ExactlyOnce)).await.unwrap());
        if pending.len() >= 500 {
            pending.pop_front().unwrap().await.unwrap();
        }
    }
    for publishing in pending {
        publishing.await.unwrap();
    }
}
