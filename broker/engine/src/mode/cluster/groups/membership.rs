//! Sessions join and leave groups.

use tautwire_cluster::Refusal;
use tautwire_cluster::names::{ClientKey, GroupKey};
use tautwire_protocol::{SubscribeReason, TopicFilter};
use tautwire_router::GroupUpdate;
use tautwire_session::Change;

use crate::index::SessionIndex;
use crate::mode::Clustered;
use crate::mode::cluster::cluster_state::SubscribeFilter;
use crate::mode::cluster::port::ClusterRequest;
use crate::shard::Shard;
use crate::shard::ShardState;

/// The prefix of a shared subscription [MQTT-4.8.2-1].
const SHARE: &str = "$share/";

impl ShardState<Clustered> {
    /// Joins the group of `$share/name/filter`: SUBACK waits until the session is a member in the cluster.
    #[cold]
    #[inline(never)]
    pub(crate) fn join_group(&mut self, session: SessionIndex, share: &str, request: SubscribeFilter) {
        let cluster = &mut self.mode.cluster;
        let Some(client) = cluster.served(session).map(|served| served.client()) else { return };
        let group = cluster.seed().group(share);
        cluster.joining.begin(client, group, request);
        cluster.await_join(session, group);
        self.request_join(session, share);
        self.notify_home(share, self.sessions.key(session), GroupUpdate::Ready);
    }

    fn request_join(&mut self, session: SessionIndex, share: &str) {
        let cluster = &mut self.mode.cluster;
        let Some((client, epoch)) = cluster.served(session).map(|served| (served.client(), served.epoch())) else {
            return;
        };
        cluster.push_request(ClusterRequest::Join { client, epoch, share: share.into() });
    }

    /// Joins the groups of a resumed session again.
    pub(in crate::mode::cluster) fn rejoin_groups(&mut self, session: SessionIndex) {
        for share in self.shares_of(session) {
            self.request_join(session, &share);
        }
    }

    /// Makes an accepted session ready for messages of its groups.
    pub(in crate::mode::cluster) fn activate_groups(&mut self, session: SessionIndex) {
        let member = self.sessions.key(session);
        for share in self.shares_of(session) {
            self.notify_home(&share, member, GroupUpdate::Ready);
        }
    }

    /// Leaves the groups of a session that is no longer served here. It stays a member, unless it `ends`.
    pub(in crate::mode::cluster) fn leave_groups(&mut self, session: SessionIndex, ends: bool) {
        let shares = self.shares_of(session);
        let cluster = &mut self.mode.cluster;
        let Some((client, epoch)) = cluster.served(session).map(|served| (served.client(), served.epoch())) else {
            return;
        };
        for share in shares {
            cluster.push_request(match ends {
                true => ClusterRequest::QuitGroup { client, epoch, share },
                false => ClusterRequest::Leave { client, share },
            });
        }
    }

    /// Removes a session that has unsubscribed from a group. A pending join ends.
    #[cold]
    #[inline(never)]
    pub(crate) fn unsubscribe_from_group(&mut self, session: SessionIndex, share: &str) {
        let cluster = &mut self.mode.cluster;
        let Some((client, epoch)) = cluster.served(session).map(|served| (served.client(), served.epoch())) else {
            return;
        };
        let group = cluster.seed().group(share);
        cluster.joining.end(client, group);
        cluster.end_join(client, group);
        cluster.push_request(ClusterRequest::QuitGroup { client, epoch, share: share.into() });
        self.release_pending_acks(Some(session));
    }

    /// Completes a join, and releases a SUBACK that waited for it.
    pub(in crate::mode::cluster) fn record_joined(&mut self, client: ClientKey, group: GroupKey) {
        let cluster = &mut self.mode.cluster;
        cluster.joining.end(client, group);
        let session = cluster.end_join(client, group);
        self.release_pending_acks(session);
    }

    fn shares_of(&self, session: SessionIndex) -> Vec<Box<str>> {
        let filters = self.sessions[session].subscriptions().iter().map(|(filter, _)| filter);
        filters.filter(|filter| filter.starts_with(SHARE)).map(Box::from).collect()
    }
}

impl Shard<Clustered> {
    /// Refuses a join with a reason code in SUBACK. A resumed session keeps its subscription.
    pub(in crate::mode::cluster) fn refuse_join(&mut self, client: ClientKey, group: GroupKey, why: Refusal) {
        let cluster = &mut self.state.mode.cluster;
        let (seed, request) = (cluster.seed(), cluster.joining.end(client, group));
        let Some(session) = cluster.end_join(client, group) else { return };
        let Some(request) = request else {
            log::error!(
                "the client {client} gets no messages of a shared subscription: its group refused it ({why:?})"
            );
            return;
        };
        let subscriptions = self.state.sessions[session].subscriptions();
        let is_of_group = |filter: &str| filter.starts_with(SHARE) && seed.group(filter) == group;
        let held = subscriptions.iter().find(|(filter, _)| is_of_group(filter));
        let held = held.map(|(filter, record)| (Box::<str>::from(filter), record));
        if let Some((share, record)) = held
            && let Ok(filter) = TopicFilter::new(&share)
        {
            self.state.commit(session, Change::Unsubscribed(share.clone()));
            self.remove_subscription(session, filter, record.format);
        }
        self.state.counters().subscriptions_refused.add(1);
        if let Some(index) = self.state.sessions.connection(session) {
            let reason = match why {
                // MQTT 3.1.1 has one failure code.
                _ if !self.state.connections[index].is_v5() => SubscribeReason::UnspecifiedError,
                Refusal::TooMany => SubscribeReason::QuotaExceeded,
                _ => SubscribeReason::ImplementationSpecificError,
            };
            self.state.mode.cluster.joining.refuse(client, request, reason);
        }
        self.state.release_pending_acks(Some(session));
    }
}
