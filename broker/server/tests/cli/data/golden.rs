//! Directories of earlier versions stay readable, for the tools and for the broker.
//!
//! Each file under `golden` is a directory as text. `TAUTWIRE_WRITE_GOLDEN=1` writes those of the current version; use it only for a new
//! version, and keep the older files.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tautwire_journal::{Directory, Epoch, Settings};

use crate::data::golden_files::from_text;
use crate::data::world::{MESSAGES, World, files, receive, topics};

const ROW_BYTES: usize = 32;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/data/golden").join(name)
}

fn to_text(directory: &Path) -> String {
    let mut text = String::new();
    for (name, bytes) in files(directory) {
        if name == "LOCK" || name.starts_with("spare-") {
            continue;
        }
        let _ = writeln!(text, "file {name} {}", bytes.len());
        for (row, bytes) in bytes.chunks(ROW_BYTES).enumerate() {
            if bytes.iter().any(|byte| *byte != 0) {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let _ = writeln!(text, "{} {digits}", row * ROW_BYTES);
            }
        }
    }
    text
}

/// Creates directories of the current version: one with only a log, and one with a snapshot followed by frames.
fn write(log: &str, compacted: &str) {
    let world = World::written(50);
    fs::create_dir_all(golden("")).expect("can be made");
    fs::write(golden(log), to_text(&world.path())).expect("can be written");
    let disk = Directory::open(world.path()).expect("is there");
    let settings = Settings { segment_bytes: tautwire_journal::SEGMENT_MIN_BYTES, ..Settings::default() };
    let epochs = [2, 3].map(|number| Epoch::new(number).expect("not 0"));
    tautwire_durable::compact_offline(&disk, settings, epochs, 1_700_000_000_000).expect("is whole");
    fs::write(golden(compacted), to_text(&world.path())).expect("can be written");
}

#[test]
fn directories_of_all_versions_stay_readable() {
    let present = tautwire_journal::FORMAT_VERSION;
    if std::env::var_os("TAUTWIRE_WRITE_GOLDEN").is_some() {
        write(&format!("format-{present}-log.txt"), &format!("format-{present}-snapshot.txt"));
    }
    for (format, kind) in (1..=present).flat_map(|format| [(format, "log"), (format, "snapshot")]) {
        let name = &format!("format-{format}-{kind}.txt");
        let world = World::empty();
        let text = fs::read_to_string(golden(name)).expect("is there");
        from_text(&text, &world.path());
        let check = world.data("check", &["--json"]).expect(0).text();
        let format = format!("\"format\":{format},");
        for part in ["\"status\":\"intact\"", &format, "\"sessions\":3", "\"retained_messages\":1"] {
            assert!(check.contains(part), "{name}: {part}: {check}");
        }
        let dump = world.data("dump", &["--payloads"]).expect(0).text();
        assert_eq!(dump.lines().filter(|line| line.contains(" Queued ")).count(), 60, "{name}");
        assert!(dump.contains("payload=\"a secret\""), "{name}: {dump}");
        let broker = world.serve(&[]);
        assert_eq!(receive(&broker, "first", 40), topics(0..MESSAGES), "{name}");
        assert_eq!(receive(&broker, "second", 20), topics((0..MESSAGES).step_by(2)), "{name}");
        let kept = broker.subscribe_to_end(&["kept", "-C", "1", "-W", "20"]).expect(0);
        assert_eq!(kept.text(), "a secret\n", "{name}");
    }
}
