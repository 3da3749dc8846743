//! `tautwire doctor`: checks the machine and the configuration for problems, and suggests fixes.

mod bridges;
mod disk;
mod files;
mod sessions;
mod system;

use std::fmt::Write as _;
use std::process::ExitCode;

use super::arguments::{Arguments, Command, OptionGroup, OptionSpec, flag};
use super::contract::http::AdminClient;
use super::serve::{CONFIG_OPTIONS, configuration_failure, prepare, source_of};
use super::{CommandExit, Exit, print};
use crate::config::{Config, Warning};
use crate::fields::Fields;
use crate::json::Value;
use crate::time::since_epoch;

const JSON: OptionSpec = flag(None, "json", "Print a JSON object.");

pub(crate) static COMMAND: Command = Command {
    name: "doctor",
    usage: &["[--config FILE] [--listen ADDRESS]… [--threads N] [--memory] [--set KEY=VALUE]… [--json]"],
    about: "Checks the machine for a broker with this configuration: open files, the accept backlog, socket buffers, memory, the disk and its\n\
            sync latency, the clock, certificates, problematic settings. If the broker runs with an admin API and a token file, it also lists\n\
            stale sessions, whose clients stay offline while messages are queued, and problems of bridges. To measure the disk, it writes\n\
            a file of 4 KiB in the data directory and removes it. Run it as the user of the broker.",
    groups: &[
        OptionGroup { title: "Options", options: CONFIG_OPTIONS },
        OptionGroup { title: "Output", options: &[JSON] },
    ],
    notes: &[
        "Run the commands that change the system as root.\n\nExit codes: 0 no problems; 1 invalid configuration; 3 there are warnings or failures.",
    ],
};

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CheckStatus {
    Passed,
    /// A problem in the future.
    Warning,
    /// A problem now, or one that keeps the broker from starting.
    Failed,
}

impl CheckStatus {
    fn name(self) -> &'static str {
        match self {
            CheckStatus::Passed => "ok",
            CheckStatus::Warning => "warning",
            CheckStatus::Failed => "failed",
        }
    }
}

/// A check and its result.
#[derive(Debug, PartialEq, Eq)]
struct CheckResult {
    /// The subject in one word.
    check: &'static str,
    status: CheckStatus,
    /// The finding.
    text: String,
    /// The command or the setting that fixes it.
    fix: Option<String>,
}

impl CheckResult {
    fn passed(check: &'static str, text: String) -> CheckResult {
        CheckResult { check, status: CheckStatus::Passed, text, fix: None }
    }

    fn warning(check: &'static str, text: String, fix: impl Into<String>) -> CheckResult {
        CheckResult { check, status: CheckStatus::Warning, text, fix: Some(fix.into()) }
    }

    fn failed(check: &'static str, text: String, fix: impl Into<String>) -> CheckResult {
        CheckResult { check, status: CheckStatus::Failed, text, fix: Some(fix.into()) }
    }
}

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut is_json = false;
    let source = source_of(Arguments::new(&COMMAND, parser), |option| {
        is_json |= option == JSON.name;
        option == JSON.name
    })?;
    let config = source.and_then(|source| source.load()).map_err(configuration_failure)?;
    let findings = findings(&config)?;
    let is_well = findings.iter().all(|finding| finding.status == CheckStatus::Passed);
    let printed = print(&if is_json { to_json(&findings) } else { to_text(&findings) });
    Ok(if is_well { printed } else { Exit::Refused.into() })
}

fn findings(config: &Config) -> Result<Vec<CheckResult>, CommandExit> {
    let prepared = prepare(config)?;
    let mut findings = vec![
        system::descriptors(config),
        system::backlog(),
        system::buffers(config),
        system::memory(config),
        system::threads(config),
        system::clock(),
    ];
    findings.extend(system::connection_tracking(config));
    findings.extend(disk::all(config));
    findings.extend(files::certificates(config, &prepared));
    findings.extend(files::secrets(config));
    if let Some(admin) = running_broker(config) {
        findings.extend(sessions::stale_sessions(&admin));
        findings.extend(bridges::all(&admin, since_epoch().as_secs()));
    }
    findings.extend(files::contracts(config, &prepared));
    for Warning { text, fix } in config.advice() {
        // Report each fix only once.
        if !findings.iter().any(|finding| finding.fix.as_ref() == Some(&fix)) {
            findings.push(CheckResult::warning("setting", text, fix));
        }
    }
    Ok(findings)
}

/// The admin API of the broker with this configuration; `None` if it is off or inaccessible. The broker need not run.
fn running_broker(config: &Config) -> Option<AdminClient> {
    let address = config.admin.listen.0?;
    let token_file = config.admin.token_file.get()?;
    let ca = config.admin.certificate.iter().next().filter(|_| address.is_tls);
    AdminClient::open(&address.to_string(), token_file, ca).ok()
}

/// A number in a response of the admin API; 0 if there is none.
fn number(value: &Value, name: &str) -> u64 {
    match value.get(name) {
        Some(Value::Number(number)) => number.parse().unwrap_or(0),
        _ => 0,
    }
}

fn to_text(findings: &[CheckResult]) -> String {
    let mut text = String::new();
    for CheckResult { check, status, text: found, fix } in findings {
        let _ = writeln!(text, "{:<8} {check:<12} {found}", status.name());
        if let Some(fix) = fix {
            let _ = writeln!(text, "{:<8} {:<12} {fix}", "", "");
        }
    }
    text
}

fn to_json(findings: &[CheckResult]) -> String {
    let results = findings.iter().map(|CheckResult { check, status, text, fix }| {
        Fields::default()
            .with("check", *check)
            .with("status", status.name())
            .with("text", text.as_str())
            .with("fix", fix.as_deref())
    });
    let mut text = String::new();
    Fields::default().with("findings", results.collect::<Vec<_>>()).push_json(&mut text);
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_have_advice() {
        let findings = [
            CheckResult::passed("clock", "runs".into()),
            CheckResult::failed("disk", "is \"full\"".into(), "free some"),
        ];
        assert_eq!(
            to_text(&findings),
            "ok       clock        runs\nfailed   disk         is \"full\"\n                      free some\n"
        );
        assert_eq!(
            to_json(&findings),
            "{\"findings\":[{\"check\":\"clock\",\"status\":\"ok\",\"text\":\"runs\",\"fix\":null},\
             {\"check\":\"disk\",\"status\":\"failed\",\"text\":\"is \\\"full\\\"\",\"fix\":\"free some\"}]}\n"
        );
    }
}
