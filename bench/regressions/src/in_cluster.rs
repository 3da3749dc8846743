use std::hint::black_box;

use tautwire_cluster::names::{PARTITIONS, Seed};
use tautwire_cluster::record::Place;
use tautwire_engine::{ClusterEvent, ClusterSettings};
use tautwire_session::InCluster;

use crate::engine::{Broker, NOW_MS};
use crate::packets::Layout;

/// A shard of a cluster, as a release has beside those of a single broker. What both have in common is called from one more place then:
/// the compiler may not put it where it is called any more. It refuses a client, since no lease holds.
pub fn meet() {
    let mut broker = Broker::with(InCluster);
    broker.shard.join_cluster(Seed(black_box([7; 16])), ClusterSettings::default());
    let began = ClusterEvent::Began { next: [Place::START; PARTITIONS as usize] };
    broker.shard.hear_from_cluster(black_box(began), NOW_MS);
    broker.connect("visitor", Layout::V5);
}
