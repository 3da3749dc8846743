use super::{Scram, ScramFault};
use crate::{Authenticator as _, Error};

fn vectors() -> Vec<serde_json::Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/vectors/scram/cases.json");
    let file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    file["vectors"].as_array().unwrap().clone()
}

/// The messages of the client, and the result.
fn run(vector: &serde_json::Value) -> (Vec<Vec<u8>>, Result<(), Error>) {
    let text = |name: &str| vector[name].as_str();
    let mut written = Vec::new();
    let mut go = || {
        let make = if vector["mechanism"] == "SCRAM-SHA-512" { Scram::sha512 } else { Scram::sha256 };
        let mut scram = make(text("user").unwrap(), text("password").unwrap())?;
        assert_eq!(scram.method(), vector["mechanism"]);
        written.push(scram.begin_with(text("client_nonce").unwrap().to_owned()));
        written.extend(scram.respond(text("server_first").map(str::as_bytes))?);
        scram.finish(text("server_final").map(str::as_bytes))
    };
    let result = go();
    (written, result)
}

#[test]
fn every_vector_succeeds() {
    let vectors = vectors();
    assert!(vectors.len() > 60);
    for mut vector in vectors {
        // This client prepares names and passwords.
        if let Some(prepared) = vector.get("prepared").cloned() {
            vector["result"] = "valid".into();
            for (name, text) in prepared.as_object().unwrap() {
                vector[name] = text.clone();
            }
        }
        let (written, result) = run(&vector);
        let expected = ["client_first", "client_final"].map(|name| vector[name].as_str());
        let expected: Vec<&[u8]> = expected.into_iter().flatten().map(str::as_bytes).collect();
        assert_eq!(written, expected, "{}", vector["id"]);
        let code = result.as_ref().err().map_or("valid", Error::code);
        assert_eq!(code, vector["result"], "{}: {result:?}", vector["id"]);
    }
}

const NONCE: &str = "nonce";
const CHALLENGE: &[u8] = b"r=nonce-and-more,s=AAAA,i=4096";

fn challenged(scram: &mut Scram, challenge: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    scram.begin_with(NONCE.to_owned());
    scram.respond(Some(challenge))
}

#[test]
fn keys_are_cached_for_the_same_salt_and_iterations() {
    let mut scram = Scram::sha256("ann", "pencil").unwrap().iterations_max(u32::MAX);
    let first = challenged(&mut scram, CHALLENGE).unwrap();
    // Without the password, only cached keys give the same proof.
    scram.forget_password();
    assert_eq!(challenged(&mut scram, CHALLENGE).unwrap(), first);
    for other in [&b"r=nonce-and-more,s=AAAA,i=4097"[..], b"r=nonce-and-more,s=AAAB,i=4097", CHALLENGE] {
        let mut fresh = Scram::sha256("ann", "pencil").unwrap();
        fresh.forget_password();
        assert_eq!(challenged(&mut scram, other).unwrap(), challenged(&mut fresh, other).unwrap());
    }
}

#[test]
fn each_exchange_has_its_own_nonce() {
    let mut scram = Scram::sha256("ann", "pencil").unwrap();
    assert_ne!(scram.begin().unwrap(), scram.begin().unwrap());
}

#[test]
fn early_or_repeated_success_proves_nothing() {
    let mut scram = Scram::sha256("ann", "pencil").unwrap();
    let unproved = |scram: &mut Scram| {
        for last in [&b"v=AAAA"[..], b"v="] {
            assert_eq!(scram.finish(Some(last)).unwrap_err().code(), "scram_server_signature");
        }
    };
    unproved(&mut scram);
    scram.begin().unwrap();
    unproved(&mut scram);
    challenged(&mut scram, CHALLENGE).unwrap();
    assert_eq!(scram.respond(Some(CHALLENGE)).unwrap_err().code(), "scram_malformed");
    unproved(&mut scram);
}

#[test]
fn only_the_maximum_of_iterations_is_configurable() {
    let mut scram = Scram::sha256("ann", "pencil").unwrap().iterations_max(4_095);
    let few = challenged(&mut scram, b"r=nonce-and-more,s=AAAA,i=4095");
    assert!(matches!(few, Err(Error::Scram(ScramFault::Iterations { least: 4_096, most: 4_095 }))), "{few:?}");
    let mut scram = Scram::sha256("ann", "pencil").unwrap().iterations_max(100_001);
    challenged(&mut scram, b"r=nonce-and-more,s=AAAA,i=100001").unwrap();
}

#[test]
fn debug_output_has_no_secrets() {
    let shown = format!("{:?}", Scram::sha256("ann", "pencil").unwrap());
    assert!(shown.contains("ann") && !shown.contains("pencil") && !shown.contains("112"), "{shown}");
}
