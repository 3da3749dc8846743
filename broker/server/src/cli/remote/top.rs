//! `tautwire top`: shows live statistics of a running broker.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use super::super::CommandExit;
use super::super::arguments::{Arguments, Command, OptionGroup, flag, value};
use super::{ADMIN, CA, EXITS, JSON, RemoteArguments, TOKEN_FILE, parsed, shown, table};
use crate::json::Value;

pub(crate) static COMMAND: Command = Command {
    name: "top",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Shows statistics of the broker, the clients with the most queued messages, and the topics with the most retained messages,\n\
            every two seconds. Stop it with Ctrl-C.",
    groups: &[
        OptionGroup {
            title: "Options",
            options: &[
                flag(None, "once", "Print the statistics once."),
                value(None, "interval", "SECONDS", "Interval between updates, 1 to 3,600. Default: 2."),
                value(None, "rows", "N", "Number of clients and topics, 1 to 100. Default: 10."),
            ],
        },
        OptionGroup { title: "Broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] },
    ],
    notes: &[
        "With --json, each update is one JSON object per line with overview, clients, topics and topic_metrics of the admin API.",
        EXITS,
    ],
};

/// Terminal codes: move to the top left, clear the rest of the line, clear the rest of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

const CLIENT_COLUMNS: [(&str, &str); 8] = [
    ("client", "client_id"),
    ("connected", "connected"),
    ("queued", "queued_messages"),
    ("bytes", "queued_bytes"),
    ("dropped", "dropped_messages"),
    ("in flight", "in_flight"),
    ("subscriptions", "subscriptions"),
    ("memory", "memory_bytes"),
];

/// The statistics at one time.
struct Snapshot {
    overview: Value,
    clients: Value,
    topics: Value,
    topic_metrics: Value,
    json: String,
}

pub(in crate::cli) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let (mut once, mut interval_s, mut rows) = (false, 2, 10);
    let mut given = RemoteArguments::read(&mut arguments, |_, name, arguments| {
        match name {
            "once" => once = true,
            "interval" => interval_s = arguments.number(1..=3_600)?,
            "rows" => rows = arguments.number(1..=100)?,
            _ => return Err(arguments.failure("is not supported by this command")),
        }
        Ok(())
    })?;
    let [] = given.word(&arguments, "no further arguments")?;
    let is_screen = !once && !given.json && std::io::stdout().is_terminal();
    let mut previous = None;
    loop {
        let snapshot = Snapshot::take(&mut given, &arguments, rows)?;
        let text = if given.json { snapshot.json.clone() } else { snapshot.render(previous.as_ref(), rows as usize) };
        let text = if is_screen { on_screen(&text) } else { text };
        let mut out = std::io::stdout().lock();
        let is_written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        drop(out);
        if once || is_written.is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        previous = Some(snapshot);
        thread::sleep(Duration::from_secs(interval_s));
    }
}

fn on_screen(text: &str) -> String {
    let lines: String = text.lines().map(|line| format!("{line}{CLEAR_LINE}\n")).collect();
    format!("{HOME}{lines}{CLEAR_BELOW}")
}

impl Snapshot {
    fn take(given: &mut RemoteArguments, arguments: &Arguments, rows: u64) -> Result<Snapshot, CommandExit> {
        let mut get = |path: &str, query: &[(&'static str, &str)]| {
            given.query = query.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            let response = given.request(arguments, "GET", path)?;
            Ok::<_, CommandExit>((parsed(&response)?, response.body))
        };
        let (overview, overview_json) = get("/v1/overview", &[])?;
        let limit = rows.to_string();
        let client_query = [("sort", "queued_messages"), ("descending", "true"), ("limit", &*limit)];
        let (clients, clients_json) = get("/v1/clients", &client_query)?;
        let (topics, topics_json) = get("/v1/topics", &[("limit", "1000")])?;
        let [overview_json, clients_json, topics_json] =
            [overview_json, clients_json, topics_json].map(|json| json.trim_end().to_owned());
        let (topic_metrics, topic_metrics_json) = get("/v1/topic-metrics", &[])?;
        let json = format!(
            "{{\"overview\":{overview_json},\"clients\":{clients_json},\"topics\":{topics_json},\"topic_metrics\":{}}}\n",
            topic_metrics_json.trim_end(),
        );
        Ok(Snapshot { overview, clients, topics, topic_metrics, json })
    }

    fn render(&self, previous: Option<&Snapshot>, rows: usize) -> String {
        let mut text = self.summary(previous);
        let client = |client: &Value| {
            let cell = |name: &&str| shown(client.get(name));
            CLIENT_COLUMNS.iter().map(|(_, name)| cell(name)).collect()
        };
        let clients: Vec<Vec<String>> = self.clients.list("clients").iter().map(client).collect();
        text.push('\n');
        text.push_str(&table(&CLIENT_COLUMNS.map(|(heading, _)| heading), &clients));
        let mut topics: Vec<&Value> = self.topics.list("levels").iter().collect();
        topics.sort_by_key(|level| std::cmp::Reverse(retained(level)));
        let topic = |level: &&Value| {
            let deeper = if number(level, "descendants") > 0 { "/#" } else { "" };
            vec![format!("{}{deeper}", shown(level.get("topic"))), grouped(retained(level))]
        };
        let topics: Vec<Vec<String>> = topics.iter().take(rows).map(topic).collect();
        text.push('\n');
        text.push_str(&table(&["topic", "retained"], &topics));
        self.push_topic_metrics(&mut text, previous);
        text
    }

    /// Appends the counts by topic filter, if there are any filters.
    fn push_topic_metrics(&self, text: &mut String, previous: Option<&Snapshot>) {
        let topic_metrics = self.topic_metrics.list("topics");
        if topic_metrics.is_empty() {
            return;
        }
        let row = |topic: &Value| {
            let filter = shown(topic.get("filter"));
            let earlier = previous.and_then(|previous| {
                previous
                    .topic_metrics
                    .list("topics")
                    .iter()
                    .find(|earlier| earlier.text("filter") == topic.text("filter"))
            });
            let seconds =
                previous.map(|previous| (number(&previous.overview, "now_ms"), number(&self.overview, "now_ms")));
            let per_second = |name: &str| {
                let (then_ms, now_ms) = seconds?;
                let more = number(topic, name).checked_sub(number(earlier?, name))?;
                Some(format!("{}/s", grouped((more * 1_000).checked_div(now_ms.saturating_sub(then_ms))?)))
            };
            let cell = |name| per_second(name).unwrap_or_else(|| grouped(number(topic, name)));
            let dropped = grouped(number(topic, "messages_dropped"));
            vec![filter, cell("messages_received"), cell("messages_delivered"), dropped]
        };
        let rows: Vec<Vec<String>> = topic_metrics.iter().map(row).collect();
        text.push('\n');
        text.push_str(&table(&["filter", "received", "delivered", "dropped"], &rows));
    }

    fn summary(&self, previous: Option<&Snapshot>) -> String {
        let overview = &self.overview;
        let count = |name| grouped(number(overview, name));
        let bytes = |name| match overview.get(name) {
            Some(Value::Number(_)) => in_bytes(number(overview, name)),
            _ => "-".to_owned(),
        };
        let per_second = |name, format: fn(u64) -> String| {
            let rate = previous.and_then(|previous| rate(&previous.overview, overview, name));
            rate.map_or_else(|| "-".to_owned(), |rate| format!("{}/s", format(rate)))
        };
        let up_s = number(overview, "now_ms").saturating_sub(number(overview, "started_ms")) / 1_000;
        let log = overview.get("log").unwrap_or(&Value::Null);
        let mut text = String::new();
        let _ = writeln!(
            text,
            "tautwire {}  up {}  {} threads  log {}: p50 {}, p99 {}",
            shown(overview.get("version")),
            duration(up_s),
            count("threads"),
            shown(log.get("state")),
            microseconds(log, "sync_p50_us"),
            microseconds(log, "sync_p99_us"),
        );
        let _ = writeln!(
            text,
            "connections {} of {}  sessions {}  subscriptions {}  retained {} ({})",
            count("connections"),
            count("connections_limit"),
            count("sessions"),
            count("subscriptions"),
            count("retained_messages"),
            bytes("retained_bytes"),
        );
        let _ = writeln!(
            text,
            "messages in {} out {}  bytes in {} out {}",
            per_second("messages_received", grouped),
            per_second("messages_sent", grouped),
            per_second("bytes_received", in_bytes),
            per_second("bytes_sent", in_bytes),
        );
        let latency = overview.get("latency").unwrap_or(&Value::Null);
        let _ = writeln!(
            text,
            "delivery p50 {}, p99 {}  acknowledgement p50 {}, p99 {}",
            microseconds(latency, "delivery_p50_us"),
            microseconds(latency, "delivery_p99_us"),
            microseconds(latency, "acknowledgement_p50_us"),
            microseconds(latency, "acknowledgement_p99_us"),
        );
        let _ = writeln!(
            text,
            "memory {} of {}  disk {} of {}",
            bytes("memory_bytes"),
            bytes("memory_limit_bytes"),
            bytes("disk_bytes"),
            bytes("disk_limit_bytes"),
        );
        let drops = match overview.get("drops") {
            Some(Value::Object(drops)) => drops.as_slice(),
            _ => &[],
        };
        let drops = drops.iter().map(|(reason, count)| (reason, shown(Some(count)))).filter(|(_, count)| count != "0");
        let drops: Vec<String> = drops.map(|(reason, count)| format!("{reason} {count}")).collect();
        let _ = writeln!(text, "dropped: {}", if drops.is_empty() { "none".to_owned() } else { drops.join(", ") });
        text
    }
}

fn number(value: &Value, name: &str) -> u64 {
    match value.get(name) {
        Some(Value::Number(number)) => number.parse().unwrap_or(0),
        _ => 0,
    }
}

fn retained(level: &Value) -> u64 {
    let own = matches!(level.get("retained"), Some(Value::Bool(true)));
    number(level, "descendants") + u64::from(own)
}

/// The rate of a counter between two snapshots.
fn rate(previous: &Value, now: &Value, name: &str) -> Option<u64> {
    let elapsed_ms = number(now, "now_ms").checked_sub(number(previous, "now_ms")).filter(|elapsed| *elapsed > 0)?;
    Some(number(now, name).saturating_sub(number(previous, name)).saturating_mul(1_000) / elapsed_ms)
}

/// A number with thousands separators.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn in_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.checked_ilog2().unwrap_or(0) / 10).min(UNITS.len() as u32 - 1);
    match unit {
        0 => format!("{bytes} B"),
        unit => format!("{:.1} {}", bytes as f64 / f64::from(1 << (unit * 5)).powi(2), UNITS[unit as usize]),
    }
}

fn microseconds(value: &Value, name: &str) -> String {
    match value.get(name) {
        Some(Value::Number(_)) => format!("{:.1} ms", number(value, name) as f64 / 1_000.0),
        _ => "-".to_owned(),
    }
}

fn duration(s: u64) -> String {
    let (days, rest) = (s / 86_400, s % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}d {clock}") } else { clock }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn numbers_are_human_readable() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1_023, 1_536, 5 << 30].map(in_bytes), ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
        assert_eq!([59, 90_061].map(duration), ["00:00:59", "1d 01:01:01"]);
    }

    #[test]
    fn a_screen_overwrites_the_previous_one() {
        assert_eq!(on_screen("a\nb\n"), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
    }

    #[test]
    fn rates_cover_the_time_between_two_polls() {
        let snapshot = |now_ms: u64, received: u64| {
            Snapshot {
            overview: json::parse(&format!("{{\"now_ms\":{now_ms},\"messages_received\":{received}}}"))
                .expect("it is JSON"),
            clients: Value::Null,
            topics: Value::Null,
            topic_metrics: json::parse(&format!(
                "{{\"topics\":[{{\"filter\":\"a/#\",\"messages_received\":{received},\"messages_delivered\":7,\"messages_dropped\":0}}]}}"
            ))
            .expect("it is JSON"),
            json: String::new(),
        }
        };
        let (first, second) = (snapshot(1_000, 10), snapshot(3_000, 3_010));
        assert!(first.render(None, 10).contains("messages in - out -"));
        assert!(first.render(None, 10).contains("\na/#     10        7          0\n"), "{}", first.render(None, 10));
        assert!(second.render(Some(&first), 10).contains("\na/#     1,500/s   0/s        0\n"));
        assert!(second.render(Some(&first), 10).contains("messages in 1,500/s out 0/s"));
    }
}
