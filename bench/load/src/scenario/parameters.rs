//! Parameters that several scenarios have: the payload and the QoS.

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::mqtt::{PayloadForm, QoS, ReadingFormat};

/// The content of payloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PayloadKind {
    /// Meaningless bytes.
    #[default]
    Plain,
    Protobuf,
    MessagePack,
    Json,
}

impl PayloadKind {
    /// `bytes` is the size of plain payloads.
    pub(crate) fn form(self, bytes: usize) -> Result<PayloadForm> {
        match self.format() {
            Some(format) => Ok(PayloadForm::reading(format)),
            None => plain_payload(bytes),
        }
    }

    /// Returns a topic for such payloads.
    pub(crate) fn topic(self, name: &str) -> String {
        let prefix = self.format().map_or_else(|| "bench/".to_owned(), ReadingFormat::topic_prefix);
        format!("{prefix}{name}")
    }

    fn format(self) -> Option<ReadingFormat> {
        match self {
            Self::Plain => None,
            Self::Protobuf => Some(ReadingFormat::Protobuf),
            Self::MessagePack => Some(ReadingFormat::MessagePack),
            Self::Json => Some(ReadingFormat::Json),
        }
    }
}

pub(super) fn plain_payload(bytes: usize) -> Result<PayloadForm> {
    PayloadForm::plain(bytes)
        .ok_or_else(|| Failure::new(format!("a payload of {bytes} bytes is too small for the message number")))
}

/// A QoS as in scenario files: 0, 1 or 2.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub(crate) struct QosLevel(pub QoS);

impl Default for QosLevel {
    fn default() -> Self {
        Self(QoS::AtMostOnce)
    }
}

impl TryFrom<u8> for QosLevel {
    type Error = String;

    fn try_from(level: u8) -> std::result::Result<Self, String> {
        QoS::from_u8(level).map(Self).ok_or_else(|| format!("invalid QoS {level}: must be 0, 1 or 2"))
    }
}

impl From<QosLevel> for u8 {
    fn from(level: QosLevel) -> u8 {
        level.0.as_u8()
    }
}
