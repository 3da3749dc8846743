//! Repeated runs that are killed soon after startup.

use super::{create_offline_session, expect_stored, publish, settings, start};
use crate::support::Folder;

/// Segment limit: eight times the 32 MiB at which a snapshot is due, the current one, and the next.
const SEGMENTS_MAX: usize = 18;
const RUNS: usize = SEGMENTS_MAX + 4;

/// No run lasts until the snapshot thread checks the log.
#[test]
fn short_runs_do_not_grow_the_log_without_bound() {
    let folder = Folder::new(&[]);
    let data = folder.path().join("data");
    let settings = settings(&folder, &data.display().to_string(), &[]);
    for run in 0..RUNS {
        let broker = start(&settings);
        if run == 0 {
            create_offline_session(&broker);
        }
        publish(&broker, run..run + 1, 100);
        // Killed with SIGKILL.
        drop(broker);
        let names = folder.names("data");
        let segments = names.iter().filter(|name| name.starts_with("segment-")).count();
        assert!(segments <= SEGMENTS_MAX, "run {run}: {names:?}");
    }
    let broker = start(&settings);
    expect_stored(&broker, 0..RUNS);
}
