//! The parameters of a run.

use std::sync::Arc;

use tautwire_cluster::names::Incarnation;

use crate::broker::Broker;
use crate::handle::Shared;
use crate::settings::Settings;

/// The parameters of a run.
pub(super) struct RunConfig {
    pub(super) settings: Settings,
    pub(super) me: Incarnation,
    pub(super) former: Option<Incarnation>,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) shared: Arc<Shared>,
}
