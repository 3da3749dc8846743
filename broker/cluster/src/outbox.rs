//! The outputs of a node, and the purposes of its operations in flight.

use std::collections::{BTreeMap, VecDeque};

use crate::interest::Change;
use crate::names::{ClientKey, GroupKey, Incarnation, Partition};
use crate::operation::{Decision, Operation, OperationId, Output};
use crate::peer_message::PeerMessage;

/// The part of the node that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Lease,
    /// Checking the record of another node.
    NodeCheck(Incarnation),
    Removal(Incarnation),
    PartitionProducer(Partition),
    Session(ClientKey),
    /// Following a partition.
    Log(Partition),
    Group(GroupKey),
    /// Reading a part of the log for lagging sessions.
    Read,
    /// Writing a retained message, by its subject.
    Retained(String),
    Mirror,
    Config,
    GarbageCollection,
    /// Reading groups, and the sessions of their members.
    HealthCheck,
    /// Reading the records of all nodes.
    Nodes,
    /// Freeing or removing a session during garbage collection.
    Freeing(ClientKey),
    /// Deleting the record of a dead node that no session names any more.
    Forgetting(Incarnation),
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    last: u64,
    in_flight: BTreeMap<OperationId, Purpose>,
    outputs: VecDeque<Output>,
}

impl Outbox {
    pub(crate) fn ask(&mut self, purpose: Purpose, operation: Operation) -> OperationId {
        self.last += 1;
        let id = OperationId(self.last);
        self.in_flight.insert(id, purpose);
        self.outputs.push_back(Output::Operation(id, operation));
        id
    }

    /// Returns the purpose of an operation whose answer has arrived; `None` if it was answered before.
    pub(crate) fn answered(&mut self, id: OperationId) -> Option<Purpose> {
        self.in_flight.remove(&id)
    }

    pub(crate) fn send(&mut self, to: Incarnation, message: PeerMessage) {
        self.outputs.push_back(Output::Send(to, message.encode()));
    }

    pub(crate) fn send_bytes(&mut self, to: Incarnation, bytes: Vec<u8>) {
        self.outputs.push_back(Output::Send(to, bytes));
    }

    pub(crate) fn change_interest(&mut self, changes: Vec<Change>) {
        self.outputs.extend(changes.into_iter().map(|change| match change {
            Change::AddInterest(pattern) => Output::AddInterest(pattern),
            Change::RemoveInterest(pattern) => Output::RemoveInterest(pattern),
        }));
    }

    pub(crate) fn put(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(crate) fn decide(&mut self, decision: Decision) {
        self.outputs.push_back(Output::Decision(decision));
    }

    pub(crate) fn next(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Drops all pending outputs and operations.
    pub(crate) fn clear(&mut self) {
        self.in_flight.clear();
        self.outputs.clear();
    }
}
