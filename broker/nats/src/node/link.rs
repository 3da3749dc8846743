//! The connection of a node, with its subscriptions.

use std::sync::Arc;

use async_nats::{Client, Subscriber};
use tautwire_cluster::Revision;
use tautwire_cluster::names::{Incarnation, Key};
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;

use crate::connection;
use crate::counters::Counters;
use crate::error::Error;
use crate::jetstream::{Start, StreamReader};
use crate::layout::{CONFIG, NODE, bucket_stream, bucket_subjects, node_of, peer_subject};

/// An event for the node's thread from its tasks.
pub(super) enum Input {
    /// The current record of a node.
    Node(Incarnation, Revision, Vec<u8>),
    /// The record of a node was removed.
    Removed(Incarnation),
    /// The shared configuration, as a server has it.
    Config(Revision, Vec<u8>),
    /// A new connection, with the number of the request for it.
    Link(u64, Result<Box<Link>, Error>),
}

/// A connection with its subscriptions. Dropping it ends them.
pub(super) struct Link {
    pub(super) client: Client,
    /// Answers to operations of the store.
    pub(super) answers: Option<Subscriber>,
    /// Messages from other nodes.
    pub(super) peers: Option<Subscriber>,
    watches: [AbortHandle; 2],
}

impl Link {
    /// Subscribes to answers below `inbox`, to messages of other nodes, to their records, and to the shared configuration.
    pub(super) async fn open(
        client: Client,
        inbox: &str,
        me: Incarnation,
        inputs: Sender<Input>,
        counters: Arc<Counters>,
    ) -> Result<Link, Error> {
        let failed = |error: async_nats::SubscribeError| Error::Connection { why: error.to_string() };
        let answers = client.subscribe(format!("{inbox}.*")).await.map_err(failed)?;
        let peers = client.subscribe(peer_subject(me)).await.map_err(failed)?;
        connection::round_trip(&client).await;
        let nodes = tokio::spawn(watch_nodes(client.clone(), inputs.clone(), counters.clone()));
        let config = tokio::spawn(watch_config(client.clone(), inputs, counters));
        let watches = [nodes.abort_handle(), config.abort_handle()];
        Ok(Link { client, answers: Some(answers), peers: Some(peers), watches })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.watches.iter().for_each(AbortHandle::abort);
    }
}

/// Reports each record of a node, and each change.
async fn watch_nodes(client: Client, inputs: Sender<Input>, counters: Arc<Counters>) {
    let subjects = bucket_subjects(NODE);
    let mut records = StreamReader::new(client, counters, &bucket_stream(NODE), &subjects, Start::LastPerSubject);
    loop {
        let entry = records.next().await;
        let Some(node) = node_of(&entry.subject) else { continue };
        let input = match entry.is_removal {
            true => Input::Removed(node),
            false => Input::Node(node, Revision(entry.sequence), entry.payload),
        };
        if inputs.send(input).await.is_err() {
            return;
        }
    }
}

/// Reports the shared configuration, and each change.
async fn watch_config(client: Client, inputs: Sender<Input>, counters: Arc<Counters>) {
    let subject = format!("$KV.{}", Key::Config);
    let mut revisions = StreamReader::new(client, counters, &bucket_stream(CONFIG), &subject, Start::LastPerSubject);
    loop {
        let entry = revisions.next().await;
        let input = Input::Config(Revision(entry.sequence), entry.payload);
        if !entry.is_removal && inputs.send(input).await.is_err() {
            return;
        }
    }
}
