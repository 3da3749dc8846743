//! Damaged directories: reports about them, and their recovery by `serve --recover`.

use std::fs;
use std::time::{Duration, Instant};

use tautwire_journal::SEGMENT_MIN_BYTES;

use crate::data::world::{MESSAGES, World, receive, segment_name, topics};

/// A payload size for seven messages in a segment.
const SEVEN_BYTES: usize = 6_000;
/// A payload size for one message in a segment.
const ONE_BYTES: usize = 50_000;

/// Checks that a damaged directory is reported and refused, unchanged; returns the output of `data check`.
fn expect_reported_and_refused(world: &World) -> String {
    let before = world.files();
    let text = world.data("check", &[]).expect(2).text();
    assert!(text.starts_with(&format!("{}: damaged\n", world.path().display())), "{text}");
    assert!(world.data("check", &["--json"]).expect(2).text().contains("\"status\":\"damaged\""));
    let refused = world.refused(&[]);
    for part in ["data directory ", "tautwire data check --data", "tautwire serve --recover"] {
        assert!(refused.contains(part), "{refused}");
    }
    let after = world.files();
    assert!(after == before, "it was changed: {:?}", after.keys());
    text
}

/// Checks that the damage is not found again, however the broker stops.
fn expect_clean_check(world: &World) {
    world.data("check", &[]).expect(0);
    let mut broker = world.serve(&[]);
    broker.process().kill();
    drop(broker);
    let log = world.serve(&[]).stop();
    assert!(!log.contains("lost"), "{log}");
}

#[test]
fn changed_bytes_are_reported_and_the_rest_is_served() {
    let world = World::closed(SEVEN_BYTES);
    let segment = world.flip_message(17);
    let text = expect_reported_and_refused(&world);
    assert!(text.contains(&format!("\ndamage: segment {segment}, bytes ")), "{text}");
    assert!(text.contains("frames are lost, after position "), "{text}");
    assert!(text.contains("  sessions: \"first\"\n  topics: \"t/17\"\n"), "{text}");
    let json = world.data("check", &["--json"]).expect(2).text();
    assert!(json.contains(&format!("\"kind\":\"frames_lost\",\"segment\":{segment},\"from_byte\":")), "{json}");
    assert!(world.refused(&[]).contains(&format!("segment {segment}, bytes ")));

    let broker = world.serve(&["--recover"]);
    assert_eq!(receive(&broker, "first", 39), topics((0..MESSAGES).filter(|number| *number != 17)));
    assert_eq!(receive(&broker, "second", 20), topics((0..MESSAGES).step_by(2)));
    let log = broker.stop();
    assert!(log.contains(&format!("lost: segment {segment}, bytes ")), "{log}");
    assert!(log.contains("sessions: \"first\"; topics: \"t/17\""), "{log}");
    let quarantined = world.files().keys().filter(|name| name.starts_with("damaged-")).count();
    assert_eq!(quarantined, 1, "the damaged segment is kept for people");
    expect_clean_check(&world);
}

#[test]
fn a_missing_segment_is_reported_and_the_rest_is_served() {
    let world = World::closed(SEVEN_BYTES);
    let begins_late = 3;
    fs::remove_file(world.path().join(segment_name(begins_late))).expect("is there");
    let text = expect_reported_and_refused(&world);
    assert!(
        text.contains(&format!("\ndamage: segment {begins_late}, bytes 0 to {SEGMENT_MIN_BYTES}: the file is missing"))
    );

    let broker = world.serve(&["--recover"]);
    assert_eq!(receive(&broker, "first", 33), topics((0..13).chain(20..MESSAGES)));
    let log = broker.stop();
    assert!(log.contains("the file is missing"), "{log}");
    expect_clean_check(&world);
}

#[test]
fn records_of_a_session_without_a_beginning_are_skipped() {
    let world = World::closed(ONE_BYTES);
    // The session "late" begins in the segment of the message before or after it.
    for number in [19, 20] {
        world.flip_message(number);
    }
    let name = world.files().into_iter().find_map(|(name, bytes)| {
        let found = bytes.windows(4).position(|window| window == b"late")?;
        Some((name, found as u64))
    });
    let (name, offset) = name.expect("it is somewhere");
    world.flip(&name, offset);
    let text = expect_reported_and_refused(&world);
    assert!(text.contains("skipped, because related records are lost: 1 records of unknown sessions"), "{text}");
    let log = world.serve(&["--recover"]).stop();
    assert!(
        log.contains("skipped inconsistent records: 1 of unknown sessions") && log.contains("sessions: number 3"),
        "{log}"
    );
    expect_clean_check(&world);
}

#[test]
fn a_truncated_log_is_damage_and_the_rest_is_served() {
    let world = World::written(SEVEN_BYTES);
    let last = world.files().into_keys().filter(|name| name.starts_with("segment-")).max().expect("there are some");
    let file = fs::OpenOptions::new().write(true).open(world.path().join(&last)).expect("is there");
    file.set_len(8_192 + 4_096).expect("can be cut");
    let text = expect_reported_and_refused(&world);
    assert!(text.contains(&format!("bytes 12288 to {SEGMENT_MIN_BYTES}: the disk cannot read the data")), "{text}");
    let broker = world.serve(&["--recover"]);
    assert_eq!(receive(&broker, "first", 30), topics(0..30));
    broker.stop();
    expect_clean_check(&world);
}

#[test]
fn an_empty_middle_segment_is_damage_and_the_rest_is_served() {
    let world = World::closed(SEVEN_BYTES);
    fs::write(world.path().join(segment_name(4)), b"").expect("can be written");
    let text = expect_reported_and_refused(&world);
    assert!(text.contains("\ndamage: segment 4: the header and its copy are damaged"), "{text}");
    let broker = world.serve(&["--recover"]);
    assert!(receive(&broker, "first", 30).starts_with(&topics(0..15)));
    broker.stop();
    expect_clean_check(&world);
}

#[test]
fn the_intact_part_of_a_damaged_snapshot_is_served() {
    let world = World::closed(ONE_BYTES);
    world.data("compact", &[]).expect(0);
    let (name, bytes) = world.files().into_iter().find(|(name, _)| name.starts_with("snapshot-")).expect("was made");
    // Its first frame has 1 MiB and ends with a message.
    let offset = 1_300_000;
    assert!(bytes.len() > offset, "{} bytes", bytes.len());
    world.flip(&name, offset as u64);
    let text = expect_reported_and_refused(&world);
    assert!(text.contains(&format!("damage: {name} is incomplete")), "{text}");
    assert!(text.contains("damage: lost in the snapshot: bytes "), "{text}");

    let dump = world.data("dump", &[]).expect(2).text();
    let queued = dump.lines().filter(|line| line.starts_with("snapshot ") && line.contains(" Queued ")).count();
    assert!(dump.starts_with("damage: ") && queued > 15, "{dump}");

    let broker = world.serve(&["--recover"]);
    assert_eq!(receive(&broker, "first", 15), topics(0..15));
    let log = broker.stop();
    assert!(log.contains(&format!("{name} is damaged")) && log.contains("lost bytes of the snapshot"), "{log}");
    expect_clean_check(&world);
}

/// The name of the last segment with frames, and the offset of its last frame.
fn last_frame(world: &World) -> (String, u64) {
    let (name, bytes) =
        world.files().into_iter().filter(|(name, _)| name.starts_with("segment-")).max().expect("is there");
    let last = (8_192..bytes.len()).step_by(4_096).filter(|at| bytes[*at..*at + 48] != [0; 48]).max();
    (name, last.expect("there are frames") as u64)
}

/// The write may or may not have been acknowledged.
#[test]
fn a_torn_tail_is_reported_and_truncated() {
    let world = World::written(SEVEN_BYTES);
    let (name, last) = last_frame(&world);
    world.flip(&name, last + 49);
    let text = world.data("check", &[]).expect(3).text();
    assert!(
        text.contains(": torn\n") && text.contains("the last write is incomplete: 4,096 bytes of segment "),
        "{text}"
    );
    assert!(text.contains(", which may have been acknowledged\n"), "{text}");
    let json = world.data("check", &["--json"]).expect(3).text();
    assert!(json.contains("\"torn\":{\"segment\":") && json.contains("\"damage\":[]"), "{json}");
    assert!(json.contains(&format!("\"byte\":{last},\"bytes\":4096}}")), "{json}");
    let broker = world.serve(&[]);
    assert_eq!(receive(&broker, "first", 40), topics(0..MESSAGES));
    let log = broker.stop();
    assert!(log.contains("cut off an incomplete last write: 4096 bytes of segment "), "{log}");
    assert!(log.contains("if the disk has damaged it later, it may have been acknowledged"), "{log}");
}

/// The broker was idle when it was killed, so the last frame is not an interrupted write.
#[test]
fn damage_to_the_last_frame_of_a_killed_broker_is_reported() {
    let world = World::sealed(SEVEN_BYTES);
    world.data("check", &[]).expect(0);
    let (name, last) = last_frame(&world);
    world.flip(&name, last + 49);
    let text = expect_reported_and_refused(&world);
    assert!(text.contains("frames are lost, after position "), "{text}");
    let broker = world.serve(&["--recover"]);
    assert_eq!(receive(&broker, "first", 40), topics(0..MESSAGES));
    broker.stop();
    expect_clean_check(&world);
}

/// Frames are overwritten with zeros, up to the end of the log.
#[test]
fn the_missing_end_of_a_gracefully_closed_log_is_detected() {
    for world in [World::closed(SEVEN_BYTES), World::sealed(SEVEN_BYTES)] {
        let (name, last) = last_frame(&world);
        let path = world.path().join(&name);
        let mut bytes = fs::read(&path).expect("is there");
        bytes[last as usize - 4_096..].fill(0);
        fs::write(&path, bytes).expect("can be written");
        let text = expect_reported_and_refused(&world);
        assert!(text.contains("frames are lost, after position "), "{text}");
        world.serve(&["--recover"]).stop();
        expect_clean_check(&world);
    }
}

#[test]
fn a_missing_last_segment_is_reported() {
    for world in [World::closed(SEVEN_BYTES), World::written(SEVEN_BYTES)] {
        let (name, _) = last_frame(&world);
        fs::remove_file(world.path().join(&name)).expect("is there");
        let text = expect_reported_and_refused(&world);
        assert!(text.contains(": the file is missing, after position "), "{text}");
        let broker = world.serve(&["--recover"]);
        assert!(receive(&broker, "first", 30).starts_with(&topics(0..30)));
        broker.stop();
        expect_clean_check(&world);
    }
}

/// Only a preallocated, empty segment is left.
#[test]
fn a_missing_first_segment_is_reported_even_if_it_is_the_only_one() {
    let world = World::empty();
    let mut broker = world.serve(&[]);
    // The reserve file is created last, after the segment and after `VERSION` names it.
    let reserve = world.path().join("reserve");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !reserve.exists() {
        assert!(Instant::now() < deadline, "no segment was made ahead");
        std::thread::yield_now();
    }
    broker.process().kill();
    drop(broker);
    fs::remove_file(world.path().join(segment_name(1))).expect("is there");
    let text = expect_reported_and_refused(&world);
    assert!(text.contains("\ndamage: segment 1: the file is missing, after position 0 and before "), "{text}");
    world.serve(&["--recover"]).stop();
    expect_clean_check(&world);
}

#[test]
fn a_newer_format_is_refused_with_the_required_version() {
    let world = World::closed(SEVEN_BYTES);
    fs::write(world.path().join("VERSION"), "tautwire-journal\nformat 3\nlog 1\ncheck 0\n").expect("can be written");
    let before = world.files();
    let wanted = "VERSION has version 3 of the format, and this program reads versions up to 2; use a program that reads version 3";
    for stderr_text in [
        world.data("check", &[]).expect(1).stderr,
        world.data("stats", &[]).expect(1).stderr,
        world.data("dump", &[]).expect(1).stderr,
        world.data("compact", &[]).expect(1).stderr,
        world.data("backup", &[&world.beside("backup")]).expect(1).stderr,
        world.refused(&[]),
        world.refused(&["--recover"]),
    ] {
        assert!(stderr_text.contains(wanted) && stderr_text.contains("[journal_newer]"), "{stderr_text}");
    }
    let after = world.files();
    assert!(after == before, "it was changed: {:?}", after.keys());
}

#[test]
fn an_intact_directory_is_served_with_recover() {
    let world = World::closed(SEVEN_BYTES);
    let broker = world.serve(&["--recover"]);
    assert_eq!(receive(&broker, "first", 40), topics(0..MESSAGES));
    let log = broker.stop();
    assert!(!log.contains("lost") && !log.contains("skipped inconsistent records"), "{log}");
}
