//! What an operator asks of one node by another one.
//!
//! The order goes by the bus, which loses messages: it is said again until the other node says that it has it. That node carries it out once. An
//! order is for one life: the next one of the same node never hears of it.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;

use crate::bytes::{Reader, Writer};
use crate::mutant::{Mutant, is};
use crate::names::Incarnation;
use crate::nodes::Nodes;
use crate::operation::Decision;
use crate::outbox::Outbox;
use crate::record::VERSION;
use crate::settings::Settings;

const DRAIN: u8 = 32;
const ACK: u8 = 33;

/// PeerCommands under way from one node. Beyond them, the next one is not given.
const COMMANDS_MAX: usize = 64;
/// PeerCommands that a node remembers to have carried out.
const COMPLETED_MAX: usize = 64;
/// Bytes of the name of whoever gives an order. The rest is cut off.
const BY_MAX_BYTES: usize = 256;

/// What has become of an order to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerCommandOutcome {
    /// The node has it, and does it.
    Taken,
    /// No node of that name is alive, as far as this one knows.
    Unknown,
    /// Several are.
    Ambiguous,
    /// The node has said nothing within [`command_timeout_ms`](crate::Settings::command_timeout_ms). It may have the order all the same.
    Silent,
    /// Too many orders are under way.
    TooMany,
}

/// PeerCommands of this node to others, and of others to this one.
#[derive(Debug, Default)]
pub(crate) struct PeerCommands {
    last: u64,
    given: BTreeMap<u64, PendingCommand>,
    /// Those that this node has carried out last.
    done: VecDeque<(Incarnation, u64)>,
}

#[derive(Debug)]
struct PendingCommand {
    ticket: u64,
    to: Incarnation,
    message: Vec<u8>,
    retry_at_ms: u64,
    until_ms: u64,
}

/// A message about an order, from node to node. It may be lost, late or doubled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerCommandMessage {
    from: Incarnation,
    /// Counts the orders of the life that gives them.
    number: u64,
    kind: PeerCommandKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PeerCommandKind {
    /// The receiver is to be drained.
    Drain { is_for_good: bool, by: String },
    /// The sender has the order with this number.
    Ack,
}

impl PeerCommands {
    /// Gives the order to be drained to the node of this name. `by` is who asks for it. The answer is [`Decision::PeerCommandResult`].
    pub(crate) fn drain(
        &mut self,
        ticket: u64,
        name: &str,
        is_for_good: bool,
        by: &str,
        nodes: &Nodes,
        cx: &mut PeerCommandContext<'_>,
    ) {
        let mut named = nodes.named(name, cx.now_ms, cx.settings);
        let outcome = match (named.next(), named.next()) {
            (None, _) => PeerCommandOutcome::Unknown,
            (Some(_), Some(_)) => PeerCommandOutcome::Ambiguous,
            (Some(_), None) if self.given.len() >= COMMANDS_MAX => PeerCommandOutcome::TooMany,
            (Some(to), None) => {
                self.last += 1;
                let kind = PeerCommandKind::Drain { is_for_good, by: cut(by).to_owned() };
                let message = PeerCommandMessage { from: cx.me, number: self.last, kind }.encode();
                let until_ms = cx.now_ms + cx.settings.command_timeout_ms;
                self.given.insert(self.last, PendingCommand { ticket, to, message, retry_at_ms: cx.now_ms, until_ms });
                return self.advance(cx);
            }
        };
        cx.out.decide(Decision::PeerCommandResult { ticket, outcome });
    }

    /// Says again what was not answered.
    pub(crate) fn advance(&mut self, cx: &mut PeerCommandContext<'_>) {
        self.given.retain(|_, given| {
            let is_over = given.until_ms <= cx.now_ms;
            if is_over {
                cx.out
                    .decide(Decision::PeerCommandResult { ticket: given.ticket, outcome: PeerCommandOutcome::Silent });
            }
            !is_over
        });
        for given in self.given.values_mut().filter(|given| given.retry_at_ms <= cx.now_ms) {
            given.retry_at_ms = cx.now_ms + cx.settings.retry_ms;
            cx.out.send_bytes(given.to, given.message.clone());
        }
    }

    /// Another node has said something of an order. Gives what this node is to do: whether it is drained for good.
    pub(crate) fn receive_peer(
        &mut self,
        message: PeerCommandMessage,
        cx: &mut PeerCommandContext<'_>,
    ) -> Option<bool> {
        let PeerCommandMessage { from, number, kind } = message;
        let PeerCommandKind::Drain { is_for_good, by } = kind else {
            // Numbers are of this life alone, and so is the subject by which it hears.
            let given = self.given.remove(&number).filter(|given| given.to == from)?;
            cx.out.decide(Decision::PeerCommandResult { ticket: given.ticket, outcome: PeerCommandOutcome::Taken });
            return None;
        };
        cx.out.send_bytes(from, PeerCommandMessage { from: cx.me, number, kind: PeerCommandKind::Ack }.encode());
        if self.done.contains(&(from, number)) && !is(Mutant::ObeysTwice) {
            return None;
        }
        if self.done.len() >= COMPLETED_MAX {
            self.done.pop_front();
        }
        self.done.push_back((from, number));
        cx.out.decide(Decision::DrainRequested { from, is_for_good, by });
        Some(is_for_good)
    }
}

/// What orders need of the node.
pub(crate) struct PeerCommandContext<'a> {
    pub(crate) me: Incarnation,
    pub(crate) now_ms: u64,
    pub(crate) settings: &'a Settings,
    pub(crate) out: &'a mut Outbox,
}

impl PeerCommandMessage {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let kind = if self.kind == PeerCommandKind::Ack { ACK } else { DRAIN };
        writer.u8(VERSION).u8(kind).u64(self.from.0.get()).u64(self.number);
        if let PeerCommandKind::Drain { is_for_good, by } = &self.kind {
            writer.u8((*is_for_good).into()).block(by.as_bytes());
        }
        writer.0
    }

    /// The message of these bytes; `None` where they are none of this version. It is as good as lost then.
    pub(crate) fn decode(bytes: &[u8]) -> Option<PeerCommandMessage> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let kind = reader.u8()?;
        let from = Incarnation(NonZeroU64::new(reader.u64()?)?);
        let number = reader.u64()?;
        let kind = match kind {
            ACK => PeerCommandKind::Ack,
            DRAIN => {
                let is_for_good = match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                PeerCommandKind::Drain { is_for_good, by: reader.text()?.to_owned() }
            }
            _ => return None,
        };
        reader.is_at_end().then_some(PeerCommandMessage { from, number, kind })
    }
}

fn cut(by: &str) -> &str {
    let end = (0..=BY_MAX_BYTES.min(by.len())).rev().find(|end| by.is_char_boundary(*end));
    &by[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let from = Incarnation(NonZeroU64::new(1).expect("not 0"));
        for kind in [PeerCommandKind::Drain { is_for_good: true, by: "ä".to_owned() }, PeerCommandKind::Ack] {
            let message = PeerCommandMessage { from, number: 2, kind };
            let bytes = message.encode();
            assert!((0..bytes.len()).all(|length| PeerCommandMessage::decode(&bytes[..length]).is_none()));
            assert_eq!(PeerCommandMessage::decode(&[&bytes[..], &[0]].concat()), None);
            assert_eq!(crate::PeerMessage::decode(&bytes), None);
            assert_eq!(PeerCommandMessage::decode(&bytes), Some(message));
        }
    }

    /// The bytes are part of the format: whoever changes them changes [`VERSION`].
    #[test]
    fn bytes_stay_what_they_are() {
        let from = Incarnation(NonZeroU64::new(1).expect("not 0"));
        let bytes = |kind| PeerCommandMessage { from, number: 2, kind }.encode();
        let head = |kind: u8| [&[1, kind, 1, 0, 0, 0, 0, 0, 0, 0][..], &[2, 0, 0, 0, 0, 0, 0, 0]].concat();
        let drain = [head(32), vec![1, 2, 0, 0, 0, b'm', b'e']].concat();
        assert_eq!(bytes(PeerCommandKind::Drain { is_for_good: true, by: "me".to_owned() }), drain);
        assert_eq!(bytes(PeerCommandKind::Ack), head(33));
    }

    #[test]
    fn a_long_name_is_cut_between_two_characters() {
        assert_eq!(cut("root"), "root");
        assert_eq!(cut(&"a".repeat(255).chars().chain("ä".chars()).collect::<String>()).len(), 255);
    }
}
