//! A Kafka broker of its own, without ZooKeeper (KRaft).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers as _, OwnedMessage};
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};

use super::process::Process;
use super::{free_port, wait_for};

/// The topic that the sink writes to.
pub(crate) const TOPIC: &str = "readings";
/// The largest batch of records that the topic accepts.
const RECORD_MAX_BYTES: &str = "200000";
const PARTITIONS: i32 = 3;
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Kafka {
    port: u16,
    process: Process,
    /// The next offset of each partition, and the messages so far.
    offsets: [i64; PARTITIONS as usize],
    pub(crate) messages: Vec<OwnedMessage>,
}

impl Kafka {
    pub(crate) async fn start(folder: &Path) -> Kafka {
        let (port, controller) = (free_port(), free_port());
        let (data, log, settings) = (folder.join("kafka"), folder.join("kafka.log"), folder.join("kafka.properties"));
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\nlog.dirs={}\n\
             offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=3\n",
            data.display()
        );
        std::fs::write(&settings, text).unwrap();
        let mut format = java("kafka.tools.StorageTool");
        format.args(["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"]).arg(&settings);
        assert!(format.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
        let process = Process::new(move || {
            let log = std::fs::File::options().create(true).append(true).open(&log).unwrap();
            let mut command = java("kafka.Kafka");
            command.arg(&settings).stdout(log).stderr(Stdio::null());
            command
        });
        let mut kafka = Kafka { port, process, offsets: [0; PARTITIONS as usize], messages: Vec::new() };
        kafka.restart().await;
        let admin: AdminClient<DefaultClientContext> = kafka.client().create().unwrap();
        let topic =
            NewTopic::new(TOPIC, PARTITIONS, TopicReplication::Fixed(1)).set("max.message.bytes", RECORD_MAX_BYTES);
        admin.create_topics([&topic], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
        kafka
    }

    /// Kills the server, starts it again, and waits until it answers.
    pub(crate) async fn restart(&mut self) {
        self.process.kill();
        self.process.start();
        wait_for("Kafka", async || {
            let consumer: BaseConsumer = self.client().create().unwrap();
            tokio::task::block_in_place(|| consumer.fetch_metadata(None, Duration::from_secs(2))).ok().map(|_| ())
        })
        .await;
    }

    pub(crate) fn servers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", self.servers()).set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
        client
    }

    /// Reads the committed messages that are new.
    pub(crate) fn read(&mut self) {
        let mut settings = self.client();
        settings.set("group.id", "test").set("isolation.level", "read_committed").set("enable.partition.eof", "true");
        let consumer: BaseConsumer = settings.create().unwrap();
        let mut partitions = TopicPartitionList::new();
        for (partition, offset) in self.offsets.iter().enumerate() {
            partitions.add_partition_offset(TOPIC, partition as i32, Offset::Offset(*offset)).unwrap();
        }
        consumer.assign(&partitions).unwrap();
        let mut ended = 0;
        while ended < PARTITIONS {
            match consumer.poll(TIMEOUT) {
                Some(Ok(message)) => {
                    self.offsets[message.partition() as usize] = message.offset() + 1;
                    self.messages.push(message.detach());
                }
                Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => ended += 1,
                // The next call reads on.
                Some(Err(_)) | None => return,
            }
        }
    }
}

/// The value of a header.
pub(crate) fn header<'a>(message: &'a OwnedMessage, name: &str) -> Option<&'a [u8]> {
    message.headers()?.iter().find(|header| header.key == name)?.value
}

fn java(class: &str) -> Command {
    let jars = std::env::var("TAUTWIRE_KAFKA").unwrap();
    let mut command = Command::new("java");
    command.args(["-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &format!("{jars}/*"), class]);
    command
}
