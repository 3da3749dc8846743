//! Messages in a store outlive the process that published them, however it ends.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tautwire_client::{FileStore, Limits, Options, Publication, QoS, Subscribe, blocking};

use crate::support::{PATIENCE, Relay, Running, any_port, eventually};

/// The server of the child, its store, its first message, and how many it publishes.
const CHILD: &str = "TAUTWIRE_TEST_CHILD";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("tautwire-durable-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("session")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(address: &str, store: &Path) -> Options {
    let quick = tautwire_client::Reconnect { min: Duration::from_millis(2), max: Duration::from_millis(20) };
    let store = FileStore::open(store).expect("a store");
    Options::new(address).expect("an address").client_id("durable").store(store).reconnect(Some(quick))
}

/// The child process that is killed: it publishes numbers at QoS 2, and prints each acknowledged one. It is not a test
/// itself.
#[test]
fn child() {
    let Ok(words) = std::env::var(CHILD) else { return };
    let [address, store, first, count] = words.split('|').collect::<Vec<_>>()[..] else { panic!("{words}") };
    let (first, count): (u32, u32) = (first.parse().expect("a number"), count.parse().expect("a number"));
    let mut limits = Limits::default();
    limits.in_flight = 20;
    let client = blocking::Client::start(options(address, Path::new(store)).limits(limits)).expect("a thread");
    let mut handles = Vec::new();
    for number in first..first.saturating_add(count) {
        let payload = number.to_be_bytes();
        let publication = Publication::new("numbers", &payload).qos(QoS::ExactlyOnce);
        // Printed first: the next process must not reuse a number that this one has published.
        println!("publishing {number}");
        handles.push((number, client.publish(publication).expect("taken")));
        if handles.len() > 40 && count > 100 {
            let (number, handle) = handles.remove(0);
            handle.wait().expect("acknowledged");
            println!("acknowledged {number}");
        }
    }
    // Until it is killed.
    for (number, handle) in handles {
        handle.wait().expect("acknowledged");
        println!("acknowledged {number}");
    }
    std::thread::sleep(PATIENCE);
}

fn spawn(address: &str, store: &Path, first: u32, count: u32) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "durable::child", "--nocapture"]);
    command.env(CHILD, format!("{address}|{}|{first}|{count}", store.display()));
    command.stdout(Stdio::piped()).spawn().expect("it starts")
}

fn number_of(message: &tautwire_client::Message) -> u32 {
    u32::from_be_bytes(message.payload().try_into().expect("four bytes"))
}

#[test]
fn queued_messages_of_a_killed_process_are_sent_by_the_next() {
    let folder = Folder::new("queued");
    // A port without a listener.
    let nobody = std::net::TcpListener::bind(any_port()).and_then(|listener| listener.local_addr()).expect("a port");
    let mut child = spawn(&format!("mqtt://{nobody}"), &folder.file(), 0, 100);
    // The header, and for each message a record of 20 bytes and a packet of 18.
    let expected = 16 + 100 * (20 + 18);
    eventually("all are on the disk", || {
        std::fs::metadata(folder.file()).is_ok_and(|metadata| metadata.len() >= expected)
    });
    child.kill().expect("it runs");
    child.wait().expect("it has ended");

    let broker = Running::start();
    let witness = blocking::Client::connect(broker.options()).expect("connects");
    let mut numbers = witness.subscribe(Subscribe::to("numbers").qos(QoS::ExactlyOnce)).expect("granted");
    let address = format!("mqtt://{}", broker.address());
    let client = blocking::Client::connect(options(&address, &folder.file())).expect("connects");
    for number in 0..100 {
        assert_eq!(number_of(&numbers.next_timeout(PATIENCE).expect("arrives")), number);
    }
    client.disconnect().expect("ends cleanly");
    assert!(numbers.try_next().is_none(), "each once");
    // The store may be opened as soon as the client has ended.
    FileStore::open(folder.file()).expect("nobody has it open");
}

/// Killed repeatedly while messages are in flight: acknowledged messages have arrived, and nothing arrives twice.
#[test]
fn qos_2_messages_are_delivered_once_despite_killed_publishers() {
    const KILLS: u32 = 12;
    let folder = Folder::new("killed");
    let broker = Running::start();
    let relay = Relay::to(broker.address());
    let witness = blocking::Client::connect(broker.options()).expect("connects");
    let mut numbers =
        witness.subscribe(Subscribe::to("numbers").qos(QoS::ExactlyOnce).capacity(1_000_000)).expect("granted");
    let address = relay.address();
    let mut acknowledged = BTreeSet::new();
    let mut first = 0;
    for round in 0..KILLS {
        let mut child = spawn(&address, &folder.file(), first, 1_000_000);
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut seen = 0;
        for line in lines.map_while(Result::ok) {
            if let Some((word, number)) = line.split_once(' ')
                && let Ok(number) = number.parse::<u32>()
            {
                match word {
                    "publishing" => first = first.max(number + 1),
                    _ => {
                        acknowledged.insert(number);
                        seen += 1;
                        if seen % 17 == 0 && round % 2 == 1 {
                            relay.cut();
                        }
                    }
                }
            }
            // At a different moment each time. Its earlier output is read completely.
            if seen == 30 + 7 * round {
                child.kill().expect("it runs");
            }
        }
        child.wait().expect("it has ended");
    }
    let client = blocking::Client::connect(options(&address, &folder.file())).expect("connects");
    client.publish(Publication::new("numbers", &u32::MAX.to_be_bytes()).qos(QoS::ExactlyOnce)).expect("taken");
    let mut arrived = BTreeSet::new();
    loop {
        match number_of(&numbers.next_timeout(PATIENCE).expect("arrives")) {
            u32::MAX => break,
            number => assert!(arrived.insert(number), "{number} has arrived twice"),
        }
    }
    client.disconnect().expect("ends cleanly");
    assert!(
        acknowledged.len() > 100 && acknowledged.is_subset(&arrived),
        "{} of {}",
        arrived.len(),
        acknowledged.len()
    );
}
