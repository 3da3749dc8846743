//! Compares the wire plan with another implementation of Protocol Buffers, on generated schemas and messages and mutated payloads.
//! `DIFFERENTIAL_SEED` and `DIFFERENTIAL_ROUNDS` vary and extend it.

mod choices;
mod json_schema;
mod message_pack;
mod messages;
mod schemas;

use choices::Choices;
use prost::Message as _;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};
use tautwire_contracts::{Catalogue, Contract, Files, Format, LoadLimits, Rule, Violation};

const MESSAGES_PER_SCHEMA: usize = 40;
const MUTATIONS_PER_MESSAGE: usize = 6;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A generated schema, in both implementations.
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
            Catalogue::load(&files, &LoadLimits::default()).unwrap_or_else(|errors| panic!("{source}\n{}", errors[0]));
        let contract = catalogue.named("c").expect("it was loaded").clone();
        let set = prost_reflect::DescriptorPool::decode(&*contract.schema().descriptor_set).expect("a descriptor set");
        let descriptor = set.get_message_by_name("p.M0").expect("the root");
        Both { source, contract, descriptor }
    }

    fn payload(&self, from: Format, to: Format, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        if let Err(violation) = self.contract.transcode(from, to, payload, &mut out, usize::MAX) {
            panic!("{}\n{from:?} to {to:?}: {violation}\n{}", self.source, String::from_utf8_lossy(payload));
        }
        if let Err(violation) = self.contract.check("t", Some(to.content_type()), &out) {
            panic!("{}\nmade {to:?} is refused: {violation}\n{}", self.source, String::from_utf8_lossy(&out));
        }
        out
    }

    /// A message as it is after a round trip: unset zero values are absent.
    fn generate(&self, choices: &mut Choices) -> DynamicMessage {
        self.settled(&messages::generate(&self.descriptor, choices))
    }

    fn decode(&self, payload: &[u8]) -> Result<DynamicMessage, prost::DecodeError> {
        DynamicMessage::decode(self.descriptor.clone(), payload)
    }

    /// Compared as JSON, because the debug form does not terminate on recursive types.
    fn assert_same(&self, ours: &DynamicMessage, theirs: &DynamicMessage) {
        let text = |message: &DynamicMessage| serde_json::to_string(message).expect("it has a form in JSON");
        // A null of google.protobuf.Value may have any number; NaN does not equal itself.
        let has_many_forms = text(ours).contains("null") || text(ours).contains("NaN");
        let same = ours == theirs || (has_many_forms && text(ours) == text(theirs));
        assert!(same, "{}\n{}\n{}", self.source, text(ours), text(theirs));
    }

    /// Without explicit zero values, which a round trip through the binary form drops.
    fn settled(&self, message: &DynamicMessage) -> DynamicMessage {
        self.decode(&message.encode_to_vec()).expect("it was made")
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
fn every_transcoding_path_preserves_the_message() {
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
fn binary_mutations_are_checked_the_same() {
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
                    // The other implementation supports groups, and skips a value of another wire type as an unknown field.
                    continue;
                }
                let said = theirs.as_ref().err();
                assert_eq!(ours.is_ok(), theirs.is_ok(), "{}\n{mutated:02x?}\n{ours:?}\n{said:?}", both.source);
                verdicts[usize::from(ours.is_ok())] += 1;
                if let Ok(message) = theirs {
                    // A timestamp after the year 9999, or an empty google.protobuf.Value, cannot be transcoded.
                    let mut back = Vec::new();
                    let Ok(()) =
                        both.contract.transcode(Format::Protobuf, Format::Protobuf, &mutated, &mut back, usize::MAX)
                    else {
                        continue;
                    };
                    let mut known = message;
                    messages::forget_unknown(&mut known);
                    let ours = both.decode(&back).expect("it was made");
                    // The other implementation may write zeros, and treats minus zero as the default.
                    both.assert_same(&both.settled(&ours), &both.settled(&known));
                }
            }
        }
    }
    assert!(verdicts.iter().all(|count| *count > 1_000), "too one-sided: {verdicts:?}");
}

#[test]
fn json_mutations_are_checked_the_same() {
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
                        let mut ours = both.decode(&back).expect("it was made");
                        if text.contains('-') {
                            // The other implementation treats minus zero as the default of a field.
                            ours = both.settled(&ours);
                        }
                        both.assert_same(&ours, &both.settled(message));
                    }
                    (Err(_), Err(_)) => {}
                    (Err(violation), Ok(_)) if is_lenient_there(violation, &text) => {}
                    (Ok(_), Err(error)) if is_strict_there(&error.to_string(), &text) => {}
                    _ => panic!("{}\n{text}\n{ours:?}\n{:?}", both.source, theirs.as_ref().err()),
                }
                verdicts[usize::from(ours.is_ok())] += 1;
            }
        }
    }
    assert!(verdicts.iter().all(|count| *count > 1_000), "too one-sided: {verdicts:?}");
}

/// Whether only the other implementation accepts this.
fn is_lenient_there(violation: &Violation, text: &str) -> bool {
    let before = &text[..violation.offset.min(text.len())];
    // The text of the value or key that was read last.
    let value = before
        .trim_end_matches([' ', '\n', ':'])
        .strip_suffix('"')
        .and_then(|rest| rest.rsplit_once('"'))
        .map_or("", |(_, value)| value);
    match violation.rule {
        // The other implementation takes the last of several values of one name; the mapping does not specify it.
        Rule::Duplicate => true,
        // The other implementation skips unknown enumeration names together with unknown fields.
        Rule::Enumeration => violation.expected().starts_with("a name of p.E"),
        // The other implementation truncates fractions after nine digits.
        Rule::TextFormat => value.bytes().filter(u8::is_ascii_digit).count() > 9 && value.contains('.'),
        // The other implementation parses numbers in quotation marks as Rust does.
        Rule::Type if violation.found() == "a string that is not a number" => value.parse::<f64>().is_ok(),
        // The other implementation accepts numbers in quotation marks that are too large, as infinity.
        Rule::Range => match violation.expected() {
            "double" => value.parse::<f64>().is_ok_and(f64::is_infinite),
            "float" => value.parse::<f32>().is_ok_and(f32::is_infinite),
            _ => false,
        },
        // The other implementation accepts unused bits in the last byte.
        Rule::Type if violation.expected() == "bytes in base64" => value.bytes().all(|byte| byte.is_ascii_graphic()),
        _ => false,
    }
}

/// Whether only the other implementation rejects this.
fn is_strict_there(error: &str, text: &str) -> bool {
    // Integers in quotation marks may have an exponent, or zeros after a decimal point.
    (error.starts_with("invalid digit") && text.contains(['e', 'E', '.']))
        // So may the number of an enumeration.
        || (error.contains("floating point") && error.contains("expected a string or integer"))
        // Base64 that mixes both alphabets: all other known implementations of the mapping accept it.
        || error.starts_with("invalid base64: Invalid symbol 4")
}
