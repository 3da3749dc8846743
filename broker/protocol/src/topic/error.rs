use core::fmt;

/// Why a string is not a topic name or not a topic filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopicError {
    /// What is wrong.
    pub kind: TopicErrorKind,
    /// The byte at which it is wrong, from the start of the string.
    pub offset: usize,
}

/// What is wrong with a topic name or filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TopicErrorKind {
    /// No character at all `[MQTT-4.7.3-1]`.
    Empty,
    /// More than 65,535 bytes `[MQTT-4.7.3-3]`.
    TooLong,
    /// It contains U+0000 `[MQTT-4.7.3-2]`.
    Null,
    /// A topic name contains `+` or `#` `[MQTT-4.7.0-1]`.
    WildcardInName,
    /// `#` is not the last character of the filter `[MQTT-4.7.1-1]`.
    MultiLevelNotLast,
    /// `+` or `#` shares its level with other characters `[MQTT-4.7.1-1]` `[MQTT-4.7.1-2]`.
    WildcardNotAlone,
    /// `$share/` is followed by an empty share name `[MQTT-4.8.2-1]`.
    ShareNameEmpty,
    /// The share name contains `+` or `#` `[MQTT-4.8.2-2]`.
    ShareNameWildcard,
    /// No filter follows the share name `[MQTT-4.8.2-2]`.
    ShareFilterMissing,
}

impl TopicErrorKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Empty,
        Self::TooLong,
        Self::Null,
        Self::WildcardInName,
        Self::MultiLevelNotLast,
        Self::WildcardNotAlone,
        Self::ShareNameEmpty,
        Self::ShareNameWildcard,
        Self::ShareFilterMissing,
    ];

    /// A stable name for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Empty => "topic_empty",
            Self::TooLong => "topic_too_long",
            Self::Null => "topic_null",
            Self::WildcardInName => "topic_wildcard_in_name",
            Self::MultiLevelNotLast => "topic_multi_level_not_last",
            Self::WildcardNotAlone => "topic_wildcard_not_alone",
            Self::ShareNameEmpty => "topic_share_name_empty",
            Self::ShareNameWildcard => "topic_share_name_wildcard",
            Self::ShareFilterMissing => "topic_share_filter_missing",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Empty => "the topic is empty: use at least one character",
            Self::TooLong => "the topic is longer than 65,535 bytes: shorten it",
            Self::Null => "the topic contains U+0000: remove it",
            Self::WildcardInName => "a topic name may not contain + or #: publish to one exact topic",
            Self::MultiLevelNotLast => "# is allowed at the end of a topic filter alone: move or remove it",
            Self::WildcardNotAlone => "a wildcard must fill its whole level: put it between slashes",
            Self::ShareNameEmpty => "the share name is empty: write $share/NAME/FILTER",
            Self::ShareNameWildcard => "a share name may not contain + or #: write $share/NAME/FILTER",
            Self::ShareFilterMissing => "no topic filter follows the share name: write $share/NAME/FILTER",
        }
    }
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.kind.text(), self.offset)
    }
}

impl core::error::Error for TopicError {}
