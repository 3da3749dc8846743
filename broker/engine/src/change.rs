//! The settings change while the broker runs: a shard takes the new ones on between two packets, all at once.

use std::sync::Arc;

use tautwire_session::Journal;

use crate::hub::Hub;
use crate::jobs::Job;
use crate::settings::Settings;
use crate::shard::Shard;

impl<J: Journal> Shard<J> {
    /// Takes these settings on, if they are others.
    pub(crate) fn take_on_settings(&mut self, settings: &Arc<Settings>) {
        let Hub { regime, allowances, memory, cold, common, clock, .. } = &mut self.hub;
        if regime.has_adopted(settings) {
            return;
        }
        let is_retimed = regime.settings().shared_ack_timeout_s != settings.shared_ack_timeout_s;
        self.sys.change(common.shard(), settings, clock.now_ms());
        memory.set_limits(settings.memory_limits());
        cold.set_hot_max(settings.hot_max_bytes());
        let changed = allowances.keep_to(settings.quotas(), settings.flapping());
        self.hub.adopt_settings(settings);
        if is_retimed {
            self.hub.retime_watches();
        }
        if changed.rates {
            self.hub.hear_all_who_wait_for_their_rate();
        }
        if changed.counts_for_users {
            self.begin(Job::CountForUsers(0));
        }
    }
}
