//! Reports about a data directory, as text and as JSON.

use std::fmt::Write as _;

use tautwire_durable::{Inspection, SkippedRecords};
use tautwire_journal::{Damage, DamageKind, PossiblyAffected};
use tautwire_session::{Replay, SessionNumber};

use super::grouped::grouped;
use crate::fields::Fields;

/// The state of the directory in one word.
pub(super) fn verdict(found: &Inspection) -> &'static str {
    match (found.is_whole(), &found.end.torn) {
        (false, _) => "damaged",
        (true, Some(_)) => "torn",
        (true, None) => "intact",
    }
}

/// Describes the end of the log.
pub(super) fn end(found: &Inspection, is_in_use: bool) -> String {
    if is_in_use {
        return format!("a broker is running: read up to position {}", found.end.last);
    }
    match &found.end.torn {
        Some(torn) => format!(
            "position {}; the last write is incomplete: {} bytes of segment {} from byte {} on, which may have been acknowledged",
            found.end.last,
            grouped(torn.bytes),
            torn.segment,
            torn.offset
        ),
        None if found.end.closed => format!("position {}; closed cleanly", found.end.last),
        None => format!("position {}; not closed cleanly, no damage found", found.end.last),
    }
}

/// Appends a line for each loss, with the affected sessions and topics.
pub(super) fn push_losses(out: &mut String, found: &Inspection) {
    for name in &found.snapshot.damaged {
        let _ = writeln!(out, "damage: {name} is incomplete");
    }
    for range in &found.snapshot.lost {
        let _ = writeln!(out, "damage: lost in the snapshot: bytes {} to {}", range.start, range.end);
    }
    for damage in &found.damage {
        let _ = writeln!(out, "damage: {damage}");
        push_possibly_affected(out, &damage.possibly_affected, &found.state);
    }
    if let Some(torn) = &found.end.torn {
        let _ = writeln!(
            out,
            "last write: if the broker stopped during it, nothing in it was acknowledged; if the disk damaged it later, it \
             may have been"
        );
        push_possibly_affected(out, &torn.possibly_affected, &found.state);
    }
    let skipped = &found.skipped_records;
    if let Some(first) = &skipped.first {
        let _ = writeln!(
            out,
            "skipped, because related records are lost: {} records of unknown sessions, {} with a missing message, {} partial \
             frames, {} messages with another identifier, {} duplicate sessions; the first: {first}",
            skipped.unknown_session,
            skipped.message_missing,
            skipped.undecodable,
            skipped.mismatched_packet_id,
            skipped.replaced
        );
        let sessions: Vec<String> =
            skipped.sessions.iter().map(|(number, client_id)| shown(*number, client_id.as_deref())).collect();
        push_list(out, "sessions", &sessions, skipped.more_sessions);
    }
}

fn push_possibly_affected(out: &mut String, possibly_affected: &PossiblyAffected, state: &Replay) {
    let sessions: Vec<String> = possibly_affected
        .sessions
        .iter()
        .map(|session| shown(session.get(), client_id(state, session.get())))
        .collect();
    push_list(out, "sessions", &sessions, possibly_affected.more);
    let topics: Vec<String> = possibly_affected.topics.iter().map(|topic| format!("{topic:?}")).collect();
    push_list(out, "topics", &topics, possibly_affected.more);
}

fn push_list(out: &mut String, heading: &str, items: &[String], has_more: bool) {
    if !items.is_empty() {
        let more = if has_more { ", and more" } else { "" };
        let _ = writeln!(out, "  {heading}: {}{more}", items.join(", "));
    }
}

fn shown(number: u64, client_id: Option<&str>) -> String {
    client_id.map_or_else(|| format!("number {number}"), |client_id| format!("{client_id:?}"))
}

fn client_id(state: &Replay, number: u64) -> Option<&str> {
    state.session_of(SessionNumber(number)).map(|found| found.session.client_id())
}

/// Damage as JSON.
pub(super) fn damage(damage: &Damage, state: &Replay) -> Fields {
    let kind = match damage.kind {
        DamageKind::FramesLost => "frames_lost",
        DamageKind::SegmentMissing => "segment_missing",
        DamageKind::HeaderLost => "header_missing",
        DamageKind::Unreadable => "unreadable",
    };
    let sessions: Vec<Fields> = damage
        .possibly_affected
        .sessions
        .iter()
        .map(|session| session_fields(session.get(), client_id(state, session.get())))
        .collect();
    let topics: Vec<&str> = damage.possibly_affected.topics.iter().map(String::as_str).collect();
    Fields::default()
        .with("kind", kind)
        .with("segment", damage.segment.0)
        .with("from_byte", damage.bytes.start)
        .with("to_byte", damage.bytes.end)
        .with("after_position", damage.after.0)
        .with("before_position", damage.before.map(|before| before.0))
        .with("sessions", sessions)
        .with("topics", topics)
        .with("more", damage.possibly_affected.more)
}

fn session_fields(number: u64, client_id: Option<&str>) -> Fields {
    Fields::default().with("session", number).with("client_id", client_id)
}

/// Skipped records as JSON.
pub(super) fn skipped_records(skipped: &SkippedRecords) -> Fields {
    let sessions: Vec<Fields> =
        skipped.sessions.iter().map(|(number, client_id)| session_fields(*number, client_id.as_deref())).collect();
    Fields::default()
        .with("unknown_session", skipped.unknown_session)
        .with("message_missing", skipped.message_missing)
        .with("undecodable", skipped.undecodable)
        .with("mismatched_packet_id", skipped.mismatched_packet_id)
        .with("replaced", skipped.replaced)
        .with("sessions", sessions)
        .with("more", skipped.more_sessions)
        .with("first", skipped.first.as_deref())
}
