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
    fn begun(&self, life: &Handle);

    /// Something for the engine to do. There are never more under way than the engine has asked for, and a few; none may be lost.
    fn decide(&self, decision: Decision);

    /// A QoS 0 message of another node has come by a pattern; of those that come by several, one copy. False where there is no room for it: it is counted, and gone.
    fn hear(&self, pattern: &str, subject: &str, message: Arc<[u8]>) -> bool;

    /// Too much of a client's messages is on the way: nothing is to be read from it before [`go_on`](Self::go_on). What it has sent
    /// already keeps its place.
    fn hold(&self, client: ClientKey);

    /// All that was held of a client is on its way.
    fn go_on(&self, client: ClientKey);

    /// There is room for commands again, after one was refused with [`Refused::Full`](crate::Refused::Full).
    fn room(&self);

    /// How it is with the way to the servers has changed.
    fn condition(&self, condition: &Condition);

    /// This life of the node is over, and its thread with it. After [`Ended::Fenced`], another life may begin at once.
    fn ended(&self, ended: &Ended);
}

/// How it is with the way to the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
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
pub enum Ended {
    /// As it was asked to.
    Stopped,
    /// It has been drained: nothing of it is left to others.
    Drained,
    /// Others have taken the node for dead.
    Fenced,
    /// It cannot take part before somebody changes something.
    Refused(Error),
}
