//! What stands for a cluster in a broker that has been built without one: values of these types do not exist.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tautwire_reactor::{ClusterOptions, ClusterSender};

use super::{DrainError, Proposed, SharedConfigStatus};
use crate::config::Config;
use crate::fields::Fields;
use crate::shared::{Parts, Shared};

/// What the configuration says of the cluster.
pub(crate) enum Plan {}

/// This broker as one of several.
pub(crate) enum Node {}

impl Plan {
    /// What the configuration says of the cluster; `None` for a broker that is alone.
    ///
    /// # Errors
    /// It names NATS servers.
    pub(crate) fn read(config: &Config) -> Result<Option<Plan>, Vec<String>> {
        if !config.cluster.has_servers() {
            return Ok(None);
        }
        let why = "cluster.servers: this broker has been built without clusters; take one of the releases, or build it with \
                   `--features cluster` [cluster_not_built]";
        Err(vec![why.to_owned()])
    }
}

impl Node {
    pub(crate) fn join(
        plan: Plan,
        _: Option<&Path>,
        _: usize,
        _: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Node>, String> {
        match plan {}
    }

    pub(crate) fn check(plan: &Plan) -> Result<(), String> {
        match *plan {}
    }

    pub(crate) fn seat(&self) -> ClusterOptions {
        match *self {}
    }

    pub(crate) fn begin(&self, _: ClusterSender) -> Result<(), String> {
        match *self {}
    }

    pub(crate) fn is_draining(&self) -> bool {
        match *self {}
    }

    pub(crate) fn await_service(&self, _: &mut dyn FnMut() -> bool) -> bool {
        match *self {}
    }

    pub(crate) fn adopt(&self, plan: Plan) {
        match plan {}
    }

    pub(crate) fn told(&self) -> Option<Fields> {
        match *self {}
    }

    pub(crate) fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        match *self {}
    }

    pub(crate) fn takes_clients(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_serving(&self) -> bool {
        match *self {}
    }

    pub(crate) fn drain(&self, _: bool) -> bool {
        match *self {}
    }

    pub(crate) fn name(&self) -> &str {
        match *self {}
    }

    pub(crate) fn drain_peer(&self, _: &str, _: bool, _: &str) -> Result<(), DrainError> {
        match *self {}
    }

    pub(crate) fn rebalance(&self) -> bool {
        match *self {}
    }

    pub(crate) fn apply_with(
        &self,
        _: impl Fn(&Arc<Shared>) -> Result<(), Vec<String>> + Send + 'static,
    ) -> Result<(), String> {
        match *self {}
    }

    pub(crate) fn retry_refused(&self) {
        match *self {}
    }

    pub(crate) fn sharing(&self) -> SharedConfigStatus {
        match *self {}
    }

    pub(crate) fn await_revision(&self, _: u64, _: Instant) -> Arc<Shared> {
        match *self {}
    }

    pub(crate) fn propose(&self, _: u64, _: &Parts, _: Instant) -> Proposed {
        match *self {}
    }

    pub(crate) fn stop(&self) {
        match *self {}
    }
}
