//! What a node tells the broker that it is a part of.

use std::sync::Arc;

use tautwire_cluster::Decision;
use tautwire_cluster::names::ClientKey;

use crate::error::Error;
use crate::handle::Handle;

/// The broker, as its node of the cluster sees it. All of this is called by the node's thread, which waits for it: it has to hand on and
/// return, for example by posting to the inbox of a shard.
pub trait Broker: Send + Sync + 'static {
    /// A life begins, and this is the way to it. Whoever begins it calls this, before anything else is told.
    fn life_started(&self, life: &Handle);

    /// Something for the engine to do. There are never more under way than the engine has asked for, and a few; none may be lost.
    fn decide(&self, decision: Decision);

    /// A QoS 0 message of another node has come by a pattern; of those that come by several, one copy. False where there is no room for it: it is counted, and gone.
    fn receive_broadcast(&self, pattern: &str, subject: &str, message: Arc<[u8]>) -> bool;

    /// Too much of a client's messages is on the way: nothing is to be read from it before [`resume_reading`](Self::resume_reading). What it has sent
    /// already keeps its place.
    fn pause_reading(&self, client: ClientKey);

    /// All that was held of a client is on its way.
    fn resume_reading(&self, client: ClientKey);

    /// There is room for commands again, after one was refused with [`Refused::Full`](crate::Refused::Full).
    fn queue_ready(&self);

    /// How it is with the way to the servers has changed.
    fn connection_status(&self, condition: &ConnectionStatus);

    /// This life of the node is over, and its thread with it. After [`EndReason::Fenced`], another life may begin at once.
    fn life_ended(&self, ended: &EndReason);
}

/// How it is with the way to the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// There is none yet, or something is missing that may come by itself. It is tried again.
    Waiting(Error),
    /// All that has to hold does, and the node takes part.
    Ready,
    /// Another connection is used from now on, by the access that was given last.
    AccessChanged,
    /// The access that was given cannot be used; the one before is.
    AccessRefused(Error),
}

/// Why a life has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// As it was asked to.
    Stopped,
    /// It has been drained: nothing of it is left to others.
    Drained,
    /// Others have taken the node for dead.
    Fenced,
    /// It cannot take part before somebody changes something.
    Refused(Error),
}
