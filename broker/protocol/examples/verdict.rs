//! Prints how this crate decodes packets, for comparison with decoders in other languages.
//!
//! Each input line is `VERSION MAX_PACKET_SIZE HEX`, with version 3, 4 or 5. Each output line is one of `valid CONSUMED HEX`, `incomplete`
//! and `CLASS REASON CODE OFFSET MESSAGE`. HEX is the packet encoded again, or the input where the packet can only be decoded. CLASS is
//! `malformed`, `protocol_error` or `too_large`.
//!
//! ```text
//! printf '4 100 c000\n' | cargo run -q -p tautwire-protocol --example verdict
//! ```

use std::error::Error;
use std::io::{BufRead, BufWriter, Write, stdin, stdout};

use tautwire_protocol::{DecodeOptions, EncodeError, Fault, Packet, ProtocolVersion, decode};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        writeln!(out, "{}", verdict(&line?)?)?;
    }
    Ok(out.flush()?)
}

fn verdict(line: &str) -> Result<String, Box<dyn Error>> {
    let mut words = line.split(' ');
    let version = match words.next() {
        Some("3") => ProtocolVersion::V3_1,
        Some("4") => ProtocolVersion::V3_1_1,
        Some("5") => ProtocolVersion::V5,
        _ => return Err("the first word is not 3, 4 or 5".into()),
    };
    let max_packet_size = words.next().ok_or("the maximum packet size is missing")?.parse()?;
    let input = from_hex(words.next().unwrap_or(""))?;
    Ok(match decode(&input, &DecodeOptions { version, max_packet_size }) {
        Ok((packet, consumed)) => {
            let again = encode_again(&packet, version)?;
            format!("valid {consumed} {}", to_hex(again.as_deref().unwrap_or(&input[..consumed])))
        }
        Err(error) => {
            let class = match error.fault {
                Fault::Incomplete { .. } => return Ok("incomplete".into()),
                Fault::Malformed => "malformed",
                Fault::ProtocolError => "protocol_error",
                Fault::OverLimit => "too_large",
            };
            format!("{class} {} {} {} {error}", error.reason.as_u8(), error.cause.code(), error.offset)
        }
    })
}

/// `None` if a server has to decode the packet to reject it and a client must not send it [MQTT-3.1.3-7].
fn encode_again(packet: &Packet<'_>, version: ProtocolVersion) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    match packet.append_to(version, &mut bytes) {
        Ok(_) => Ok(Some(bytes)),
        Err(EncodeError::ClientIdMissing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn from_hex(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    (0..text.len())
        .step_by(2)
        .map(|at| Ok(u8::from_str_radix(text.get(at..at + 2).ok_or("odd number of hex digits")?, 16)?))
        .collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
