//! What else happens in the world: nodes that are drained, configurations that change, and clocks of the store that jump.

use tautwire_cluster::{Settings, TICK_MS};

use crate::shard::SHARDS;
use crate::world::World;

/// Shorter than in earnest, so that all of it happens in a minute.
pub(crate) fn settings(place: usize) -> Settings {
    Settings {
        shards: SHARDS,
        read_max_bytes: 300,
        handed_max_bytes: 1000,
        kept_max_bytes: 3000,
        reference: format!("node-{place}"),
        publish_timeout_ms: 1500,
        mirror_page: 2,
        scan_page: 2,
        sweeps_max: 2,
        share_ms: 1000,
        patrol_ms: 8000,
        moves_max: 2,
        config_poll_ms: 2000,
        ..Settings::default()
    }
}

impl World {
    /// The store's clock goes on. Sessions whose time has passed are gone.
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
        let World { places, ledger, now_ms, .. } = self;
        let Some(life) = &mut places[place].life else { return };
        let local_ms = life.offset_ms + *now_ms * life.speed / 1000;
        match what {
            0 | 1 => life.member.drain(local_ms, what == 0),
            2 => life.member.rebalance(local_ms),
            _ => life.engine.propose(&mut life.member, ledger),
        }
        self.carry_out(place);
    }

    /// What has to hold when all has been well for a long time.
    pub(crate) fn settle(&self) {
        self.ledger.retaining.settle();
        self.ledger.sessions.settle();
        for (key, _, _) in self.store.keys() {
            if let tautwire_cluster::names::Key::Node(node) = key {
                assert!(self.place_of(node).is_some(), "{key} is still there, and the node is dead");
            }
        }
        for life in self.places.iter().filter_map(|place| place.life.as_ref()) {
            let local_ms = life.offset_ms + self.now_ms * life.speed / 1000;
            let status = life.member.status(local_ms);
            assert_eq!(status.config.held, self.ledger.configurations.number, "a node has an old configuration");
            assert!(status.mirror.is_caught_up && status.counters.retaining_bytes == 0);
            assert!(status.lanes.iter().all(|lane| lane.waiting == 0 && lane.group_age_ms.is_none()));
            assert!(status.nodes.iter().all(|node| node.age_ms < 20 * TICK_MS + 3000), "{status:?}");
            life.engine.settle(&self.ledger.retaining);
        }
    }
}
