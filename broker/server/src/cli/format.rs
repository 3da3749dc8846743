//! The output format of `tautwire sub -F`: `%` fields, `@` times and `\` escapes, compatible with `mosquitto_sub`.

use std::fmt::Write as _;

use tautwire_protocol::PayloadFormat;

use crate::client::Message;
use crate::json;
use crate::time::UtcTime;

/// Description of the fields, for the help of `sub`.
pub(super) const HELP: &str = "\
Format (-F):
  %t topic  %p payload  %x %X payload in hexadecimal  %l payload length  %q QoS  %r retain (0 or 1)  %m packet identifier
  %P user properties as NAME:VALUE  %C content type  %R response topic  %D correlation data  %E message expiry left
  %F payload format indicator  %S subscription identifiers  %A topic alias
  %j JSON with the payload as a string (payload_hex if it is not UTF-8)  %J JSON with the payload as JSON
     (payload is null and transcoding_error has the reason, if the broker could not transcode it as requested by $as/ or accept)
  %I time of receipt, RFC 3339  %U time of receipt in seconds since 1970  %% a percent sign
  %10t pads to ten characters, %-10t on the right, %010l with zeros, %.10t truncates (t, C, R and I).
  @Y @m @d @H @M @S @N and other strftime letters: parts of the time of receipt.  @@ an at sign.  All times are UTC.
  \\n \\t \\r \\0 \\a \\e \\v \\\\";

/// Maximum width of a field in characters.
const WIDTH_MAX: usize = 10_000;

/// A parsed format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Format {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Field {
        field: Field,
        layout: Layout,
    },
    /// A letter of `strftime`, one of [`TIME_LETTERS`].
    Time(char),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Topic,
    Payload,
    HexLower,
    HexUpper,
    Length,
    QoS,
    Retain,
    PacketId,
    UserProperties,
    ContentType,
    ResponseTopic,
    CorrelationData,
    MessageExpiry,
    PayloadFormat,
    SubscriptionIdentifiers,
    TopicAlias,
    JsonText,
    JsonNested,
    Time,
    UnixTime,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Layout {
    left: bool,
    zeros: bool,
    width: usize,
    /// Maximum length in characters.
    longest: Option<usize>,
}

/// The payload is not JSON, but `%J` needs JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotJson;

impl Format {
    pub(super) fn payload() -> Self {
        Self { pieces: vec![Piece::plain(Field::Payload)] }
    }

    pub(super) fn topic_and_payload() -> Self {
        Self { pieces: vec![Piece::plain(Field::Topic), Piece::Literal(" ".into()), Piece::plain(Field::Payload)] }
    }

    pub(super) fn json() -> Self {
        Self { pieces: vec![Piece::plain(Field::JsonText)] }
    }

    /// Whether the format prints the reason why a message could not be transcoded.
    pub(super) fn has_transcoding_error(&self) -> bool {
        let has_reason = |field| matches!(field, Field::JsonText | Field::JsonNested | Field::UserProperties);
        self.pieces.iter().any(|piece| matches!(piece, Piece::Field { field, .. } if has_reason(*field)))
    }

    /// Parses a format.
    ///
    /// # Errors
    /// A message that names the unknown sequence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            let piece = match character {
                '\\' => {
                    literal.push(escape(rest.next())?);
                    continue;
                }
                '%' if rest.next_if_eq(&'%').is_some() => {
                    literal.push('%');
                    continue;
                }
                '@' if rest.next_if_eq(&'@').is_some() => {
                    literal.push('@');
                    continue;
                }
                '%' => field(&mut rest)?,
                '@' => time(rest.next())?,
                other => {
                    literal.push(other);
                    continue;
                }
            };
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(piece);
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Self { pieces })
    }

    /// Appends the message without a line end. Appends nothing on failure.
    pub(super) fn render(&self, message: &Message<'_>, now: &UtcTime, out: &mut Vec<u8>) -> Result<(), NotJson> {
        let start = out.len();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Time(letter) => push_time(out, *letter, now),
                Piece::Field { field: Field::Payload, .. } => out.extend_from_slice(message.payload),
                Piece::Field { field: Field::CorrelationData, .. } => {
                    out.extend_from_slice(message.properties.correlation_data().unwrap_or_default());
                }
                Piece::Field { field: Field::JsonNested, .. }
                    if !json::is_json(message.payload) && message.transcoding_error().is_none() =>
                {
                    out.truncate(start);
                    return Err(NotJson);
                }
                Piece::Field { field, layout } => layout.push(out, &field.text(message, now)),
            }
        }
        Ok(())
    }
}

impl Piece {
    fn plain(field: Field) -> Self {
        Self::Field { field, layout: Layout::default() }
    }
}

fn escape(letter: Option<char>) -> Result<char, String> {
    Ok(match letter {
        Some('\\') => '\\',
        Some('0') => '\0',
        Some('a') => '\u{7}',
        Some('e') => '\u{1b}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('v') => '\u{b}',
        Some(other) => {
            return Err(format!("\\{other} is not an escape; write \\\\ for a backslash"));
        }
        None => return Err("ends in a single backslash; write \\\\ for a backslash".into()),
    })
}

/// Parses a field after its `%`: flags, width, maximum length, letter.
fn field(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Piece, String> {
    let mut layout = Layout::default();
    while let Some(flag) = rest.next_if(|c| matches!(c, '0' | '-')) {
        match flag {
            '0' => layout.zeros = true,
            _ => layout.left = true,
        }
    }
    if let Some(width) = number(rest)? {
        layout.width = width;
    }
    if rest.next_if_eq(&'.').is_some() {
        layout.longest = Some(number(rest)?.ok_or("a number of characters must follow the dot, as in %.10t")?);
    }
    let field = match rest.next() {
        Some('t') => Field::Topic,
        Some('p') => Field::Payload,
        Some('x') => Field::HexLower,
        Some('X') => Field::HexUpper,
        Some('l') => Field::Length,
        Some('q') => Field::QoS,
        Some('r') => Field::Retain,
        Some('m') => Field::PacketId,
        Some('P') => Field::UserProperties,
        Some('C') => Field::ContentType,
        Some('R') => Field::ResponseTopic,
        Some('D') => Field::CorrelationData,
        Some('E') => Field::MessageExpiry,
        Some('F') => Field::PayloadFormat,
        Some('S') => Field::SubscriptionIdentifiers,
        Some('A') => Field::TopicAlias,
        Some('j') => Field::JsonText,
        Some('J') => Field::JsonNested,
        Some('I') => Field::Time,
        Some('U') => Field::UnixTime,
        Some(other) => {
            return Err(format!("%{other} is not a field; write %% for a percent sign"));
        }
        None => return Err("ends in a single percent sign; write %% for a percent sign".into()),
    };
    Ok(Piece::Field { field, layout })
}

fn number(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<usize>, String> {
    let mut number = None;
    while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
        rest.next();
        let next = number.unwrap_or(0) * 10 + digit as usize;
        if next > WIDTH_MAX {
            return Err(format!("the maximum width is {WIDTH_MAX}"));
        }
        number = Some(next);
    }
    Ok(number)
}

/// Supported letters of `strftime`, and `N` for nanoseconds.
const TIME_LETTERS: &str = "YymdeHIpMSjsFTDRzZNuwab";

fn time(letter: Option<char>) -> Result<Piece, String> {
    match letter {
        Some(letter) if TIME_LETTERS.contains(letter) => Ok(Piece::Time(letter)),
        Some(other) => {
            Err(format!("@{other} is not a part of a time; supported are @{}; write @@ for an at sign", TIME_LETTERS))
        }
        None => Err("ends in a single at sign; write @@ for an at sign".into()),
    }
}

fn push_time(out: &mut Vec<u8>, letter: char, now: &UtcTime) {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // 1970-01-01 was a Thursday.
    let weekday = (now.unix_s / 86_400 + 4) % 7;
    let text = match letter {
        'Y' => now.year.to_string(),
        'y' => format!("{:02}", now.year % 100),
        'm' => format!("{:02}", now.month),
        'd' => format!("{:02}", now.day),
        'e' => format!("{:2}", now.day),
        'H' => format!("{:02}", now.hour),
        'I' => format!("{:02}", (now.hour + 11) % 12 + 1),
        'p' => if now.hour < 12 { "AM" } else { "PM" }.to_owned(),
        'M' => format!("{:02}", now.minute),
        'S' => format!("{:02}", now.second),
        'j' => format!("{:03}", now.day_of_year),
        's' => now.unix_s.to_string(),
        'F' => format!("{:04}-{:02}-{:02}", now.year, now.month, now.day),
        'T' => format!("{:02}:{:02}:{:02}", now.hour, now.minute, now.second),
        'D' => format!("{:02}/{:02}/{:02}", now.month, now.day, now.year % 100),
        'R' => format!("{:02}:{:02}", now.hour, now.minute),
        'z' => "+0000".to_owned(),
        'Z' => "UTC".to_owned(),
        'N' => format!("{:09}", now.nanosecond),
        'u' => if weekday == 0 { 7 } else { weekday }.to_string(),
        'w' => weekday.to_string(),
        'a' => DAYS[weekday as usize].to_owned(),
        'b' => MONTHS[usize::from(now.month.clamp(1, 12)) - 1].to_owned(),
        _ => String::new(),
    };
    out.extend_from_slice(text.as_bytes());
}

impl Field {
    fn text(self, message: &Message<'_>, now: &UtcTime) -> String {
        let properties = message.properties;
        match self {
            Self::Topic => message.topic.to_string(),
            Self::HexLower => hex(message.payload, false),
            Self::HexUpper => hex(message.payload, true),
            Self::Length => message.payload.len().to_string(),
            Self::QoS => message.qos.as_u8().to_string(),
            Self::Retain => u8::from(message.retain).to_string(),
            Self::PacketId => message.packet_id.map_or_else(|| "0".into(), |id| id.get().to_string()),
            Self::UserProperties => {
                let pairs: Vec<String> =
                    properties.user_properties().map(|(name, value)| format!("{name}:{value}")).collect();
                pairs.join(" ")
            }
            Self::ContentType => properties.content_type().unwrap_or_default().to_owned(),
            Self::ResponseTopic => {
                properties.response_topic().map(|topic| topic.as_str().to_owned()).unwrap_or_default()
            }
            Self::MessageExpiry => optional(properties.message_expiry_interval()),
            Self::PayloadFormat => optional(properties.payload_format_indicator().map(payload_format)),
            Self::SubscriptionIdentifiers => {
                let ids: Vec<String> = properties.subscription_identifiers().map(|id| id.get().to_string()).collect();
                ids.join(" ")
            }
            Self::TopicAlias => optional(properties.topic_alias()),
            Self::JsonText => json_message(message, now, false),
            Self::JsonNested => json_message(message, now, true),
            Self::Time => {
                let mut text = String::new();
                now.push_rfc3339(&mut text, 0);
                text
            }
            Self::UnixTime => format!("{}.{:09}", now.unix_s, now.nanosecond),
            // Raw bytes, written by `render`.
            Self::Payload | Self::CorrelationData => String::new(),
        }
    }
}

impl Layout {
    fn push(self, out: &mut Vec<u8>, text: &str) {
        let text = match self.longest.and_then(|longest| text.char_indices().nth(longest)) {
            Some((end, _)) => &text[..end],
            None => text,
        };
        let padding = self.width.saturating_sub(text.chars().count());
        if self.left {
            out.extend_from_slice(text.as_bytes());
            out.extend(std::iter::repeat_n(b' ', padding));
        } else {
            out.extend(std::iter::repeat_n(if self.zeros { b'0' } else { b' ' }, padding));
            out.extend_from_slice(text.as_bytes());
        }
    }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn payload_format(format: PayloadFormat) -> u8 {
    match format {
        PayloadFormat::Unspecified => 0,
        PayloadFormat::Utf8 => 1,
    }
}

fn hex(bytes: &[u8], upper: bool) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = if upper { write!(text, "{byte:02X}") } else { write!(text, "{byte:02x}") };
    }
    text
}

/// One line of JSON. Names follow `mosquitto_sub`; repeated user properties are repeated.
fn json_message(message: &Message<'_>, now: &UtcTime, nested: bool) -> String {
    let mut text = String::from("{\"tst\":\"");
    now.push_rfc3339(&mut text, 6);
    text.push_str("\",\"topic\":");
    json::push_string(&mut text, message.topic);
    let _ = write!(
        text,
        ",\"qos\":{},\"retain\":{},\"payloadlen\":{}",
        message.qos.as_u8(),
        u8::from(message.retain),
        message.payload.len()
    );
    if let Some(id) = message.packet_id {
        let _ = write!(text, ",\"mid\":{}", id.get());
    }
    if !message.properties.is_empty() {
        text.push_str(",\"properties\":{");
        push_json_properties(&mut text, message);
        text.push('}');
    }
    if let Some(why) = message.transcoding_error() {
        text.push_str(",\"transcoding_error\":");
        json::push_string(&mut text, why);
        text.push_str(",\"payload\":null}");
        return text;
    }
    match str::from_utf8(message.payload) {
        Ok(payload) if nested => {
            text.push_str(",\"payload\":");
            text.push_str(payload.trim());
        }
        Ok(payload) => {
            text.push_str(",\"payload\":");
            json::push_string(&mut text, payload);
        }
        Err(_) => {
            let _ = write!(text, ",\"payload_hex\":\"{}\"", hex(message.payload, false));
        }
    }
    text.push('}');
    text
}

fn push_json_properties(text: &mut String, message: &Message<'_>) {
    let mut names = Names { text, first: true };
    let properties = message.properties;
    let mut users = properties.user_properties().peekable();
    if users.peek().is_some() {
        names.name("user-properties");
        names.text.push('{');
        for (index, (name, value)) in users.enumerate() {
            if index > 0 {
                names.text.push(',');
            }
            json::push_string(names.text, name);
            names.text.push(':');
            json::push_string(names.text, value);
        }
        names.text.push('}');
    }
    if let Some(format) = properties.payload_format_indicator() {
        names.number("payload-format-indicator", payload_format(format).into());
    }
    if let Some(seconds) = properties.message_expiry_interval() {
        names.number("message-expiry-interval", seconds);
    }
    if let Some(content_type) = properties.content_type() {
        names.string("content-type", content_type);
    }
    if let Some(topic) = properties.response_topic() {
        names.string("response-topic", topic.as_str());
    }
    if let Some(data) = properties.correlation_data() {
        match str::from_utf8(data) {
            Ok(data) => names.string("correlation-data", data),
            Err(_) => names.string("correlation-data-hex", &hex(data, false)),
        }
    }
    if let Some(alias) = properties.topic_alias() {
        names.number("topic-alias", alias.get().into());
    }
    let ids: Vec<String> = properties.subscription_identifiers().map(|id| id.get().to_string()).collect();
    if !ids.is_empty() {
        names.name("subscription-identifiers");
        let _ = write!(names.text, "[{}]", ids.join(","));
    }
}

/// Writes the members of a JSON object, with the commas between them.
struct Names<'a> {
    text: &'a mut String,
    first: bool,
}

impl Names<'_> {
    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.first) {
            self.text.push(',');
        }
        json::push_string(self.text, name);
        self.text.push(':');
    }

    fn number(&mut self, name: &str, value: u32) {
        self.name(name);
        let _ = write!(self.text, "{value}");
    }

    fn string(&mut self, name: &str, value: &str) {
        self.name(name);
        json::push_string(self.text, value);
    }
}

#[cfg(test)]
mod tests {
    use tautwire_protocol::{PacketId, Properties, Property, QoS};

    use super::*;

    fn message(payload: &[u8]) -> Message<'_> {
        Message {
            topic: "a/é/c",
            payload,
            qos: QoS::AtLeastOnce,
            retain: true,
            packet_id: PacketId::new(7),
            properties: Properties::EMPTY,
        }
    }

    fn render(format: &str, message: &Message<'_>) -> String {
        let mut out = Vec::new();
        let now = UtcTime::from_unix(1_709_164_805, 42_000_000);
        Format::parse(format).expect("a good format").render(message, &now, &mut out).expect("renders");
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn fields_of_a_message_are_written() {
        assert_eq!(
            render("%t|%p|%x|%X|%l|%q|%r|%m|%%", &message(b"hi\xffJ")),
            "a/é/c|hi\u{fffd}J|6869ff4a|6869FF4A|4|1|1|7|%"
        );
        assert_eq!(render("[%P%C%D%E%F%R%S%A]", &message(b"")), "[]");
    }

    #[test]
    fn properties_are_written() {
        let topic = tautwire_protocol::TopicName::new("r/t").expect("a topic");
        let list = [
            Property::UserProperty("k", "v"),
            Property::UserProperty("k", "w"),
            Property::ContentType("text/plain"),
            Property::ResponseTopic(topic),
            Property::CorrelationData(b"\xff\x01"),
            Property::MessageExpiryInterval(60),
            Property::PayloadFormatIndicator(PayloadFormat::Utf8),
            Property::SubscriptionIdentifier(tautwire_protocol::SubscriptionId::new(3).expect("an id")),
            Property::SubscriptionIdentifier(tautwire_protocol::SubscriptionId::new(268_435_455).expect("an id")),
        ];
        let message = Message { properties: Properties::from(&list[..]), ..message(b"x") };
        assert_eq!(render("%P|%C|%R|%E|%F|%S", &message), "k:v k:w|text/plain|r/t|60|1|3 268435455");
        let json = render("%j", &message);
        assert!(json::is_json(json.as_bytes()), "{json}");
        assert!(
            json.contains(
                "\"properties\":{\"user-properties\":{\"k\":\"v\",\"k\":\"w\"},\"payload-format-indicator\":1,\
                 \"message-expiry-interval\":60,\"content-type\":\"text/plain\",\"response-topic\":\"r/t\",\
                 \"correlation-data-hex\":\"ff01\",\"subscription-identifiers\":[3,268435455]}"
            ),
            "{json}"
        );
    }

    #[test]
    fn widths_count_characters() {
        let message = message(b"12345");
        assert_eq!(
            render("%7t|%-7t|%.3t|%5.3t|%-5.3t|%03l|%3l|%-03l|%0t", &message),
            "  a/é/c|a/é/c  |a/é|  a/é|a/é  |005|  5|5  |a/é/c"
        );
    }

    #[test]
    fn times_are_utc() {
        let message = message(b"");
        assert_eq!(render("%I %U", &message), "2024-02-29T00:00:05Z 1709164805.042000000");
        assert_eq!(
            render("@Y-@m-@d @H:@M:@S.@N @j @a @b @y @I@p @u @w @z @@", &message),
            "2024-02-29 00:00:05.042000000 060 Thu Feb 24 12AM 4 4 +0000 @"
        );
        assert_eq!(render("@F @T @D @R @s @Z @e", &message), "2024-02-29 00:00:05 02/29/24 00:00 1709164805 UTC 29");
    }

    #[test]
    fn escapes_are_written() {
        assert_eq!(render(r"a\n\t\r\0\a\e\v\\z", &message(b"")), "a\n\t\r\0\u{7}\u{1b}\u{b}\\z");
    }

    #[test]
    fn json_carries_any_payload() {
        assert_eq!(
            render("%j", &message(b"say \"hi\"\n")),
            "{\"tst\":\"2024-02-29T00:00:05.042000Z\",\"topic\":\"a/é/c\",\"qos\":1,\"retain\":1,\"payloadlen\":9,\"mid\":7,\
             \"payload\":\"say \\\"hi\\\"\\n\"}"
        );
        assert!(render("%j", &message(b"\xff\x00")).ends_with(",\"payload_hex\":\"ff00\"}"));
        assert!(render("%J", &message(b" {\"a\": [1]} ")).ends_with(",\"payload\":{\"a\": [1]}}"));
    }

    #[test]
    fn a_payload_that_is_not_json_is_refused_for_nested_json_and_nothing_is_written() {
        let mut out = b"before".to_vec();
        let format = Format::parse("x %J").expect("a good format");
        assert_eq!(format.render(&message(b"not json"), &UtcTime::from_unix(0, 0), &mut out), Err(NotJson));
        assert_eq!(out, b"before");
    }

    #[test]
    fn every_time_letter_writes_something() {
        for letter in TIME_LETTERS.chars() {
            assert!(!render(&format!("@{letter}"), &message(b"")).is_empty(), "@{letter}");
        }
    }

    #[test]
    fn unknown_directives_are_refused() {
        for bad in ["%z", "%", "%5", "%.t", "%99999t", "\\q", "\\", "@Q", "@", "a%-"] {
            assert!(Format::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Format::parse("%z"), Err("%z is not a field; write %% for a percent sign".to_owned()));
    }
}
