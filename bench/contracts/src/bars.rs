//! What checking and transcoding must keep to.

use crate::libraries::TAUTWIRE;
use crate::measure::Measured;

/// A bar and whether it holds.
pub struct Verdict {
    pub bar: &'static str,
    pub limit: f64,
    pub measured: f64,
    pub holds: bool,
}

/// Each bar whose case was measured against its median.
pub fn verdicts(results: &[Measured]) -> Vec<Verdict> {
    let at_most = |bar, case: &str, limit| {
        let found = results.iter().find(|result| result.case == case && result.library == TAUTWIRE)?;
        Some(Verdict { bar, limit, measured: found.median, holds: found.median <= limit })
    };
    [
        at_most("check 65 B Protobuf with 12 fields, ns, at most", "check_protobuf", 60.0),
        at_most("check the same in MessagePack, ns, at most", "check_messagepack", 80.0),
        at_most("check the same in JSON, ns, at most", "check_json", 300.0),
        at_most("Protobuf to JSON, ns, at most", "protobuf_to_json", 600.0),
    ]
    .into_iter()
    .flatten()
    .collect()
}
