//! Logs what was lost in a data directory that is opened despite damage.

use std::path::Path;

use tautwire_durable::{SkippedRecords, SnapshotInfo};
use tautwire_journal::{Damage, PossiblyAffected, SessionId};
use tautwire_session::{Replay, SessionNumber};

/// Logs all losses. Returns whether there are any. `state` is the restored state.
pub(crate) fn log_losses(
    path: &Path,
    snapshot: &SnapshotInfo,
    damage: &[Damage],
    skipped_records: Option<&SkippedRecords>,
    state: &Replay,
) -> bool {
    let path = path.display();
    for name in &snapshot.damaged {
        log::error!("data directory {path}: {name} is damaged");
    }
    for range in &snapshot.lost {
        log::error!("data directory {path}: lost bytes of the snapshot: {} to {}", range.start, range.end);
    }
    for damage in damage {
        log::error!("data directory {path}: lost: {damage}{}", possibly_affected(&damage.possibly_affected, state));
    }
    let skipped_records = skipped_records.filter(|skipped| !skipped.is_none());
    if let Some(skipped) = skipped_records {
        log::warn!(
            "data directory {path}: skipped inconsistent records: {} of unknown sessions, {} with a missing message, parts of {} frames; \
             {} messages keep their identifiers, {} older sessions of a client were removed{}",
            skipped.unknown_session,
            skipped.message_missing,
            skipped.undecodable,
            skipped.mismatched_packet_id,
            skipped.replaced,
            affected_sessions(skipped),
        );
    }
    !snapshot.damaged.is_empty() || !damage.is_empty() || skipped_records.is_some()
}

/// Lists the sessions and topics that damaged bytes name.
pub(crate) fn possibly_affected(possibly_affected: &PossiblyAffected, state: &Replay) -> String {
    let mut text = String::new();
    if !possibly_affected.sessions.is_empty() {
        let named: Vec<String> = possibly_affected.sessions.iter().map(|session| name(*session, state)).collect();
        text.push_str(&format!("; sessions: {}", named.join(", ")));
    }
    if !possibly_affected.topics.is_empty() {
        let quoted: Vec<String> = possibly_affected.topics.iter().map(|topic| format!("{topic:?}")).collect();
        text.push_str(&format!("; topics: {}", quoted.join(", ")));
    }
    text
}

fn name(session: SessionId, state: &Replay) -> String {
    match state.session_of(SessionNumber(session.get())) {
        Some(found) => format!("{:?}", found.session.client_id()),
        None => format!("number {}", session.get()),
    }
}

fn affected_sessions(skipped: &SkippedRecords) -> String {
    let names: Vec<String> = skipped
        .sessions
        .iter()
        .map(|(number, client_id)| match client_id {
            Some(client_id) => format!("{client_id:?}"),
            None => format!("number {number}"),
        })
        .collect();
    let more = if skipped.more_sessions { ", and more" } else { "" };
    if names.is_empty() { String::new() } else { format!("; sessions: {}{more}", names.join(", ")) }
}
