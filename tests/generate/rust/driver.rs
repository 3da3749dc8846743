//! The driver of the generated Rust: `driver encode`, `driver decode`, or `driver run HOST PORT`.

mod awkward;
mod blocking_contracts;
mod contracts;
mod samples;

use std::error::Error;
use std::fmt::Debug;
use std::process::ExitCode;

use tautwire_client::{Client, Options, Publication, QoS, ReasonCode, Refused, Subscribe};

use contracts::*;
use samples::{everything, lamp, mapped, old};

type Outcome = Result<(), Box<dyn Error>>;

fn written<T: PartialEq + Debug>(
    name: &str,
    value: &T,
    bytes: Vec<u8>,
    read: fn(&[u8]) -> Result<T, PayloadError>,
) -> Outcome {
    let found = read(&bytes).map_err(|error| format!("{name}: {error}"))?;
    if found != *value {
        return Err(format!("{name}: {found:?}").into());
    }
    println!("{name} {}", hex(&bytes));
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads each line `NAME HEX` of standard input, decodes and encodes it, and prints the result, or `error`.
fn decode() -> Outcome {
    for line in std::io::stdin().lines() {
        let line = line?;
        let (name, digits) = line.split_once(' ').ok_or("a line without a space")?;
        let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
        let payload = bytes.collect::<Result<Vec<u8>, _>>()?;
        println!("{}", again(name, &payload).map_or("error".to_owned(), |bytes| hex(&bytes)));
    }
    Ok(())
}

fn again(name: &str, payload: &[u8]) -> Result<Vec<u8>, PayloadError> {
    Ok(match name {
        "everything" | "everything-empty" => Everything::from_protobuf(payload)?.to_protobuf(),
        "mapped-json" => Mapped::from_json(payload)?.to_json(),
        "mapped-pack" | "mapped-empty" => Mapped::from_messagepack(payload)?.to_messagepack(),
        "old" => Old::from_protobuf(payload)?.to_protobuf(),
        "lamp" => Lamp::from_json(payload)?.to_json(),
        "lamp_pack" => Lamp::from_messagepack(payload)?.to_messagepack(),
        _ => Samples::from_messagepack(payload)?.to_messagepack(),
    })
}

fn encode() -> Outcome {
    let value = everything();
    written("everything", &value, value.to_protobuf(), Everything::from_protobuf)?;
    let value = Everything::default();
    written("everything-empty", &value, value.to_protobuf(), Everything::from_protobuf)?;
    let value = mapped(b"true");
    written("mapped-json", &value, value.to_json(), Mapped::from_json)?;
    let value = mapped(b"\xc3");
    written("mapped-pack", &value, value.to_messagepack(), Mapped::from_messagepack)?;
    let value = Mapped::default();
    written("mapped-empty", &value, value.to_messagepack(), Mapped::from_messagepack)?;
    let value = old();
    written("old", &value, value.to_protobuf(), Old::from_protobuf)?;
    let value = lamp(true);
    written("lamp", &value, value.to_json(), Lamp::from_json)?;
    let value = lamp(false);
    written("lamp_pack", &value, value.to_messagepack(), Lamp::from_messagepack)?;
    let value = samples::samples();
    written("samples", &value, value.to_messagepack(), Samples::from_messagepack)
}

fn at_least_once(publication: Publication<'_>) -> Publication<'_> {
    publication.qos(QoS::AtLeastOnce)
}

fn taken(subscribe: Subscribe) -> Subscribe {
    subscribe.qos(QoS::AtLeastOnce)
}

fn same<T: PartialEq + Debug, V: PartialEq + Debug>(
    received: Option<Result<Received<T, V>, Rejected>>,
    topic: &T,
    value: &V,
) -> Outcome {
    let received = received.ok_or("the subscription has ended")?.map_err(|rejected| rejected.why)?;
    if received.topic == *topic && received.value == *value {
        return Ok(());
    }
    Err(format!("{:?} {:?}", received.topic, received.value).into())
}

async fn binary(client: &Client) -> Outcome {
    let topic = EverythingTopic { plant_id: "7".into(), level3: "hall 3".into() };
    let mut found = subscribe_everything(client, taken).await?;
    publish_everything(client, &topic, &everything(), at_least_once).await?.await?;
    same(found.next().await, &topic, &everything())
}

async fn named(client: &Client) -> Outcome {
    let topic = MappedJsonTopic { plant_id: "7".into() };
    let mut found = subscribe_mapped_json(client, taken).await?;
    publish_mapped_json(client, &topic, &mapped(b"true"), at_least_once).await?.await?;
    same(found.next().await, &topic, &mapped(b"true"))?;
    let topic = MappedPackTopic { plant_id: "7".into() };
    let mut found = subscribe_mapped_pack(client, taken).await?;
    publish_mapped_pack(client, &topic, &mapped(b"\xc3"), at_least_once).await?.await?;
    same(found.next().await, &topic, &mapped(b"\xc3"))
}

async fn plain(client: &Client) -> Outcome {
    let mut found = subscribe_old(client, taken).await?;
    publish_old(client, &OldTopic {}, &old(), at_least_once).await?.await?;
    same(found.next().await, &OldTopic {}, &old())?;
    let topic = LampTopic { room: "hall".into(), type_: "x".into() };
    let mut found = subscribe_lamp(client, taken).await?;
    publish_lamp(client, &topic, &lamp(true), at_least_once).await?.await?;
    same(found.next().await, &topic, &lamp(true))?;
    let mut found = subscribe_samples(client, taken).await?;
    publish_samples(client, &SamplesTopic {}, &samples::samples(), at_least_once).await?.await?;
    same(found.next().await, &SamplesTopic {}, &samples::samples())
}

/// The same functions for threads.
fn blocking(address: &str) -> Outcome {
    use blocking_contracts::{Received, Samples, SamplesTopic, publish_samples, subscribe_samples};
    let client = tautwire_client::blocking::Client::connect(Options::new(address)?)?;
    let value = Samples { value: vec![0.5] };
    let mut found = subscribe_samples(&client, taken)?;
    publish_samples(&client, &SamplesTopic {}, &value, at_least_once)?.wait()?;
    match found.next() {
        Some(Ok(Received { value: received, .. })) if received == value => Ok(client.disconnect()?),
        other => Err(format!("{other:?}").into()),
    }
}

fn is_refused<T: Debug>(result: Result<T, tautwire_client::Error>) -> Outcome {
    match result {
        Err(tautwire_client::Error::Refused {
            what: Refused::Message,
            reason: ReasonCode::PayloadFormatInvalid,
            ..
        }) => Ok(()),
        other => Err(format!("not refused: {other:?}").into()),
    }
}

async fn refused(client: &Client) -> Outcome {
    let bright = Lamp { brightness: Some(101), ..lamp(true) };
    let topic = LampTopic { room: "hall".into(), type_: "x".into() };
    is_refused(publish_lamp(client, &topic, &bright, at_least_once).await?.await)?;
    let elsewhere = EverythingTopic { plant_id: "8".into(), level3: "x".into() };
    is_refused(publish_everything(client, &elsewhere, &everything(), at_least_once).await?.await)?;
    is_refused(client.publish(at_least_once(Publication::new("samples", b"\x91\xc3"))).await?.await)?;
    let topic = LampTopic { room: "a/b".into(), type_: "x".into() };
    match publish_lamp(client, &topic, &lamp(true), at_least_once).await {
        Err(ContractError::Payload(_)) => Ok(()),
        other => Err(format!("a level with /: {other:?}").into()),
    }
}

async fn transcoded(client: &Client) -> Outcome {
    let mut found = subscribe_lamp_pack(client, taken).await?;
    let text = lamp(true).to_json();
    let publication = Publication::new("packed-lamps/a/b", &text).content_type("application/json");
    client.publish(at_least_once(publication)).await?.await?;
    same(found.next().await, &LampPackTopic { rest: "a/b".into() }, &lamp(false))
}

async fn invalid(client: &Client) -> Outcome {
    let mut found = subscribe_observed(client, taken).await?;
    client.publish(at_least_once(Publication::new("observed/1", b"\x0a\x05A"))).await?.await?;
    let topic = ObservedTopic { plant_id: "2".into() };
    publish_observed(client, &topic, &old(), at_least_once).await?.await?;
    match found.next().await {
        Some(Err(Rejected { message, why: ContractError::Payload(error) }))
            if message.topic() == "observed/1" && error.offset == Some(2) => {}
        other => return Err(format!("{other:?}").into()),
    }
    same(found.next().await, &topic, &old())
}

async fn run(host: &str, port: &str) -> Result<bool, Box<dyn Error>> {
    let address = format!("mqtt://{host}:{port}");
    let client = Client::connect(Options::new(&address)?).await?;
    let outcomes = [
        ("everything", binary(&client).await),
        ("mapped", named(&client).await),
        ("plain", plain(&client).await),
        ("blocking", tokio::task::block_in_place(|| blocking(&address))),
        ("refused", refused(&client).await),
        ("transcoded", transcoded(&client).await),
        ("invalid", invalid(&client).await),
    ];
    client.disconnect().await?;
    for (name, outcome) in &outcomes {
        match outcome {
            Ok(()) => println!("ok {name}"),
            Err(error) => println!("FAIL {name}: {error}"),
        }
    }
    Ok(outcomes.iter().all(|(_, outcome)| outcome.is_ok()))
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["encode"] => encode().map(|()| true),
        ["decode"] => decode().map(|()| true),
        ["run", host, port] => run(host, port).await,
        _ => Err("usage: driver encode | driver decode | driver run HOST PORT".into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
