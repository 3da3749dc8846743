//! The measured libraries.

use std::pin::Pin;
use std::time::Duration;

use crate::sample::{Sample, Scenario};
use crate::{rumqttc_v3, rumqttc_v5, tautwire, tautwire_blocking};

/// The timeout of a sample.
const PATIENCE: Duration = Duration::from_secs(20);

pub const TAUTWIRE: &str = "tautwire";
pub const TAUTWIRE_BLOCKING: &str = "tautwire (blocking)";
pub const RUMQTTC: &str = "rumqttc";
pub const LIBRARIES: &[&str] = &[TAUTWIRE, TAUTWIRE_BLOCKING, RUMQTTC];

/// Takes a sample; `None` if a message is missing at the end or the library is unknown.
pub fn take(library: &str, scenario: &'static Scenario, port: u16) -> Option<Sample> {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().ok();
    let future: Pin<Box<dyn Future<Output = Option<Sample>> + Send>> = match (library, scenario.v5) {
        (TAUTWIRE, _) => Box::pin(tautwire::run(scenario, port)),
        (RUMQTTC, false) => Box::pin(rumqttc_v3::run(scenario, port)),
        (RUMQTTC, true) => Box::pin(rumqttc_v5::run(scenario, port)),
        (TAUTWIRE_BLOCKING, _) => return Some(tautwire_blocking::run(scenario, port)),
        _ => return None,
    };
    // In a task, like most tokio code, because the future of `block_on` costs an additional poll of the sockets.
    let timed = async move { tokio::spawn(tokio::time::timeout(PATIENCE, future)).await };
    runtime()?.block_on(timed).ok()?.ok()?
}
