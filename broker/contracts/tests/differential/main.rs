//! The wire plan beside another implementation of Protocol Buffers: on generated schemas, generated messages and mutated
//! payloads both must say the same. `DIFFERENTIAL_SEED` and `DIFFERENTIAL_ROUNDS` make it different and longer.

mod choices;
mod messages;
mod schemas;

use choices::Choices;
use prost::Message as _;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};
use tautwire_contracts::{Catalogue, Contract, Files, Format, Limits, Rule};

const MESSAGES_PER_SCHEMA: usize = 40;
const MUTATIONS_PER_MESSAGE: usize = 6;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A generated schema, as both sides know it.
struct Both {
    source: String,
    contract: std::sync::Arc<Contract>,
    descriptor: MessageDescriptor,
}

impl Both {
    fn new(choices: &mut Choices) -> Both {
        let source = schemas::generate(choices);
        let files = Files::from([
            ("s.proto".to_owned(), source.clone()),
            (
                "contracts.toml".to_owned(),
                "[[contract]]\nname = 'c'\ntopics = 't'\nformat = ['protobuf', 'json', 'messagepack']\nschema = 's.proto'\n\
                 message = 'M0'\n"
                    .to_owned(),
            ),
        ]);
        let catalogue =
            Catalogue::load(&files, &Limits::default()).unwrap_or_else(|errors| panic!("{source}\n{}", errors[0]));
        let contract = catalogue.named("c").expect("it was loaded").clone();
        let set = prost_reflect::DescriptorPool::decode(&*contract.schema().descriptor_set).expect("a descriptor set");
        let descriptor = set.get_message_by_name("p.M0").expect("the root");
        Both { source, contract, descriptor }
    }

    fn payload(&self, from: Format, to: Format, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        if let Err(violation) = self.contract.transcode(from, to, payload, &mut out) {
            panic!("{}\n{from:?} to {to:?}: {violation}\n{}", self.source, String::from_utf8_lossy(payload));
        }
        if let Err(violation) = self.contract.check("t", Some(to.content_type()), &out) {
            panic!("{}\nmade {to:?} is refused: {violation}\n{}", self.source, String::from_utf8_lossy(&out));
        }
        out
    }

    /// A message as it is after a journey: what is zero without being marked is not there.
    fn generate(&self, choices: &mut Choices) -> DynamicMessage {
        let message = messages::generate(&self.descriptor, choices);
        self.decode(&message.encode_to_vec()).expect("it was made")
    }

    fn decode(&self, payload: &[u8]) -> Result<DynamicMessage, prost::DecodeError> {
        DynamicMessage::decode(self.descriptor.clone(), payload)
    }

    /// The form for debugging does not end where types contain themselves.
    fn assert_same(&self, ours: &DynamicMessage, theirs: &DynamicMessage) {
        let text = |message: &DynamicMessage| serde_json::to_string(message).expect("it has a form in JSON");
        // A null of google.protobuf.Value may have any number and is null; what is not a number does not equal itself.
        let has_many_forms = text(ours).contains("null") || text(ours).contains("NaN");
        let same = ours == theirs || (has_many_forms && text(ours) == text(theirs));
        assert!(same, "{}\n{}\n{}", self.source, text(ours), text(theirs));
    }

    fn read_json(&self, json: &[u8]) -> Result<DynamicMessage, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let options = DeserializeOptions::new().deny_unknown_fields(false);
        let message = DynamicMessage::deserialize_with_options(self.descriptor.clone(), &mut deserializer, &options)?;
        deserializer.end()?;
        Ok(message)
    }
}

#[test]
fn every_way_through_the_formats_keeps_the_message() {
    let mut choices = Choices::new(number("DIFFERENTIAL_SEED", 1));
    for _ in 0..number("DIFFERENTIAL_ROUNDS", 60) {
        let both = Both::new(&mut choices);
        for _ in 0..MESSAGES_PER_SCHEMA {
            let message = both.generate(&mut choices);
            let wire = message.encode_to_vec();
            let json = both.payload(Format::Protobuf, Format::Json, &wire);
            let pack = both.payload(Format::Protobuf, Format::MessagePack, &wire);
            let text = String::from_utf8_lossy(&json).into_owned();
            let read = both.read_json(&json).unwrap_or_else(|error| panic!("{}\n{error}\n{text}", both.source));
            both.assert_same(&read, &message);
            for (format, payload) in [(Format::Protobuf, &wire), (Format::Json, &json), (Format::MessagePack, &pack)] {
                let back = both.payload(format, Format::Protobuf, payload);
                both.assert_same(&both.decode(&back).expect("it was made"), &message);
                assert_eq!(both.payload(format, Format::Json, payload), json, "{}\n{format:?}", both.source);
                assert_eq!(both.payload(format, Format::MessagePack, payload), pack, "{}\n{format:?}", both.source);
            }
            let theirs = serde_json::to_vec(&message).expect("it has a form in JSON");
            let back = both.payload(Format::Json, Format::Protobuf, &theirs);
            both.assert_same(&both.decode(&back).expect("it was made"), &message);
        }
    }
}

#[test]
fn mutated_binary_payloads_get_the_same_verdict() {
    let mut choices = Choices::new(number("DIFFERENTIAL_SEED", 1) ^ 0x5eed);
    let mut verdicts = [0u64; 2];
    for _ in 0..number("DIFFERENTIAL_ROUNDS", 60) {
        let both = Both::new(&mut choices);
        for _ in 0..MESSAGES_PER_SCHEMA {
            let wire = messages::generate(&both.descriptor, &mut choices).encode_to_vec();
            for _ in 0..MUTATIONS_PER_MESSAGE {
                let mutated = choices.mutate(&wire);
                let ours = both.contract.check("t", Some(Format::Protobuf.content_type()), &mutated);
                let theirs = both.decode(&mutated);
                if ours.as_ref().is_err_and(|violation| matches!(violation.rule, Rule::Group | Rule::Type)) {
                    // There, groups are known, and a value of another wire type is passed over as an unknown field.
                    continue;
                }
                let said = theirs.as_ref().err();
                assert_eq!(ours.is_ok(), theirs.is_ok(), "{}\n{mutated:02x?}\n{ours:?}\n{said:?}", both.source);
                verdicts[usize::from(ours.is_ok())] += 1;
                if let Ok(message) = theirs {
                    // A moment after the year 9999, or a google.protobuf.Value without one, has no other form.
                    let mut back = Vec::new();
                    let Ok(()) = both.contract.transcode(Format::Protobuf, Format::Protobuf, &mutated, &mut back)
                    else {
                        continue;
                    };
                    let mut known = message;
                    messages::forget_unknown(&mut known);
                    both.assert_same(&both.decode(&back).expect("it was made"), &known);
                }
            }
        }
    }
    assert!(verdicts.iter().all(|count| *count > 1_000), "too one-sided: {verdicts:?}");
}

#[test]
fn mutated_json_gets_the_same_verdict() {
    let mut choices = Choices::new(number("DIFFERENTIAL_SEED", 1) ^ 0x15e4);
    let mut verdicts = [0u64; 2];
    for _ in 0..number("DIFFERENTIAL_ROUNDS", 60) {
        let both = Both::new(&mut choices);
        for _ in 0..MESSAGES_PER_SCHEMA {
            let message = both.generate(&mut choices);
            let json = serde_json::to_vec(&message).expect("it has a form in JSON");
            for _ in 0..MUTATIONS_PER_MESSAGE {
                let mutated = choices.mutate_json(&json);
                let ours = both.contract.check("t", Some(Format::Json.content_type()), &mutated);
                let theirs = both.read_json(&mutated);
                let text = String::from_utf8_lossy(&mutated).into_owned();
                match (&ours, &theirs) {
                    (Ok(_), Ok(message)) => {
                        let back = both.payload(Format::Json, Format::Protobuf, &mutated);
                        both.assert_same(&both.decode(&back).expect("it was made"), message);
                    }
                    (Err(_), Err(_)) => {}
                    // It has nine digits of a second at most.
                    (Err(violation), Ok(_)) if violation.rule == Rule::TextFormat => {}
                    // Zeros before a number, or a plus, make it none.
                    (Err(violation), Ok(_)) if violation.found() == "a string that is no number" => {}
                    // Bits beyond the last byte must be zero.
                    (Err(violation), Ok(_)) if violation.expected() == "bytes in base64" => {}
                    // With unknown fields, it passes over unknown names of enumerations.
                    (Err(violation), Ok(_)) if violation.rule == Rule::Enumeration => {}
                    // The mapping lets integers between quotation marks have an exponent; not there.
                    (Ok(_), Err(error)) if error.to_string().starts_with("invalid digit") => {}
                    _ => panic!("{}\n{text}\n{ours:?}\n{:?}", both.source, theirs.as_ref().err()),
                }
                verdicts[usize::from(ours.is_ok())] += 1;
            }
        }
    }
    assert!(verdicts.iter().all(|count| *count > 1_000), "too one-sided: {verdicts:?}");
}
