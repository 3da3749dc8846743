//! Audit events that are also written to the log: refusals, denials and failed logins.
//!
//! The audit log may be off, and operators check the log first. Both are made from the same events, so that they cannot differ.

use log::kv::Key;
use log::{Level, Record};

use super::line::{FieldValue, Fields};

/// The log target of these lines.
pub(super) const TARGET: &str = "tautwire::events";

/// The log line of an audit event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Lines of one kind share a rate limit.
    pub(super) kind: &'static str,
    pub(super) level: Level,
}

/// The log line for an event, if it has one.
pub(super) fn of(record: &Record<'_>) -> Option<Event> {
    let values = record.key_values();
    let value = |name: &str| values.get(Key::from_str(name));
    let event = value("event")?;
    let status = || value("status").and_then(|status| status.to_u64());
    let (kind, level) = match event.to_borrowed_str()? {
        "refused" => ("refused connection", Level::Warn),
        "reauthentication_refused" => ("refused re-authentication", Level::Warn),
        "denied" => match value("action")?.to_borrowed_str()? {
            "publish" => ("denied publish", Level::Warn),
            "subscribe" => ("denied subscription", Level::Warn),
            _ => ("denied will", Level::Warn),
        },
        "admin_login" if value("result")?.to_borrowed_str()? != "success" => ("failed admin login", Level::Warn),
        "admin" if matches!(status()?, 401 | 403) => ("denied admin request", Level::Warn),
        _ => return None,
    };
    Some(Event { kind, level })
}

impl Event {
    /// The message and the fields of the line.
    pub(super) fn line(&self, record: &Record<'_>) -> (String, Fields) {
        let mut fields = Fields::of(record.key_values());
        fields.take("event");
        fields.take("action");
        let why = fields.take_text("reason");
        let message = if why.is_empty() { self.kind.to_owned() } else { format!("{}: {why}", self.kind) };
        match fields.take("reason_code") {
            Some(FieldValue::Number(code)) => {
                (message, fields.with("reason_code", FieldValue::Text(format!("{code:#04x}"))))
            }
            _ => (message, fields),
        }
    }
}

#[cfg(test)]
mod tests {
    use log::kv::Value;

    use super::*;

    fn event_line(pairs: &[(&str, Value<'_>)]) -> Option<(Level, String)> {
        let record = Record::builder().key_values(&pairs).target("audit").args(format_args!("")).build();
        let event = of(&record)?;
        let (mut line, fields) = event.line(&record);
        fields.push_text(&mut line);
        Some((event.level, line))
    }

    #[test]
    fn exactly_refusals_denials_and_failed_logins_are_logged() {
        let text = Value::from;
        let warning = |line: &str| Some((Level::Warn, line.to_owned()));
        assert_eq!(
            event_line(&[
                ("event", text("refused")),
                ("client_id", text("meter 7")),
                ("user", text("ann")),
                ("listener", text("mqtt")),
                ("address", text("192.0.2.7:50124")),
                ("reason_code", Value::from(0x87_u8)),
                ("reason", text("wrong password")),
            ]),
            warning(
                "refused connection: wrong password client_id=\"meter 7\" user=ann listener=mqtt address=192.0.2.7:50124 reason_code=0x87"
            )
        );
        assert_eq!(
            event_line(&[("event", text("denied")), ("action", text("subscribe")), ("topic", text("#"))]),
            warning("denied subscription topic=#")
        );
        let login = |result| {
            event_line(&[("event", text("admin_login")), ("actor", text("user eve")), ("result", text(result))])
        };
        assert_eq!(login("failure"), warning("failed admin login actor=\"user eve\" result=failure"));
        assert_eq!(login("success"), None);
        let admin = |status: u16| {
            event_line(&[("event", text("admin")), ("path", text("/v1/bans")), ("status", Value::from(status))])
        };
        assert_eq!(admin(401), warning("denied admin request path=/v1/bans status=401"));
        assert_eq!((admin(200), admin(409)), (None, None));
        assert_eq!(event_line(&[("event", text("connect")), ("client_id", text("a"))]), None);
    }
}
