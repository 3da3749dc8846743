//! Commands that an operator gives to one node through another.
//!
//! A command is sent over the bus, which may lose messages, and repeated until the other node acknowledges it. That node executes it once.
//! A command is for one incarnation: the next one of the same node never receives it.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;

use crate::bytes::{Reader, Writer};
use crate::mutant::{Mutant, is};
use crate::names::Incarnation;
use crate::nodes::Nodes;
use crate::operation::{Decision, PeerCommandOutcome};
use crate::outbox::Outbox;
use crate::record::VERSION;
use crate::settings::Settings;

const DRAIN: u8 = 32;
const ACK: u8 = 33;

/// The limit of pending commands of one node. Further ones are rejected.
const COMMANDS_MAX: usize = 64;
/// The number of executed commands that a node remembers.
const COMPLETED_MAX: usize = 64;
/// The limit of an operator's name in bytes. The rest is truncated.
const BY_MAX_BYTES: usize = 256;

/// The commands of this node to others, and of others to this one.
#[derive(Debug, Default)]
pub(crate) struct PeerCommands {
    last: u64,
    given: BTreeMap<u64, PendingCommand>,
    /// The last commands that this node has executed.
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

/// A message about a command, from node to node. It may be lost, delayed or duplicated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerCommandMessage {
    from: Incarnation,
    /// The number of the command, in the count of the sending incarnation.
    number: u64,
    kind: PeerCommandKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PeerCommandKind {
    /// The receiver must drain.
    Drain { is_for_good: bool, by: String },
    /// The sender has received the command with this number.
    Ack,
}

impl PeerCommands {
    /// Sends the drain command to the node with this name. `by` is the operator. The answer is [`Decision::PeerCommandResult`].
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

    /// Repeats unanswered commands.
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

    /// Handles a message about a command. Returns what this node must do: drain, and whether for good.
    pub(crate) fn receive_peer(
        &mut self,
        message: PeerCommandMessage,
        cx: &mut PeerCommandContext<'_>,
    ) -> Option<bool> {
        let PeerCommandMessage { from, number, kind } = message;
        let PeerCommandKind::Drain { is_for_good, by } = kind else {
            // Numbers are per incarnation, and so is the subject on which the node receives.
            let given = self.given.remove(&number).filter(|given| given.to == from)?;
            cx.out.decide(Decision::PeerCommandResult { ticket: given.ticket, outcome: PeerCommandOutcome::Taken });
            return None;
        };
        cx.out.send_bytes(from, PeerCommandMessage { from: cx.me, number, kind: PeerCommandKind::Ack }.encode());
        if self.done.contains(&(from, number)) && !is(Mutant::ExecutesTwice) {
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

/// The context of a node for commands.
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

    /// Decodes a message, or returns `None` if it is not of this version. It then counts as lost.
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
    fn commands_round_trip_and_other_bytes_are_refused() {
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

    /// The bytes are part of the format: a change requires a change of [`VERSION`].
    #[test]
    fn the_encoding_is_stable() {
        let from = Incarnation(NonZeroU64::new(1).expect("not 0"));
        let bytes = |kind| PeerCommandMessage { from, number: 2, kind }.encode();
        let head = |kind: u8| [&[1, kind, 1, 0, 0, 0, 0, 0, 0, 0][..], &[2, 0, 0, 0, 0, 0, 0, 0]].concat();
        let drain = [head(32), vec![1, 2, 0, 0, 0, b'm', b'e']].concat();
        assert_eq!(bytes(PeerCommandKind::Drain { is_for_good: true, by: "me".to_owned() }), drain);
        assert_eq!(bytes(PeerCommandKind::Ack), head(33));
    }

    #[test]
    fn a_long_name_is_truncated_at_a_character() {
        assert_eq!(cut("root"), "root");
        assert_eq!(cut(&"a".repeat(255).chars().chain("ä".chars()).collect::<String>()).len(), 255);
    }
}
