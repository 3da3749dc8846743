//! Kills during the first start on a directory of an earlier version: nothing is lost.

use std::path::Path;

use super::killed::{CHANGING, disk, each, expect_queued};
use super::strace::wrapper;
use super::{settings, start_by};
use crate::support::{AtLeastOnce, Broker, Folder, V5, reconnect};

#[path = "../../cli/data/golden_files.rs"]
mod golden_files;

/// Queued messages in each of the directories: 40 for one client, and 20 for another.
const QUEUED: usize = 60;

#[test]
fn a_killed_upgrade_of_a_directory_loses_nothing() {
    let Some(disk) = disk() else { return };
    let folder = Folder::new(&[]);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/data/golden");
    let mut killed = 0;
    for entry in std::fs::read_dir(golden).expect("the folder exists") {
        let path = entry.expect("reads").path();
        let name = path.file_stem().expect("it has a stem").to_string_lossy().into_owned();
        let (text, data) = (std::fs::read_to_string(&path).expect("the file exists"), disk.path(&name));
        let settings = settings(&folder, &data, &[]);
        let settings_as_text: Vec<&str> = settings.iter().map(String::as_str).collect();
        for call in CHANGING.split(',') {
            // Each call in turn, or in growing steps, until the broker listens before the fault.
            let step = |at: usize| if each() > 2 { at + 1 } else { at * 3 };
            let mut at = 1;
            loop {
                let _ = std::fs::remove_dir_all(disk.outside(&name));
                golden_files::from_text(&text, &disk.outside(&name));
                // Some system calls do not exist on all architectures.
                let Some(words) = wrapper(&[format!("?{call}:signal=KILL:when={at}")]) else { return };
                let words = [disk.wrapper(), words].concat();
                let is_killed = Broker::is_killed_at_start(&words, &settings_as_text);
                expect_queued(&disk, &data, QUEUED, &format!("{name}: {call} {at}"));
                if !is_killed {
                    break;
                }
                killed += 1;
                at = step(at);
            }
        }
        // The state left by the last run is served.
        let broker = start_by(&disk.wrapper(), &settings);
        let mut first = reconnect(&broker, V5, "first");
        for number in 0..40 {
            assert_eq!(first.receive().topic(), format!("t/{number}"), "{name}");
        }
        let mut publisher = broker.connect(V5, "publisher");
        assert_eq!(publisher.publish("t/new", AtLeastOnce, b"hi"), 0);
        assert_eq!(first.receive().topic(), "t/new", "{name}");
    }
    assert!(killed > 20, "{killed}");
}
