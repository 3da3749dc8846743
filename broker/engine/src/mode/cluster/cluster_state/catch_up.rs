//! Reads of the log for lagging and for claimed sessions.

use std::sync::Arc;

use tautwire_cluster::Sequence;
use tautwire_cluster::delivery::{ReadRequest, Span};
use tautwire_cluster::names::Partition;

use super::super::port::ClusterRequest;
use super::{ClusterState, ReadPurpose};
use crate::index::ConnectionId;

impl<F> ClusterState<F> {
    /// Begins the reads for lagging sessions.
    pub(crate) fn begin_reads(&mut self) {
        while let Some(ReadRequest { number, partition, from }) = self.log.next_read_range() {
            self.read(ReadPurpose::CatchUp(number), partition, from);
        }
    }

    /// Requests a read.
    pub(crate) fn read(&mut self, purpose: ReadPurpose, partition: Partition, from: Sequence) {
        let number = self.next_number();
        self.reads.insert(number, purpose);
        self.push_request(ClusterRequest::Read { number, partition, from });
    }

    /// Ends a read. Returns the claim it was for; a span for lagging sessions is queued for routing.
    pub(crate) fn end_read(&mut self, number: u64, span: &Arc<Span>) -> Option<ConnectionId> {
        match self.reads.remove(&number)? {
            ReadPurpose::Claim(id) => Some(id),
            ReadPurpose::CatchUp(number) => {
                self.log.push_read(number, span.clone());
                None
            }
        }
    }
}
