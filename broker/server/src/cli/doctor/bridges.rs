//! Checks the bridges of the running broker.

use super::super::contract::http::AdminClient;
use super::super::data::grouped::grouped_count;
use super::{CheckResult, number};
use crate::json::{self, Value};
use crate::time::UtcTime;

/// A bridge that is not connected for this long is a problem. The alert `TautwireBridgeDown` waits as long.
const DISCONNECTED_MAX_S: u64 = 300;

/// Checks the bridges of a running broker; nothing if it does not answer, or has none.
pub(super) fn all(admin: &AdminClient, now_unix_s: u64) -> Vec<CheckResult> {
    let get = |path: &str| json::parse(&admin.get(path).ok()?).ok();
    let Some(list) = get("/v1/bridges") else { return Vec::new() };
    // The list has no rules. A bridge that a reload removes meanwhile is left out. Names need no escaping.
    let bridges = list.list("bridges").iter().map(|bridge| get(&format!("/v1/bridges/{}", bridge.text("name"))));
    check_results(&bridges.flatten().collect::<Vec<_>>(), now_unix_s)
}

fn check_results(bridges: &[Value], now_unix_s: u64) -> Vec<CheckResult> {
    let mut found = Vec::new();
    for bridge in bridges {
        found.extend(connection(bridge, now_unix_s));
        found.extend(refused_rules(bridge));
        found.extend(dropped_messages(bridge));
    }
    if found.is_empty() && !bridges.is_empty() {
        let text = format!("{} without problems", grouped_count(bridges.len() as u64, "bridge"));
        found.push(CheckResult::passed("bridges", text));
    }
    found
}

/// Bridges that are idle, or run by another node, are not connected as intended.
fn connection(bridge: &Value, now_unix_s: u64) -> Option<CheckResult> {
    let (name, state, since_unix_s) = (bridge.text("name"), bridge.text("state"), number(bridge, "since_unix_s"));
    if !["connecting", "paused", "stopped"].contains(&state) || now_unix_s < since_unix_s + DISCONNECTED_MAX_S {
        return None;
    }
    let since = UtcTime::from_unix(since_unix_s, 0).to_rfc3339();
    let error = bridge.get("error").map_or("", |error| error.text("message"));
    let (colon, error) = if error.is_empty() { ("", "") } else { (": ", error) };
    let text = format!("bridge {name:?} has not been connected since {since} ({state}){colon}{error}");
    let action = if state == "paused" { "resume" } else { "test" };
    Some(CheckResult::warning("bridges", text, format!("tautwire bridges {action} {name}")))
}

fn refused_rules(bridge: &Value) -> impl Iterator<Item = CheckResult> {
    let name = bridge.text("name");
    bridge.list("rules").iter().enumerate().filter_map(move |(at, rule)| {
        let refused = rule.get("refused").filter(|refused| matches!(refused, Value::Object(_)))?;
        let (by, prefix, fix) = match refused.text("by") {
            "local" => ("this broker", "local_prefix", "let its `user` or `roles` subscribe in the access rules"),
            _ => ("the other broker", "remote_prefix", "let the user of the bridge subscribe there"),
        };
        let filter = format!("{}{}", rule.text(prefix), rule.text("filter"));
        let reason = refused.text("reason");
        let text = format!("{by} refused rule {} of bridge {name:?}, with the filter {filter:?}: {reason}", at + 1);
        Some(CheckResult::warning("bridges", text, format!("{fix}, or change the rule")))
    })
}

fn dropped_messages(bridge: &Value) -> Option<CheckResult> {
    let dropped = number(bridge, "dropped_messages");
    if dropped == 0 {
        return None;
    }
    let queued = grouped_count(number(bridge, "queued_messages"), "message");
    let dropped = grouped_count(dropped, "message");
    let text = format!("the session of bridge {:?} has dropped {dropped} and holds {queued}", bridge.text("name"));
    Some(CheckResult::warning(
        "bridges",
        text,
        "set limits.session_queue_bytes or limits.session_queue_messages higher",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bridge with these members, which has had its state for 299 seconds at 1,700,000,299.
    fn findings(members: &str, now_unix_s: u64) -> Vec<(String, Option<String>)> {
        let text = format!("{{\"name\":\"cloud\",\"since_unix_s\":1700000000,{members}}}");
        let bridges = [json::parse(&text).expect("it is JSON")];
        check_results(&bridges, now_unix_s).into_iter().map(|found| (found.text, found.fix)).collect()
    }

    #[test]
    fn a_bridge_that_is_not_connected_for_five_minutes_is_reported() {
        let lost = "\"state\":\"connecting\",\"error\":{\"code\":\"refused\",\"message\":\"it was refused\"}";
        assert_eq!(findings(lost, 1_700_000_299), [("1 bridge without problems".to_owned(), None)]);
        assert_eq!(
            findings(lost, 1_700_000_300),
            [(
                "bridge \"cloud\" has not been connected since 2023-11-14T22:13:20Z (connecting): it was refused"
                    .to_owned(),
                Some("tautwire bridges test cloud".to_owned())
            )]
        );
        let paused = &findings("\"state\":\"paused\",\"error\":null", 1_800_000_000)[0];
        assert!(paused.0.ends_with("(paused)") && paused.1.as_deref() == Some("tautwire bridges resume cloud"));
        for intended in ["connected", "idle", "standby"] {
            let state = format!("\"state\":\"{intended}\"");
            assert_eq!(findings(&state, 1_800_000_000), [("1 bridge without problems".to_owned(), None)]);
        }
        assert_eq!(check_results(&[], 1_800_000_000), []);
    }

    #[test]
    fn refused_rules_and_dropped_messages_are_reported() {
        let rule = |by: &str| {
            format!(
                "{{\"filter\":\"a/#\",\"local_prefix\":\"here/\",\"remote_prefix\":\"there/\",\
                 \"refused\":{{\"by\":\"{by}\",\"reason_code\":135,\"reason\":\"Not authorized\"}}}}"
            )
        };
        let members = format!(
            "\"state\":\"connected\",\"queued_messages\":1,\"dropped_messages\":1234,\"rules\":[{{\"refused\":null}},{},{}]",
            rule("local"),
            rule("remote")
        );
        let texts: Vec<String> = findings(&members, 1_700_000_000).into_iter().map(|(text, _)| text).collect();
        assert_eq!(
            texts,
            [
                "this broker refused rule 2 of bridge \"cloud\", with the filter \"here/a/#\": Not authorized",
                "the other broker refused rule 3 of bridge \"cloud\", with the filter \"there/a/#\": Not authorized",
                "the session of bridge \"cloud\" has dropped 1,234 messages and holds 1 message"
            ]
        );
    }
}
