//! `tautwire data compact`: writes the state to a snapshot and truncates the log.

use std::process::ExitCode;

use tautwire_durable::{CompactReport, compact_offline};
use tautwire_journal::{Directory, Epoch, LogError, Settings};

use super::super::arguments::{Command, OptionGroup};
use super::super::{CommandExit, Exit, print};
use super::check::{CheckArguments, JSON};
use super::grouped::grouped;
use super::source;
use crate::fields::Fields;
use crate::time::since_epoch;

pub(crate) static COMMAND: Command = Command {
    name: "data compact",
    usage: &["[--data DIR | --config FILE | --set data.path=DIR] [--json]"],
    about: "Writes the state of a data directory to a snapshot and truncates the log, while no broker runs. A broker does the\n\
            same automatically. It needs as much memory as the state, and disk space for a second snapshot.",
    groups: &[
        OptionGroup { title: "Options", options: source::OPTIONS },
        OptionGroup { title: "Output", options: &[JSON] },
    ],
    notes: &["A damaged directory is left unchanged.", source::EXIT_CODES],
};

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let CheckArguments { path, json } = CheckArguments::parse(&COMMAND, parser)?;
    let (_, is_in_use) = source::open(&path)?;
    let failed = |error: LogError| match error {
        LogError::Locked => {
            let path = path.display();
            CommandExit::failure(
                Exit::Usage,
                format!(
                    "{path}: a broker is running; stop it, or let it compact the log automatically [journal_locked]"
                ),
            )
        }
        other => source::failed(&path, &other),
    };
    if is_in_use {
        return Err(failed(LogError::Locked));
    }
    let disk = Directory::open(&path).map_err(|error| failed(error.into()))?;
    let now_ms = since_epoch().as_millis() as u64;
    let done = compact_offline(&disk, Settings::default(), [epoch(), epoch()], now_ms).map_err(failed)?;
    let printed = print(&report(&done, json));
    Ok(if done.torn.is_some() { Exit::TORN.into() } else { printed })
}

fn report(done: &CompactReport, json: bool) -> String {
    let CompactReport { before, after, covered, torn } = done;
    if !json {
        let truncated = torn.as_ref().map_or_else(String::new, |torn| {
            format!(
                "truncated: the last write, which is incomplete and may have been acknowledged: {} bytes\n",
                grouped(torn.bytes)
            )
        });
        return format!(
            "before: {} bytes in {} segments, {} bytes of snapshots; now: {} bytes in {} segments, {} bytes of a snapshot up to position {covered}\n{truncated}",
            grouped(before.segment_bytes),
            before.segments,
            grouped(before.snapshot_bytes),
            grouped(after.segment_bytes),
            after.segments,
            grouped(after.snapshot_bytes),
        );
    }
    let mut text = String::new();
    Fields::default()
        .with("segment_bytes_before", before.segment_bytes)
        .with("snapshot_bytes_before", before.snapshot_bytes)
        .with("segment_bytes", after.segment_bytes)
        .with("snapshot_bytes", after.snapshot_bytes)
        .with("covered_position", covered.0)
        .with("truncated_bytes", torn.as_ref().map(|torn| torn.bytes))
        .push_json(&mut text);
    text.push('\n');
    text
}

/// A random epoch.
pub(in crate::cli) fn epoch() -> Epoch {
    loop {
        if let Some(epoch) = Epoch::new(tautwire_router::random()) {
            return epoch;
        }
    }
}
