//! Sequences of valid and invalid reloads under load: no acknowledged message is lost, only affected clients are disconnected, and invalid
//! configurations change nothing.
//!
//! Everything is derived from a seed, except for thread timing. `TAUTWIRE_RELOAD_STEPS=2000` makes the test long, and
//! `TAUTWIRE_RELOAD_SEED=7` selects another seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::listeners::added;
use super::{World, keys};
use crate::support::tls::{Authority, Secured};
use crate::support::{AtLeastOnce, Client, ConnectBuilder, Folder, Transport, V3_1_1, V5};

const STEPS: u64 = 25;
const EXTRA_LISTENERS: u64 = 4;
const RULES: &str = "[[role]]\nname = \"all\"\nrules = [{ allow = [\"publish\", \"subscribe\"], topics = \"#\" }]\n\
                     [[assign]]\neveryone = true\nroles = \"all\"\n";

/// Pseudo-random numbers (splitmix64).
struct Rng(u64);

impl Rng {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % sides
    }
}

/// The content of the configuration file.
#[derive(Clone, Default)]
struct File {
    topic_levels: u64,
    receive_maximum: u64,
    queue_messages: u64,
    rate: u64,
    certificate: usize,
    has_rules: bool,
    /// By number: whether it uses TLS, and its connection limit.
    listeners: BTreeMap<u64, (bool, u64)>,
}

impl File {
    fn change(&mut self, dice: &mut Rng) {
        match dice.roll(8) {
            0 => self.topic_levels = 10 + dice.roll(90),
            1 => self.receive_maximum = 1 + dice.roll(1000),
            2 => self.queue_messages = 100_000 + dice.roll(100_000),
            3 => self.rate = [0, 2_000, 100_000][dice.roll(3) as usize],
            4 => self.certificate = 1 - self.certificate,
            5 => self.has_rules = !self.has_rules,
            _ => {
                let number = dice.roll(EXTRA_LISTENERS);
                if self.listeners.remove(&number).is_none() || dice.roll(3) == 0 {
                    self.listeners.insert(number, (dice.roll(3) == 0, 100 + dice.roll(100)));
                }
            }
        }
    }

    fn text(&self) -> String {
        let name = CERTIFICATES[self.certificate];
        let mut text = format!(
            "[limits]\ntopic_levels = {}\nsession_queue_messages = {}\npublish_messages_per_s = {}\n[mqtt]\nreceive_maximum = {}\n\
             [tls]\ncertificate = \"{name}.pem\"\nkey = \"{name}.key\"\n[acl]\nfile = \"{}\"\n[auth]\nanonymous = true\n",
            self.topic_levels,
            self.queue_messages,
            self.rate,
            self.receive_maximum,
            if self.has_rules { "rules.toml" } else { "" }
        );
        for (number, (is_tls, connections)) in &self.listeners {
            let scheme = if *is_tls { "mqtts://" } else { "" };
            let _ = write!(
                text,
                "[[listener]]\nname = \"extra-{number}\"\naddress = \"{scheme}127.0.0.1:0\"\nlimits.connections = {connections}\n"
            );
        }
        text
    }
}

const CERTIFICATES: [&str; 2] = ["one", "two"];

/// Introduces one error.
fn spoil(text: &str, taken: SocketAddr, dice: &mut Rng) -> String {
    let table = |address: &str| format!("[[listener]]\nname = \"wrong\"\naddress = \"{address}\"\n");
    let listener = |address: &str| format!("{text}{}", table(address));
    match dice.roll(6) {
        0 => text.replace("topic_levels", "topic_level"),
        1 => text.replace("session_queue_messages = ", "session_queue_messages = -"),
        // Without TLS listeners, the files are not read.
        2 => listener("mqtts://127.0.0.1:0").replace("one.pem", "three.pem").replace("two.pem", "three.pem"),
        3 => text.replace("rules.toml", "none.toml").replace("file = \"\"", "file = \"none.toml\""),
        4 => listener(&taken.to_string()),
        _ => format!("{}{}", listener("127.0.0.1:0").replace("wrong", "right"), table(&taken.to_string())),
    }
}

/// A client of an extra listener.
enum LoadClient {
    Plain(Box<Client>),
    Secured(Box<Secured>),
}

impl LoadClient {
    fn connect(authority: &Authority, is_tls: bool, address: SocketAddr, client_id: &str) -> LoadClient {
        let connecting = ConnectBuilder::new(Transport::Tcp(address), V5, client_id);
        if !is_tls {
            return LoadClient::Plain(Box::new(connecting.open()));
        }
        let mut secured = authority.connect(TcpStream::connect(address).expect("the broker listens"), None);
        secured.open(&connecting.bytes());
        LoadClient::Secured(Box::new(secured))
    }

    fn ping(&mut self) {
        match self {
            LoadClient::Plain(client) => client.ping(),
            LoadClient::Secured(client) => client.ping(),
        }
    }

    fn expect_disconnected(self) {
        match self {
            LoadClient::Plain(mut client) => assert_eq!(client.expect_disconnect(), 0x98),
            LoadClient::Secured(mut client) => {
                let mut answer = [0; 4];
                let answered = client.exchange(&[0xC0, 0], &mut answer[..3]);
                assert!(answered.is_err() || (answer[0], answer[2]) == (0xE0, 0x98), "{answer:?}");
            }
        }
    }
}

#[test]
fn reloads_under_load_lose_nothing_and_affect_no_client() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (steps, seed) = (number("TAUTWIRE_RELOAD_STEPS", STEPS), number("TAUTWIRE_RELOAD_SEED", 1));
    println!("TAUTWIRE_RELOAD_STEPS={steps} TAUTWIRE_RELOAD_SEED={seed}");
    let folder = Folder::new(&[("rules.toml", RULES)]);
    let authorities = CERTIFICATES.map(|name| {
        let authority = Authority::new();
        authority.write(&folder, name);
        authority
    });
    let mut dice = Rng(seed);
    let mut file = File { topic_levels: 20, receive_maximum: 100, queue_messages: 150_000, ..File::default() };
    let world = World::within(folder, 2, &file.text(), &[]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken_address = taken.local_addr().expect("an address");
    let subscribers = ["s-0", "s-1", "s-2"].map(|id| {
        let mut client = world.broker.connect(V5, id);
        client.subscribe("load/#", AtLeastOnce);
        client
    });
    let publishers = [("p-0", V5), ("p-1", V3_1_1), ("p-2", V5)].map(|(id, version)| world.broker.connect(version, id));
    let is_over = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let publishing: Vec<_> = publishers
            .into_iter()
            .enumerate()
            .map(|(at, client)| {
                let is_over = is_over.clone();
                scope.spawn(move || publish_until(client, at, &is_over))
            })
            .collect();
        let receiving: Vec<_> =
            subscribers.into_iter().map(|client| scope.spawn(move || receive_all(client, CLIENTS))).collect();
        // If a step fails, the other threads must stop.
        let over = StopOnDrop(&is_over);
        let mut guests: BTreeMap<u64, (bool, SocketAddr, LoadClient)> = BTreeMap::new();
        for step in 0..steps {
            println!("step {step}");
            run_step(&world, &mut file, &mut dice, taken_address, &authorities, &mut guests, step);
        }
        drop(over);
        let published: Vec<u64> = publishing.into_iter().map(|thread| thread.join().expect("it publishes")).collect();
        assert!(published.iter().all(|count| *count > 1), "{published:?}");
        for thread in receiving {
            assert_eq!(thread.join().expect("it receives"), published);
        }
    });
    assert_eq!(world.metric("credentials_expired_disconnects"), 0);
    assert_eq!(world.metric("publishes_refused"), 0);
}

const CLIENTS: usize = 3;

/// Sets the flag when dropped.
pub(super) struct StopOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn run_step(
    world: &World,
    file: &mut File,
    dice: &mut Rng,
    taken: SocketAddr,
    authorities: &[Authority; 2],
    guests: &mut BTreeMap<u64, (bool, SocketAddr, LoadClient)>,
    step: u64,
) {
    if dice.roll(3) == 0 {
        let before = world.config();
        let mut wrong = file.clone();
        (0..=dice.roll(3)).for_each(|_| wrong.change(dice));
        let answer = world.reload(&spoil(&wrong.text(), taken, dice)).expect(422);
        assert!(answer.body.contains("errors"), "{}", answer.body);
        assert_eq!(world.config(), before, "the configuration is unchanged");
        guests.values_mut().for_each(|(_, _, guest)| guest.ping());
        return;
    }
    (0..=dice.roll(3)).for_each(|_| file.change(dice));
    let text = file.text();
    let answer = world.reload(&text).expect(200);
    let config = world.config();
    for line in text.lines().take_while(|line| !line.starts_with("[tls]")) {
        assert!(config.contains(line), "{line} is not in effect:\n{config}");
    }
    let authority = &authorities[file.certificate];
    let (new, gone) = (keys(&answer, "listeners_added"), keys(&answer, "listeners_removed"));
    for number in 0..EXTRA_LISTENERS {
        let name = format!("extra-{number}");
        if gone.contains(&name) {
            let (_, address, guest) = guests.remove(&number).expect("a client was connected");
            guest.expect_disconnected();
            assert!(TcpStream::connect(address).is_err(), "{address} is closed");
        }
        let Some((is_tls, _)) = file.listeners.get(&number) else {
            assert!(!guests.contains_key(&number), "{name} was removed without being reported");
            continue;
        };
        let address = match guests.get_mut(&number) {
            Some((_, address, guest)) => {
                guest.ping();
                *address
            }
            None => {
                assert!(new.contains(&name), "{name} was added without being reported");
                let address = added(&answer, &name);
                let guest = LoadClient::connect(authority, *is_tls, address, &format!("guest-{step}-{number}"));
                guests.insert(number, (*is_tls, address, guest));
                address
            }
        };
        LoadClient::connect(authority, *is_tls, address, &format!("passing-{step}-{number}")).ping();
    }
}

/// Publishes numbers from 1, each acknowledged before the next. Returns the last one.
fn publish_until(mut client: Client, at: usize, is_over: &AtomicBool) -> u64 {
    let topic = format!("load/{at}");
    let mut number = 0;
    loop {
        let ends = is_over.load(Ordering::Acquire);
        number += 1;
        let text = if ends { format!("{number} end") } else { number.to_string() };
        let reason = client.publish(&topic, AtLeastOnce, text.as_bytes());
        assert_eq!(reason, 0, "{topic}: {text}");
        if ends {
            return number;
        }
    }
}

/// Receives the numbers of several publishers, each in order and once. Returns the last of each.
fn receive_all(mut client: Client, publishers: usize) -> Vec<u64> {
    let mut last = vec![0; publishers];
    let mut ended = 0;
    while ended < publishers {
        let message = client.receive();
        let at: usize = message.topic().strip_prefix("load/").and_then(|at| at.parse().ok()).expect("a topic");
        let text = message.text().to_owned();
        let (number, end) = text.split_once(' ').unwrap_or((&text, ""));
        assert_eq!(number.parse(), Ok(last[at] + 1), "publisher {at}");
        last[at] += 1;
        ended += usize::from(end == "end");
    }
    last
}
