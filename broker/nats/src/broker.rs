//! The callbacks from a node to the broker that it belongs to.

use std::sync::Arc;

use tautwire_cluster::Decision;
use tautwire_cluster::names::ClientKey;

use crate::error::Error;
use crate::handle::Handle;

/// The broker, as its cluster node sees it. The node's thread calls all methods and waits for them, so they must return quickly, for
/// example after posting to the inbox of a shard.
pub trait Broker: Send + Sync + 'static {
    /// A new run of the node begins; `handle` is the handle to it. Called before any other method.
    fn node_started(&self, handle: &Handle);

    /// Passes a decision to the engine. Their number is bounded by what the engine has requested, plus a few; none may be lost.
    fn decide(&self, decision: Decision);

    /// Passes a QoS 0 message of another node that matches a pattern; one copy if it matches several. Returns false if there is no space
    /// for it: it is then counted and dropped.
    fn receive_broadcast(&self, pattern: &str, subject: &str, message: Arc<[u8]>) -> bool;

    /// Too many messages of a client are pending: stop reading from it until [`resume_reading`](Self::resume_reading). Data already
    /// received keeps its place.
    fn pause_reading(&self, client: ClientKey);

    /// All deferred messages of a client were sent.
    fn resume_reading(&self, client: ClientKey);

    /// The queue accepts commands again, after one was refused with [`Refused::Full`](crate::Refused::Full).
    fn queue_ready(&self);

    /// The state of the connection to the servers has changed.
    fn connection_status(&self, condition: &ConnectionStatus);

    /// This run of the node has ended, and so has its thread. After [`EndReason::Fenced`], another run may begin at once.
    fn node_ended(&self, ended: &EndReason);
}

/// The state of the connection to the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// There is no connection yet, or a transient condition prevents joining. The node retries.
    Waiting(Error),
    /// All requirements are met, and the node has joined.
    Ready,
    /// The node now uses another connection, with the access settings given last.
    AccessChanged,
    /// The new access settings cannot be used; the previous ones stay in use.
    AccessRefused(Error),
}

/// Why a run of the node has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The node was stopped.
    Stopped,
    /// The node was drained and has nothing left to hand over.
    Drained,
    /// Other nodes have declared the node dead.
    Fenced,
    /// The node cannot join until an operator changes something.
    Refused(Error),
}
