//! Checks for stale sessions of the running broker.

use super::super::contract::http::AdminClient;
use super::super::data::grouped::{grouped, grouped_count};
use super::{CheckResult, number};
use crate::json::{self, Value};
use crate::time::UtcTime;

/// Maximum number of listed sessions.
const NAMED_MAX: usize = 5;

/// Checks the sessions of a running broker; `None` if it does not answer.
pub(super) fn stale_sessions(admin: &AdminClient) -> Option<CheckResult> {
    let path = format!("/v1/clients?stale=true&sort=queued_messages&descending=true&limit={NAMED_MAX}");
    let response = json::parse(&admin.get(&path).ok()?).ok()?;
    Some(check_result(&response))
}

fn check_result(response: &Value) -> CheckResult {
    let matched = number(response, "matched");
    if matched == 0 {
        return CheckResult::passed("sessions", "no session is stale".to_owned());
    }
    let named = response.list("clients").iter().map(|client| {
        let since = UtcTime::from_unix(number(client, "disconnected_ms") / 1_000, 0).to_rfc3339();
        let (client_id, queued) =
            (client.text("client_id"), grouped_count(number(client, "queued_messages"), "message"));
        format!("{client_id:?} ({queued}, offline since {since})")
    });
    let named: Vec<_> = named.collect();
    let more = match matched.saturating_sub(named.len() as u64) {
        0 => String::new(),
        more => format!(", and {} more", grouped(more)),
    };
    let sessions = if matched == 1 { "session is" } else { "sessions are" };
    let text = format!("{} {sessions} stale: messages are queued for {}{more}", grouped(matched), named.join(", "));
    CheckResult::warning("sessions", text, "let the clients connect, or run: tautwire sessions delete CLIENT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_sessions_are_reported_with_advice() {
        let finding = |text: &str| check_result(&json::parse(text).expect("it is JSON"));
        assert_eq!(finding("{\"matched\":0,\"clients\":[]}").text, "no session is stale");
        let one = "{\"client_id\":\"a\",\"queued_messages\":12345,\"disconnected_ms\":1700000000000}";
        assert_eq!(
            finding(&format!("{{\"matched\":3,\"clients\":[{one}]}}")).text,
            "3 sessions are stale: messages are queued for \"a\" (12,345 messages, offline since 2023-11-14T22:13:20Z), and 2 more"
        );
    }
}
