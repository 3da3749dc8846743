//! A sensor reading with 12 fields as Protobuf (65 bytes), MessagePack and JSON, and the contracts for it.
//! Three of the fields are the stamp, of fixed width, so that a message is created by patching.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::stamp::PayloadStamp;

/// The format of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReadingFormat {
    Protobuf,
    MessagePack,
    Json,
}

/// The schema of the reading.
pub(crate) const READING_PROTO: &str = "\
syntax = \"proto3\";

enum Status {
  UNKNOWN = 0;
  NORMAL = 1;
  ALARM = 2;
}

message Reading {
  fixed64 sequence = 1;
  fixed32 publisher = 2;
  fixed32 run = 3;
  string sensor = 4;
  double temperature = 5;
  float humidity = 6;
  float pressure = 7;
  uint32 battery_percent = 8;
  sint32 signal_dbm = 9;
  bool charging = 10;
  Status status = 11;
  fixed64 taken_at_ms = 12;
}
";

/// The contracts: topics below `readings/FORMAT/` accept only readings of that format.
pub(crate) fn contracts_manifest() -> String {
    let contract = |format: ReadingFormat| {
        let name = format.name();
        format!(
            "[[contract]]\nname = \"{name}\"\ntopics = \"{}#\"\nformat = \"{name}\"\nschema = \"reading.proto\"\n\
             message = \"Reading\"\non_violation = \"reject\"\n\n",
            format.topic_prefix()
        )
    };
    [ReadingFormat::Protobuf, ReadingFormat::MessagePack, ReadingFormat::Json].map(contract).concat()
}

/// JSON numbers of a fixed width: counters start here.
const JSON_SEQUENCE_START: u64 = 1_000_000_000_000_000;
const JSON_U32_START: u64 = 1_000_000_000;
/// How many counters from the start fit into 32 bits, rounded down.
const JSON_U32_COUNT: u64 = 3_000_000_000;

const SENSOR: &str = "s-00017";
const TEMPERATURE: f64 = 21.625;
const HUMIDITY: f32 = 48.5;
const PRESSURE: f32 = 1013.25;
const BATTERY_PERCENT: u8 = 87;
const SIGNAL_DBM: i8 = -71;
const TAKEN_AT_MS: u64 = 1_767_225_600_123;

impl ReadingFormat {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Protobuf => "protobuf",
            Self::MessagePack => "messagepack",
            Self::Json => "json",
        }
    }

    /// The topic prefix of such readings.
    pub(crate) fn topic_prefix(self) -> String {
        format!("readings/{}/", self.name())
    }

    /// The reading without its stamp, and the position of the stamp.
    pub(super) fn template(self) -> (Vec<u8>, Reading) {
        match self {
            Self::Protobuf => protobuf(),
            Self::MessagePack => messagepack(),
            Self::Json => json(),
        }
    }
}

/// The positions of the stamp in a reading, and the format of its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    numbers: Numbers,
    seq_at: usize,
    publisher_at: usize,
    run_at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Numbers {
    LittleEndian,
    BigEndian,
    Decimal,
}

impl Reading {
    #[inline]
    pub(super) fn write(self, stamp: PayloadStamp, payload: &mut [u8]) {
        let [seq, publisher, run] = self.places();
        match self.numbers {
            Numbers::LittleEndian => {
                payload[seq].copy_from_slice(&stamp.seq.to_le_bytes());
                payload[publisher].copy_from_slice(&stamp.publisher.to_le_bytes());
                payload[run].copy_from_slice(&stamp.run.to_le_bytes());
            }
            Numbers::BigEndian => {
                payload[seq].copy_from_slice(&stamp.seq.to_be_bytes());
                payload[publisher].copy_from_slice(&stamp.publisher.to_be_bytes());
                payload[run].copy_from_slice(&stamp.run.to_be_bytes());
            }
            Numbers::Decimal => {
                write_decimal(&mut payload[seq], JSON_SEQUENCE_START + stamp.seq);
                write_decimal(&mut payload[publisher], JSON_U32_START + u64::from(stamp.publisher));
                write_decimal(&mut payload[run], JSON_U32_START + u64::from(stamp.run) % JSON_U32_COUNT);
            }
        }
    }

    /// Returns `None` if something other than the stamp differs from the template. `payload` is as long as the template.
    #[inline]
    pub(super) fn read(self, payload: &[u8], template: &[u8], run: u32) -> Option<PayloadStamp> {
        let [seq_at, publisher_at, run_at] = self.places();
        let (between, more, rest) =
            (seq_at.end..publisher_at.start, publisher_at.end..run_at.start, run_at.end..template.len());
        for fixed in [0..seq_at.start, between, more, rest] {
            if payload.get(fixed.clone())? != template.get(fixed)? {
                return None;
            }
        }
        let (seq, publisher, own_run) = (payload.get(seq_at)?, payload.get(publisher_at)?, payload.get(run_at)?);
        Some(match self.numbers {
            Numbers::LittleEndian => PayloadStamp {
                seq: u64::from_le_bytes(*seq.first_chunk()?),
                publisher: u32::from_le_bytes(*publisher.first_chunk()?),
                run: u32::from_le_bytes(*own_run.first_chunk()?),
            },
            Numbers::BigEndian => PayloadStamp {
                seq: u64::from_be_bytes(*seq.first_chunk()?),
                publisher: u32::from_be_bytes(*publisher.first_chunk()?),
                run: u32::from_be_bytes(*own_run.first_chunk()?),
            },
            Numbers::Decimal => PayloadStamp {
                seq: read_decimal(seq)?.checked_sub(JSON_SEQUENCE_START)?,
                publisher: u32::try_from(read_decimal(publisher)?.checked_sub(JSON_U32_START)?).ok()?,
                // The publisher truncated it, so compare the truncated value.
                run: if read_decimal(own_run)? == JSON_U32_START + u64::from(run) % JSON_U32_COUNT {
                    run
                } else {
                    !run
                },
            },
        })
    }

    fn places(self) -> [Range<usize>; 3] {
        let (long, short) = match self.numbers {
            Numbers::LittleEndian | Numbers::BigEndian => (8, 4),
            Numbers::Decimal => (16, 10),
        };
        let place = |at: usize, len: usize| at..at + len;
        [place(self.seq_at, long), place(self.publisher_at, short), place(self.run_at, short)]
    }
}

#[inline]
fn write_decimal(place: &mut [u8], mut value: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[inline]
fn read_decimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, &digit| digit.is_ascii_digit().then(|| value * 10 + u64::from(digit - b'0')))
}

fn protobuf() -> (Vec<u8>, Reading) {
    const FIXED64: u8 = 1;
    const LENGTH: u8 = 2;
    const FIXED32: u8 = 5;
    let mut bytes = vec![1 << 3 | FIXED64];
    let seq_at = bytes.len();
    bytes.extend([0; 8]);
    bytes.push(2 << 3 | FIXED32);
    let publisher_at = bytes.len();
    bytes.extend([0; 4]);
    bytes.push(3 << 3 | FIXED32);
    let run_at = bytes.len();
    bytes.extend([0; 4]);
    bytes.extend([4 << 3 | LENGTH, SENSOR.len() as u8]);
    bytes.extend(SENSOR.as_bytes());
    bytes.push(5 << 3 | FIXED64);
    bytes.extend(TEMPERATURE.to_le_bytes());
    bytes.push(6 << 3 | FIXED32);
    bytes.extend(HUMIDITY.to_le_bytes());
    bytes.push(7 << 3 | FIXED32);
    bytes.extend(PRESSURE.to_le_bytes());
    bytes.extend([8 << 3, BATTERY_PERCENT]);
    // Zigzag, in two bytes.
    let signal = ((i16::from(SIGNAL_DBM) << 1) ^ (i16::from(SIGNAL_DBM) >> 15)) as u16;
    bytes.extend([9 << 3, 0x80 | (signal & 0x7F) as u8, (signal >> 7) as u8]);
    bytes.extend([10 << 3, 1, 11 << 3, 1]);
    bytes.push(12 << 3 | FIXED64);
    bytes.extend(TAKEN_AT_MS.to_le_bytes());
    (bytes, Reading { numbers: Numbers::LittleEndian, seq_at, publisher_at, run_at })
}

fn messagepack() -> (Vec<u8>, Reading) {
    const MAP_OF_12: u8 = 0x8C;
    let mut bytes = vec![MAP_OF_12];
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.push(0xA0 | text.len() as u8);
        bytes.extend(text.as_bytes());
    };
    text(&mut bytes, "sequence");
    bytes.push(0xCF);
    let seq_at = bytes.len();
    bytes.extend([0; 8]);
    text(&mut bytes, "publisher");
    bytes.push(0xCE);
    let publisher_at = bytes.len();
    bytes.extend([0; 4]);
    text(&mut bytes, "run");
    bytes.push(0xCE);
    let run_at = bytes.len();
    bytes.extend([0; 4]);
    text(&mut bytes, "sensor");
    text(&mut bytes, SENSOR);
    text(&mut bytes, "temperature");
    bytes.push(0xCB);
    bytes.extend(TEMPERATURE.to_be_bytes());
    for (name, value) in [("humidity", HUMIDITY), ("pressure", PRESSURE)] {
        text(&mut bytes, name);
        bytes.push(0xCA);
        bytes.extend(value.to_be_bytes());
    }
    text(&mut bytes, "batteryPercent");
    bytes.push(BATTERY_PERCENT);
    text(&mut bytes, "signalDbm");
    bytes.extend([0xD0, SIGNAL_DBM.to_be_bytes()[0]]);
    text(&mut bytes, "charging");
    bytes.push(0xC3);
    text(&mut bytes, "status");
    text(&mut bytes, "NORMAL");
    text(&mut bytes, "takenAtMs");
    bytes.push(0xCF);
    bytes.extend(TAKEN_AT_MS.to_be_bytes());
    (bytes, Reading { numbers: Numbers::BigEndian, seq_at, publisher_at, run_at })
}

/// Compact, in the canonical JSON mapping of Protobuf: 64-bit integers are strings, names in lower camel case.
fn json() -> (Vec<u8>, Reading) {
    let (seq, u32_start) = (JSON_SEQUENCE_START, JSON_U32_START);
    let mut text = format!("{{\"sequence\":\"{seq}\"");
    let seq_at = text.len() - 17;
    text.push_str(&format!(",\"publisher\":{u32_start}"));
    let publisher_at = text.len() - 10;
    text.push_str(&format!(",\"run\":{u32_start}"));
    let run_at = text.len() - 10;
    text.push_str(&format!(
        ",\"sensor\":\"{SENSOR}\",\"temperature\":{TEMPERATURE},\"humidity\":{HUMIDITY},\"pressure\":{PRESSURE},\
         \"batteryPercent\":{BATTERY_PERCENT},\"signalDbm\":{SIGNAL_DBM},\"charging\":true,\"status\":\"NORMAL\",\
         \"takenAtMs\":\"{TAKEN_AT_MS}\"}}"
    ));
    (text.into_bytes(), Reading { numbers: Numbers::Decimal, seq_at, publisher_at, run_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protobuf_reading_has_65_bytes_and_the_others_more() {
        let bytes = |format: ReadingFormat| format.template().0.len();
        assert_eq!(bytes(ReadingFormat::Protobuf), 65);
        assert!(bytes(ReadingFormat::Protobuf) < bytes(ReadingFormat::MessagePack));
        assert!(bytes(ReadingFormat::MessagePack) < bytes(ReadingFormat::Json));
    }

    #[test]
    fn the_json_reading_is_json_with_twelve_members() {
        let (template, reading) = ReadingFormat::Json.template();
        let mut payload = template.clone();
        reading.write(PayloadStamp { seq: 42, publisher: 7, run: 4_000_000_000 }, &mut payload);
        let value: serde_json::Value = serde_json::from_slice(&payload).expect("JSON");
        assert_eq!(value.as_object().expect("an object").len(), 12);
        assert_eq!((&value["sequence"], &value["publisher"]), (&"1000000000000042".into(), &1_000_000_007.into()));
        assert!(value["run"].as_u64().is_some_and(|run| u32::try_from(run).is_ok()));
    }

    #[test]
    fn the_messagepack_reading_has_the_names_of_the_json_one() {
        let (json, _) = ReadingFormat::Json.template();
        let (messagepack, _) = ReadingFormat::MessagePack.template();
        let value: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        for name in value.as_object().expect("an object").keys() {
            assert!(messagepack.windows(name.len()).any(|window| window == name.as_bytes()), "{name}");
        }
        assert_eq!(READING_PROTO.lines().filter(|line| line.starts_with("  ") && line.contains(" = ")).count(), 12 + 3);
    }
}
