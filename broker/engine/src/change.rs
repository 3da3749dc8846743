//! The settings change while the broker runs: a shard takes the new ones on between two packets, all at once.

use std::sync::Arc;

use tautwire_session::Journal;

use crate::jobs::Job;
use crate::quotas::Flapping;
use crate::settings::Settings;
use crate::shard::Shard;

impl<J: Journal> Shard<J> {
    /// Takes these settings on, if they are others.
    pub(crate) fn take_on_settings(&mut self, settings: &Arc<Settings>) {
        let hub = &mut self.hub;
        if Arc::ptr_eq(settings, &hub.settings) {
            return;
        }
        self.sys.change(hub.shard, settings, hub.now_ms);
        hub.memory.set_limits(settings.memory_limits());
        hub.cold.set_hot_max(settings.hot_max_bytes());
        hub.flapping = settings.flapping().map(|rule| {
            let mut flapping = hub.flapping.take().unwrap_or_else(|| Flapping::new(rule));
            flapping.keep_to(rule);
            flapping
        });
        let quotas = settings.quotas();
        let has_rate_changed =
            quotas.publish != hub.quotas.publish || quotas.of_user.publish != hub.quotas.of_user.publish;
        hub.paces_publishers = quotas.pace_publishers();
        let count_for_users = quotas.of_user.are_bounded() && !hub.quotas.of_user.are_bounded();
        hub.quotas = quotas;
        hub.settings = settings.clone();
        hub.change_terms();
        if has_rate_changed {
            hub.hear_all_who_wait_for_their_rate();
        }
        if count_for_users {
            self.begin(Job::CountForUsers(0));
        }
    }
}
