//! `tautwire data stats`: prints statistics of a data directory.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use tautwire_durable::{Inspection, LargeQueue, Stats};

use super::super::arguments::{Command, OptionGroup};
use super::super::{CommandExit, print};
use super::check::{CheckArguments, JSON, exit, snapshot, snapshot_fields, torn_fields};
use super::grouped::grouped;
use super::{report, source};
use crate::fields::Fields;
use crate::time::since_epoch;

pub(crate) static COMMAND: Command = Command {
    name: "data stats",
    usage: &["[--data DIR | --config FILE | --set data.path=DIR] [--json]"],
    about: "Prints statistics of a data directory: sessions, messages, the largest queues, and how much of the log is still needed.\n\
            It changes nothing. While a broker runs, it reads at least everything that was acknowledged before.",
    groups: &[
        OptionGroup { title: "Options", options: source::OPTIONS },
        OptionGroup { title: "Output", options: &[JSON] },
    ],
    notes: &[
        "A message that is queued for several sessions counts for each. Live bytes are the size of a snapshot of the state,\n\
         in which several sessions can share one copy of a message.",
        source::EXIT_CODES,
    ],
};

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let CheckArguments { path, json } = CheckArguments::parse(&COMMAND, parser)?;
    let (found, is_in_use) = source::inspect(&path)?;
    let stats = Stats::of(&found.state);
    let text = if json { as_json(&path, &found, &stats, is_in_use) } else { as_text(&path, &found, &stats, is_in_use) };
    let printed = print(&text);
    Ok(exit(&found, printed))
}

fn as_text(path: &Path, found: &Inspection, stats: &Stats, is_in_use: bool) -> String {
    let mut text = format!("{}: {}\n", path.display(), report::verdict(found));
    let counted = [
        ("sessions", stats.sessions, None),
        ("subscriptions", stats.subscriptions, None),
        ("wills", stats.wills, None),
        ("queued messages", stats.queued_messages, Some(stats.queued_bytes)),
        ("in flight", stats.in_flight_messages, Some(stats.in_flight_bytes)),
        ("unreleased QoS 2", stats.unreleased, None),
        ("retained", stats.retained_messages, Some(stats.retained_bytes)),
        ("segments", found.files.segments, Some(found.files.segment_bytes)),
        ("spares", found.files.spares, Some(found.files.spare_bytes)),
        ("quarantined", found.files.quarantined, Some(found.files.quarantined_bytes)),
    ];
    for (name, count, bytes) in counted {
        let _ = write!(text, "{name:<20}{:>15}", grouped(count));
        if let Some(bytes) = bytes {
            let _ = write!(text, "   {:>18} bytes", grouped(bytes));
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "{:<20}{:>15}   {:>18} bytes",
        "frames of the log",
        grouped(found.frames),
        grouped(found.frame_bytes)
    );
    let _ = writeln!(text, "{:<20}{:>15}   {:>18} bytes", "live", "", grouped(stats.live_bytes));
    let _ = writeln!(text, "{:<20}{}{}", "snapshot", snapshot(found), age(found));
    let _ = writeln!(text, "{:<20}{}", "end", report::end(found, is_in_use));
    if !stats.largest_queues.is_empty() {
        text.push_str("largest queues\n");
    }
    for LargeQueue { bytes, messages, client_id } in &stats.largest_queues {
        let _ = writeln!(text, "  {:>15} bytes {:>12} messages  {client_id:?}", grouped(*bytes), grouped(*messages));
    }
    report::push_losses(&mut text, found);
    text
}

fn age_s(found: &Inspection) -> Option<u64> {
    let now_ms = since_epoch().as_millis() as u64;
    (found.snapshot.written_at_ms > 0).then(|| now_ms.saturating_sub(found.snapshot.written_at_ms) / 1000)
}

fn age(found: &Inspection) -> String {
    age_s(found).map_or_else(String::new, |age_s| format!(", {} s ago", grouped(age_s)))
}

fn as_json(path: &Path, found: &Inspection, stats: &Stats, is_in_use: bool) -> String {
    let queue = |queue: &LargeQueue| {
        Fields::default()
            .with("client_id", queue.client_id.as_str())
            .with("messages", queue.messages)
            .with("bytes", queue.bytes)
    };
    let fields = Fields::default()
        .with("path", path.to_string_lossy().into_owned())
        .with("status", report::verdict(found))
        .with("in_use", is_in_use)
        .with("sessions", stats.sessions)
        .with("subscriptions", stats.subscriptions)
        .with("wills", stats.wills)
        .with("queued_messages", stats.queued_messages)
        .with("queued_bytes", stats.queued_bytes)
        .with("in_flight_messages", stats.in_flight_messages)
        .with("in_flight_bytes", stats.in_flight_bytes)
        .with("unreleased", stats.unreleased)
        .with("retained_messages", stats.retained_messages)
        .with("retained_bytes", stats.retained_bytes)
        .with("segments", found.files.segments)
        .with("segment_bytes", found.files.segment_bytes)
        .with("spares", found.files.spares)
        .with("spare_bytes", found.files.spare_bytes)
        .with("quarantined_files", found.files.quarantined)
        .with("quarantined_bytes", found.files.quarantined_bytes)
        .with("frames", found.frames)
        .with("frame_bytes", found.frame_bytes)
        .with("live_bytes", stats.live_bytes)
        .with("snapshot", snapshot_fields(found))
        .with("snapshot_age_s", age_s(found))
        .with("last_position", found.end.last.0)
        .with("closed", found.end.closed)
        .with("torn", torn_fields(found))
        .with("largest_queues", stats.largest_queues.iter().map(queue).collect::<Vec<_>>())
        .with("damage", found.damage.iter().map(|damage| report::damage(damage, &found.state)).collect::<Vec<_>>());
    let mut text = String::new();
    fields.push_json(&mut text);
    text.push('\n');
    text
}
