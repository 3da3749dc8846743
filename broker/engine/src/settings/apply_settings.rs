//! Applies new settings while the broker runs, all at once between two packets.

use std::sync::Arc;

use crate::mode::Mode;
use crate::scheduling::jobs::Job;
use crate::settings::values::Settings;
use crate::shard::Shard;
use crate::shard::ShardState;

impl<M: Mode> Shard<M> {
    /// Applies these settings if they have changed.
    pub(crate) fn apply_settings(&mut self, settings: &Arc<Settings>) {
        let ShardState { config, quota_state, memory, spill, operations, context, clock, .. } = &mut self.state;
        if config.has_applied(settings) {
            return;
        }
        let is_retimed = config.settings().shared_ack_timeout_s != settings.shared_ack_timeout_s;
        operations.apply_settings(context.shard(), settings, clock.now_ms());
        memory.set_limits(settings.memory_limits());
        spill.set_loaded_max(settings.loaded_max_bytes());
        let changed = quota_state.apply_limits(settings.quotas(), settings.flapping());
        self.state.apply_settings(settings);
        if is_retimed {
            self.state.update_watch_deadlines();
        }
        if changed.rates {
            self.state.resume_all_rate_limited();
        }
        if changed.counts_user_usage {
            self.begin(Job::CountSessionsOfUsers(0));
        }
    }
}
