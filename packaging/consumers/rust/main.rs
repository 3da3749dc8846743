//! Sends itself a message with the packaged crates: `uses-tautwire ADDRESS`.

use tautwire_client::{Error, Options, Publication, QoS, Subscribe, blocking::Client};

fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_default();
    let client = Client::connect(Options::new(&address)?)?;
    let mut messages = client.subscribe(Subscribe::to("demo/hello").qos(QoS::AtLeastOnce))?;
    client.publish(Publication::new("demo/hello", "hi").qos(QoS::AtLeastOnce))?.wait()?;
    if let Some(message) = messages.next() {
        println!("{}: {}", message.topic(), String::from_utf8_lossy(message.payload()));
    }
    client.disconnect()
}
