//! Reads of the log for sessions that are behind, and for those that are claimed.

use std::sync::Arc;

use tautwire_cluster::Sequence;
use tautwire_cluster::delivery::{ReadRequest, Span};
use tautwire_cluster::names::Partition;

use super::super::port::ClusterRequest;
use super::{ClusterState, ReadPurpose};
use crate::index::ConnectionId;

impl<F> ClusterState<F> {
    /// Begins to read for those who are behind.
    pub(crate) fn begin_reads(&mut self) {
        while let Some(ReadRequest { number, partition, from }) = self.log.next_read_range() {
            self.read(ReadPurpose::CatchUp(number), partition, from);
        }
    }

    /// Begins to read.
    pub(crate) fn read(&mut self, reader: ReadPurpose, partition: Partition, from: Sequence) {
        let number = self.next_number();
        self.reads.insert(number, reader);
        self.ask(ClusterRequest::Read { number, partition, from });
    }

    /// A read has ended. Gives the claim that it was for; what was read for others is routed with the rest.
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
