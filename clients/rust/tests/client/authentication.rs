//! Authenticators that may wait and use the client in the middle of an exchange.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tautwire_client::{Authenticator, Client, Error, Options, blocking};

use crate::support::{PATIENCE, any_port};

/// The client functions that both APIs share.
trait Look: Send + 'static {
    fn look(&self);
}

impl Look for blocking::Client {
    fn look(&self) {
        let _ = (self.counters(), self.client_id());
    }
}

impl Look for Client {
    fn look(&self) {
        let _ = (self.counters(), self.client_id());
    }
}

/// Waits for the client before it begins, and takes the client's lock in each step.
struct Slow<C> {
    client: Receiver<C>,
    known: Option<C>,
    steps: Sender<String>,
}

impl<C: Look> Slow<C> {
    fn step(&mut self, name: &str, data: Option<&[u8]>) {
        let client = self.known.get_or_insert_with(|| self.client.recv_timeout(PATIENCE).expect("the client"));
        client.look();
        let text = String::from_utf8_lossy(data.unwrap_or_default()).into_owned();
        self.steps.send(format!("{name} {text}")).expect("the test waits");
    }
}

impl<C: Look> Authenticator for Slow<C> {
    fn method(&self) -> &str {
        "SLOW"
    }

    fn begin(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.step("begin", None);
        Ok(Some(b"hello".to_vec()))
    }

    fn respond(&mut self, data: Option<&[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.step("respond", data);
        if data == Some(b"bad") { Err(Error::Authentication("it is bad".into())) } else { Ok(data.map(<[u8]>::to_vec)) }
    }

    fn finish(&mut self, data: Option<&[u8]>) -> Result<(), Error> {
        self.step("finish", data);
        Ok(())
    }

    fn may_wait(&self) -> bool {
        true
    }
}

/// A packet with a variable header and the properties of an authentication.
fn packet(first: u8, start: &[u8], data: &str) -> Vec<u8> {
    let mut properties = vec![0x15, 0, 4];
    properties.extend(b"SLOW");
    properties.extend([0x16, 0, data.len() as u8]);
    properties.extend(data.as_bytes());
    let mut packet = vec![first, (start.len() + 1 + properties.len()) as u8];
    packet.extend(start);
    packet.push(properties.len() as u8);
    packet.extend(properties);
    packet
}

/// Reads until `data` has arrived.
fn expect(stream: &mut TcpStream, data: &str) {
    let mut said = Vec::<u8>::new();
    while !said.windows(data.len()).any(|part| part == data.as_bytes()) {
        let count = read(stream, &mut said);
        assert!(count > 0, "{said:?} has no {data}");
    }
}

/// Reads available bytes, at least one; 0 at the end of the connection.
fn read(stream: &mut TcpStream, said: &mut Vec<u8>) -> usize {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(count) => {
                said.extend(&buffer[..count]);
                return count;
            }
            // With a timeout the kernel does not restart the system call of a stopped process.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("the client neither sends nor closes: {error}"),
        }
    }
}

/// Sends two challenges, then the end of the exchange with a message, and a re-authentication.
fn serve(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().expect("a client");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    expect(&mut stream, "SLOW\x16\0\x05hello");
    // The second challenge is sent before the first is answered, and in two pieces.
    let second = packet(0xf0, &[0x18], "two");
    stream.write_all(&[packet(0xf0, &[0x18], "one"), second[..3].to_vec()].concat()).expect("it reads");
    expect(&mut stream, "one");
    stream.write_all(&second[3..]).expect("it reads");
    expect(&mut stream, "two");
    stream.write_all(&packet(0x20, &[0, 0], "done")).expect("it reads");
    expect(&mut stream, "hello");
    stream.write_all(&[packet(0xf0, &[0x18], "three"), packet(0xf0, &[0], "again")].concat()).expect("it reads");
    expect(&mut stream, "three");
    // Until the client disconnects.
    while read(&mut stream, &mut Vec::new()) > 0 {}
}

const STEPS: [&str; 7] =
    ["begin ", "respond one", "respond two", "finish done", "begin ", "respond three", "finish again"];

fn begin<C: Look>() -> (Options, Sender<C>, Receiver<String>, thread::JoinHandle<()>) {
    let listener = TcpListener::bind(any_port()).expect("a port");
    let address = listener.local_addr().expect("bound");
    let server = thread::spawn(move || serve(&listener));
    let ((give, client), (steps, seen)) = (channel(), channel());
    let options = Options::new(&format!("mqtt://{address}")).expect("an address").authenticator(Slow {
        client,
        known: None,
        steps,
    });
    (options, give, seen, server)
}

fn check(seen: &Receiver<String>, steps: &[&str]) {
    for step in steps {
        assert_eq!(seen.recv_timeout(PATIENCE).expect("a step"), *step);
    }
}

#[test]
fn a_thread_calls_the_authenticator_without_locks() {
    let (options, give, seen, server) = begin();
    let client = blocking::Client::start(options).expect("a thread");
    give.send(client.clone()).expect("it waits");
    check(&seen, &STEPS[..4]);
    client.online().expect("connected");
    client.reauthenticate().expect("accepted");
    check(&seen, &STEPS[4..]);
    let _ = client.disconnect();
    server.join().expect("it saw what it should");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_calls_the_authenticator_without_locks() {
    let (options, give, seen, server) = begin();
    let client = Client::start(options);
    give.send(client.clone()).expect("it waits");
    client.online().await.expect("connected");
    check(&seen, &STEPS[..4]);
    client.reauthenticate().await.expect("accepted");
    check(&seen, &STEPS[4..]);
    let _ = client.disconnect().await;
    server.join().expect("it saw what it should");
}
