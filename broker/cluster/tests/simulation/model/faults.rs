//! Other events: drained nodes, configuration changes, and jumps of the store's clock.

use std::collections::BTreeSet;

use tautwire_cluster::names::Key;
use tautwire_cluster::record::{SessionRecord, ShareRecord};
use tautwire_cluster::{Settings, SharesOf, TICK_MS};

use crate::session::Session;
use crate::shard::{SHARDS, SHARE};
use crate::world::World;

/// Shorter than in production, so that everything happens within a minute.
pub(crate) fn settings(place: usize) -> Settings {
    Settings {
        shards: SHARDS,
        read_max_bytes: 300,
        in_flight_max_bytes: 1000,
        cache_max_bytes: 3000,
        reference: format!("node-{place}"),
        publish_timeout_ms: 1500,
        mirror_page: 2,
        scan_page: 2,
        collections_max: 2,
        share_ms: 1000,
        collection_interval_ms: 8000,
        group_check_interval_ms: 5000,
        group_check_members_max: 2,
        confirm_gone_ms: 11_000,
        // Longer than any operation may be late here.
        empty_group_s: 25,
        shares_of: SharesOf(shares_of),
        migrations_max: 2,
        config_poll_ms: 2000,
        ..Settings::default()
    }
}

fn shares_of(state: &[u8]) -> Option<Vec<String>> {
    Some(Session::is_member_of(state).then(|| SHARE.to_owned()).into_iter().collect())
}

impl World {
    /// Advances the store's clock. Expired sessions are removed.
    pub(crate) fn pass_time_of_store(&mut self) {
        self.store.now_ms = self.store.now_ms.max(self.now_ms + self.store_skew_ms);
        for client in self.store.expire() {
            let client = self.ledger.sessions.removed(client, true, self.now_ms);
            self.ledger.session_ended(client);
        }
    }

    /// An operator does something.
    pub(crate) fn operate(&mut self) {
        let pause_ms = self.random.between(500, 4000);
        self.after(pause_ms, crate::world::Event::Operate);
        if self.is_peace() {
            return;
        }
        let place = self.random.below(self.places.len() as u64) as usize;
        let what = self.random.below(10);
        let other = (place + 1) % self.places.len();
        let World { places, ledger, now_ms, .. } = self;
        let Some(life) = &mut places[place].life else { return };
        let local_ms = life.offset_ms + *now_ms * life.speed / 1000;
        match what {
            0 => life.member.drain(local_ms, true),
            1 => {
                let ticket = ledger.peer_commands.give();
                life.member.drain_peer(local_ms, ticket, &format!("node-{other}"), false, &ticket.to_string());
            }
            2 => life.member.rebalance(local_ms),
            _ => life.engine.propose(&mut life.member, ledger),
        }
        self.carry_out(place);
    }

    /// Checks what must hold after a long time without faults.
    pub(crate) fn settle(&self) {
        self.ledger.retaining.settle();
        self.ledger.sessions.settle();
        for (key, _, _) in self.store.keys() {
            if let Key::Node(node) = key {
                assert!(self.place_of(node).is_some(), "{key} still exists although the node is dead");
            }
        }
        self.settle_group();
        for life in self.places.iter().filter_map(|place| place.life.as_ref()) {
            let local_ms = life.offset_ms + self.now_ms * life.speed / 1000;
            let status = life.member.status(local_ms);
            assert_eq!(status.config.held, self.ledger.configurations.number, "a node has an old configuration");
            assert!(status.mirror.is_caught_up && status.counters.retaining_bytes == 0);
            assert!(status.producers.iter().all(|producer| producer.waiting == 0 && producer.group_age_ms.is_none()));
            assert!(status.nodes.iter().all(|node| node.age_ms < 20 * TICK_MS + 3000), "{status:?}");
            life.engine.settle(&self.ledger.retaining);
        }
    }

    /// The members of the group are those whose sessions have the subscription. Without members, it is removed.
    fn settle_group(&self) {
        let sessions = self.store.keys().filter_map(|(key, _, value)| match key {
            Key::Session(client) => Some((client, SessionRecord::decode(value).expect("a record"))),
            _ => None,
        });
        let share: BTreeSet<_> =
            sessions.filter(|(_, record)| Session::is_member_of(&record.state)).map(|(client, _)| client).collect();
        let group = self.store.keys().find(|(key, ..)| matches!(key, Key::Group(_)));
        let group = group.map(|(_, _, value)| ShareRecord::decode(value).expect("a record"));
        let members: BTreeSet<_> = group.iter().flat_map(|group| group.members.keys().copied()).collect();
        assert_eq!(members, share, "the members of the group are not the subscribers");
        assert_eq!(group.is_some(), !members.is_empty(), "the group is not removed");
    }
}
