//! `tautwire data check`: checks the integrity of a data directory.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use tautwire_durable::Inspection;
use tautwire_journal::Position;

use super::super::arguments::{Argument, Arguments, Command, OptionGroup, OptionSpec, flag};
use super::super::{CommandExit, Exit, print};
use super::grouped::{grouped, grouped_count};
use super::report;
use super::source::{self, Source};
use crate::fields::Fields;
use crate::time::UtcTime;

pub(crate) static COMMAND: Command = Command {
    name: "data check",
    usage: &["[--data DIR | --config FILE | --set data.path=DIR] [--json]"],
    about: "Reads a data directory and reports whether it is intact, and if not, what is lost: segment, bytes, and the affected\n\
            sessions and topics, if known. It changes nothing. While a broker runs, it reads at least everything that was\n\
            acknowledged before. It needs as much memory as the state.",
    groups: &[
        OptionGroup { title: "Options", options: source::OPTIONS },
        OptionGroup { title: "Output", options: &[JSON] },
    ],
    notes: &[
        "torn: the last write is incomplete. If the broker stopped during it, nothing in it was acknowledged. If the disk\n\
         damaged it later, it may have been acknowledged. The directory does not show which.",
        source::EXIT_CODES,
    ],
};

pub(super) const JSON: OptionSpec = flag(None, "json", "Print JSON.");

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let CheckArguments { path, json } = CheckArguments::parse(&COMMAND, parser)?;
    let (found, is_in_use) = source::inspect(&path)?;
    let text = if json { as_json(&path, &found, is_in_use) } else { as_text(&path, &found, is_in_use) };
    let printed = print(&text);
    Ok(exit(&found, printed))
}

/// The arguments of commands that only print.
pub(super) struct CheckArguments {
    pub(super) path: std::path::PathBuf,
    pub(super) json: bool,
}

impl CheckArguments {
    pub(super) fn parse(command: &'static Command, parser: lexopt::Parser) -> Result<CheckArguments, CommandExit> {
        let mut arguments = Arguments::new(command, parser);
        let (mut source, mut json) = (Source::default(), false);
        while let Some(argument) = arguments.next()? {
            match argument {
                Argument::Option("json") => json = true,
                Argument::Option(name) if source.take(name, &mut arguments)? => {}
                Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
                Argument::Positional(text) => {
                    return Err(arguments.command_failure(&format!("unexpected argument \"{text}\"")));
                }
            }
        }
        Ok(CheckArguments { path: source.path(&arguments)?, json })
    }
}

/// The exit code: 2 if something is lost, 3 if something may be lost.
pub(super) fn exit(found: &Inspection, printed: ExitCode) -> ExitCode {
    match &found.end.torn {
        _ if !found.is_whole() => Exit::DAMAGED.into(),
        Some(_) => Exit::TORN.into(),
        None => printed,
    }
}

fn as_text(path: &Path, found: &Inspection, is_in_use: bool) -> String {
    let mut text = format!("{}: {}\n", path.display(), report::verdict(found));
    let _ = writeln!(text, "format     {}", found.format);
    let _ = writeln!(text, "snapshot   {}", snapshot(found));
    let _ = writeln!(
        text,
        "log        {} with {}, in {} of {} together",
        grouped_count(found.frames, "frame"),
        grouped_count(found.records, "record"),
        grouped_count(found.files.segments, "segment"),
        grouped_count(found.files.segment_bytes, "byte")
    );
    let _ = writeln!(text, "end        {}", report::end(found, is_in_use));
    let (sessions, retained) = (found.state.sessions().count() as u64, found.state.retained().count() as u64);
    let (sessions, retained) = (grouped_count(sessions, "session"), grouped_count(retained, "retained message"));
    let _ = writeln!(text, "state      {sessions} and {retained}");
    if found.files.quarantined > 0 {
        let _ = writeln!(text, "quarantine {} damaged segments that are no longer read", found.files.quarantined);
    }
    report::push_losses(&mut text, found);
    text
}

/// Describes the snapshot that the state was read from.
pub(super) fn snapshot(found: &Inspection) -> String {
    let snapshot = &found.snapshot;
    if snapshot.bytes == 0 {
        return "none".to_owned();
    }
    let made = UtcTime::from_unix(snapshot.written_at_ms / 1000, 0);
    format!("up to position {}, {} bytes, made at {made}Z", snapshot.covered, grouped(snapshot.bytes))
}

fn as_json(path: &Path, found: &Inspection, is_in_use: bool) -> String {
    let fields = Fields::default()
        .with("path", path.to_string_lossy().into_owned())
        .with("status", report::verdict(found))
        .with("format", u64::from(found.format))
        .with("in_use", is_in_use)
        .with("snapshot", snapshot_fields(found))
        .with("damaged_snapshots", found.snapshot.damaged.clone())
        .with("segments", found.files.segments)
        .with("segment_bytes", found.files.segment_bytes)
        .with("quarantined_files", found.files.quarantined)
        .with("frames", found.frames)
        .with("records", found.records)
        .with("last_position", found.end.last.0)
        .with("closed", found.end.closed)
        .with("torn", torn_fields(found))
        .with("sessions", found.state.sessions().count() as u64)
        .with("retained_messages", found.state.retained().count() as u64)
        .with("damage", found.damage.iter().map(|damage| report::damage(damage, &found.state)).collect::<Vec<_>>())
        .with("skipped_records", report::skipped_records(&found.skipped_records));
    let mut text = String::new();
    fields.push_json(&mut text);
    text.push('\n');
    text
}

pub(super) fn torn_fields(found: &Inspection) -> Option<Fields> {
    let torn = found.end.torn.as_ref()?;
    Some(Fields::default().with("segment", torn.segment.0).with("byte", torn.offset).with("bytes", torn.bytes))
}

pub(super) fn snapshot_fields(found: &Inspection) -> Option<Fields> {
    let snapshot = &found.snapshot;
    let fields = Fields::default()
        .with("covered_position", snapshot.covered.0)
        .with("bytes", snapshot.bytes)
        .with("written_at_ms", snapshot.written_at_ms);
    (snapshot.bytes > 0 || snapshot.covered > Position::START).then_some(fields)
}
