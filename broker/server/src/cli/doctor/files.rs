//! Checks for certificates that expire, and for secrets that others can read.

use std::path::Path;

use super::CheckResult;
use crate::config::Config;
use crate::contracts;
use crate::files;
use crate::serve::LoadedConfig;
use crate::time::since_epoch;

/// Allows some days for a manual renewal.
const EXPIRY_WARNING_S: u64 = 14 * 86_400;

pub(super) fn certificates(config: &Config, prepared: &LoadedConfig) -> Vec<CheckResult> {
    let now_s = since_epoch().as_secs();
    let mut findings: Vec<CheckResult> = Vec::new();
    let listener_certificates =
        config.listeners().into_iter().filter_map(|listener| prepared.listener_certificates(&listener));
    for served in listener_certificates.chain(prepared.admin_certificates(config)) {
        let each = served.iter().filter_map(|certificate| {
            let names = certificate.names.join(", ");
            Some(check_result(&names, certificate.not_after_unix_s?, now_s))
        });
        for finding in each {
            // Listeners often share a certificate.
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    findings
}

fn check_result(names: &str, not_after_s: u64, now_s: u64) -> CheckResult {
    let days = not_after_s.saturating_sub(now_s) / 86_400;
    let fix = "renew it, then: systemctl reload tautwire";
    if not_after_s <= now_s {
        return CheckResult::failed(
            "certificate",
            format!("the certificate for {names} has expired: clients refuse it"),
            fix,
        );
    }
    let text = format!("the certificate for {names} is valid for {days} more days");
    if not_after_s - now_s < EXPIRY_WARNING_S {
        CheckResult::warning("certificate", text, fix)
    } else {
        CheckResult::passed("certificate", text)
    }
}

/// Keys, tokens and password files that any user of the machine can read.
pub(super) fn secrets(config: &Config) -> Vec<CheckResult> {
    let listeners = config.listeners();
    let keys = listeners.iter().flat_map(|listener| listener.tls.key.iter());
    let users = listeners.iter().filter_map(|listener| listener.auth.password_file.get());
    let (admin, auth) = (&config.admin, &config.auth);
    let (cluster, telemetry) = (&config.cluster, &config.telemetry);
    let credentials = [
        admin.token_file.get(),
        admin.tokens_file.get(),
        auth.jwt_secret_file.get(),
        auth.hook_authorization_file.get(),
        cluster.credentials_file.get(),
        cluster.nkey_file.get(),
        cluster.password_file.get(),
        cluster.token_file.get(),
        cluster.key.get(),
        telemetry.headers_file.get(),
    ];
    let mut paths: Vec<&Path> =
        keys.chain(users).chain(admin.key.iter()).chain(credentials.into_iter().flatten()).collect();
    paths.sort_unstable();
    paths.dedup();
    let open = paths.into_iter().filter(|path| files::is_world_accessible(path));
    open.map(|path| {
        let text = format!("every user of this machine can read {}", path.display());
        CheckResult::warning("secret", text, format!("chmod o= {}", files::quoted(path)))
    })
    .collect()
}

/// Contracts that deliver payloads that violate them.
pub(super) fn contracts(config: &Config, prepared: &LoadedConfig) -> Option<CheckResult> {
    let text = contracts::observing(prepared.contracts())?;
    let folder = config.contracts.path.get()?.display();
    let fix = format!("set on_violation = \"reject\" in {folder} once the publishers comply");
    Some(CheckResult::warning("contract", text, fix))
}

#[cfg(test)]
mod tests {
    use super::super::CheckStatus;
    use super::*;

    #[test]
    fn a_certificate_is_rated_by_its_remaining_time() {
        let status = |left_s: i64| {
            check_result("a.example", 2_000_000_000u64.saturating_add_signed(left_s), 2_000_000_000).status
        };
        assert_eq!(
            (status(-1), status(0), status(86_400), status(15 * 86_400)),
            (CheckStatus::Failed, CheckStatus::Failed, CheckStatus::Warning, CheckStatus::Passed)
        );
    }
}
