//! The messages with which nodes verify that other nodes know their interest.

use std::num::NonZeroU64;

use crate::bytes::{Reader, Writer};
use crate::names::Incarnation;
use crate::record::VERSION;

const PROBE: u8 = 48;
const ECHO: u8 = 49;

/// A message about a probe, from node to node. It may be lost, delayed or duplicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbeMessage {
    pub(crate) from: Incarnation,
    /// The number of the probe, in the count of the sending incarnation.
    pub(crate) number: u64,
    pub(crate) kind: ProbeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeKind {
    /// The receiver must send [`Echo`](ProbeKind::Echo) on the subject of this probe.
    Probe,
    /// The sender has received the probe.
    Echo,
}

impl ProbeMessage {
    pub(crate) fn encode(self) -> Vec<u8> {
        let kind = match self.kind {
            ProbeKind::Probe => PROBE,
            ProbeKind::Echo => ECHO,
        };
        let mut writer = Writer::default();
        writer.u8(VERSION).u8(kind).u64(self.from.0.get()).u64(self.number);
        writer.0
    }

    /// Decodes a message, or returns `None` if it is not of this version. It then counts as lost.
    pub(crate) fn decode(bytes: &[u8]) -> Option<ProbeMessage> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let kind = match reader.u8()? {
            PROBE => ProbeKind::Probe,
            ECHO => ProbeKind::Echo,
            _ => return None,
        };
        let from = Incarnation(NonZeroU64::new(reader.u64()?)?);
        let number = reader.u64()?;
        reader.is_at_end().then_some(ProbeMessage { from, number, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_round_trip_and_other_bytes_are_refused() {
        let from = Incarnation(NonZeroU64::new(1).expect("not 0"));
        for kind in [ProbeKind::Probe, ProbeKind::Echo] {
            let message = ProbeMessage { from, number: 2, kind };
            let bytes = message.encode();
            assert!((0..bytes.len()).all(|length| ProbeMessage::decode(&bytes[..length]).is_none()));
            assert_eq!(ProbeMessage::decode(&[&bytes[..], &[0]].concat()), None);
            assert_eq!(crate::PeerMessage::decode(&bytes), None);
            assert_eq!(ProbeMessage::decode(&bytes), Some(message));
        }
    }

    /// The bytes are part of the format: a change requires a change of [`VERSION`].
    #[test]
    fn the_encoding_is_stable() {
        let from = Incarnation(NonZeroU64::new(1).expect("not 0"));
        let bytes = |kind| ProbeMessage { from, number: 2, kind }.encode();
        let message = |kind: u8| [&[1, kind, 1, 0, 0, 0, 0, 0, 0, 0][..], &[2, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(bytes(ProbeKind::Probe), message(48));
        assert_eq!(bytes(ProbeKind::Echo), message(49));
    }
}
