//! Stand-ins for a broker built without clusters: values of these types cannot exist.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tautwire_reactor::{ClusterOptions, ClusterSender};

use super::{DrainError, ProposeOutcome, SharedConfigStatus};
use crate::config::Config;
use crate::fields::Fields;
use crate::shared::{Parts, Shared};

/// The cluster settings.
pub(crate) enum Plan {}

/// The cluster node.
pub(crate) enum Node {}

impl Plan {
    /// Checks the configuration; `None` for a broker without a cluster.
    ///
    /// # Errors
    /// The configuration names NATS servers.
    pub(crate) fn read(config: &Config) -> Result<Option<Plan>, Vec<String>> {
        if !config.cluster.has_servers() {
            return Ok(None);
        }
        let why = "cluster.servers: this broker has been built without clusters; use a release, or build it \
                   with the default features [cluster_not_built]";
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

    pub(crate) fn cluster_options(&self) -> ClusterOptions {
        match *self {}
    }

    pub(crate) fn start(&self, _: ClusterSender) -> Result<(), String> {
        match *self {}
    }

    pub(crate) fn is_draining(&self) -> bool {
        match *self {}
    }

    pub(crate) fn await_service(&self, _: &mut dyn FnMut() -> bool) -> bool {
        match *self {}
    }

    pub(crate) fn apply(&self, plan: Plan) {
        match plan {}
    }

    pub(crate) fn status_fields(&self) -> Option<Fields> {
        match *self {}
    }

    pub(crate) fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        match *self {}
    }

    pub(crate) fn accepts_clients(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_serving(&self) -> bool {
        match *self {}
    }

    pub(crate) fn cluster_id(&self) -> String {
        match *self {}
    }

    pub(crate) fn is_elected(&self, _: &str) -> bool {
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

    pub(crate) fn propose(&self, _: u64, _: &Parts, _: Instant) -> ProposeOutcome {
        match *self {}
    }

    pub(crate) fn stop(&self) {
        match *self {}
    }
}
