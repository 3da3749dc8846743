//! The payload formats that the broker can distinguish and transcode.

/// A payload format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Protocol Buffers, the binary form.
    Protobuf,
    /// MessagePack; messages of a Protobuf schema are maps with their JSON names and native types.
    MessagePack,
    /// JSON; messages of a Protobuf schema use the canonical mapping.
    Json,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 3] = [Format::Protobuf, Format::MessagePack, Format::Json];

    /// The name in `contracts.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Protobuf => "protobuf",
            Format::MessagePack => "messagepack",
            Format::Json => "json",
        }
    }

    /// The format of that name.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The content type that the broker writes.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Protobuf => "application/x-protobuf",
            Format::MessagePack => "application/msgpack",
            Format::Json => "application/json",
        }
    }

    /// The format of a content type, ignoring parameters. Older and vendor-specific names are supported too.
    pub fn of_content_type(content_type: &str) -> Option<Format> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let is = |names: &[&str]| names.iter().any(|name| essence.eq_ignore_ascii_case(name));
        if is(&["application/json", "text/json"]) {
            Some(Format::Json)
        } else if is(&["application/msgpack", "application/x-msgpack", "application/vnd.msgpack"]) {
            Some(Format::MessagePack)
        } else if is(&["application/x-protobuf", "application/protobuf", "application/vnd.google.protobuf"]) {
            Some(Format::Protobuf)
        } else {
            None
        }
    }

    /// The format named by the level after `$as` in a topic filter.
    pub fn of_filter_level(level: &str) -> Option<Format> {
        match level {
            "protobuf" => Some(Format::Protobuf),
            "msgpack" | "messagepack" => Some(Format::MessagePack),
            "json" => Some(Format::Json),
            _ => None,
        }
    }
}
