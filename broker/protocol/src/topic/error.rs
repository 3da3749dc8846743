use core::fmt;

use crate::DecodeCause;
use crate::error::table::FIELD_TOO_LONG;
use crate::error::words::Words;

/// Why a string is not a topic name or not a topic filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopicError {
    /// What is wrong.
    pub kind: TopicErrorKind,
    /// The offset of the fault in bytes, from the start of the string.
    pub offset: usize,
}

/// What is wrong with a topic name or filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TopicErrorKind {
    /// An empty topic name `[MQTT-4.7.3-1]`.
    NameEmpty,
    /// An empty topic filter `[MQTT-4.7.3-1]`.
    FilterEmpty,
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
    /// The share name is empty `[MQTT-4.8.2-1]`, or contains `+` or `#` `[MQTT-4.8.2-2]`.
    ShareNameInvalid,
    /// No filter follows the share name `[MQTT-4.8.2-2]`.
    ShareFilterMissing,
}

impl TopicErrorKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::NameEmpty,
        Self::FilterEmpty,
        Self::TooLong,
        Self::Null,
        Self::WildcardInName,
        Self::MultiLevelNotLast,
        Self::WildcardNotAlone,
        Self::ShareNameInvalid,
        Self::ShareFilterMissing,
    ];

    /// A stable name for programs, the same as that of the [`DecodeCause`] for this fault in a packet.
    pub const fn code(self) -> &'static str {
        self.words().code
    }

    /// What is wrong and, after a colon, what to do about it.
    pub const fn text(self) -> &'static str {
        self.words().text
    }

    const fn words(self) -> Words {
        match self {
            Self::NameEmpty => DecodeCause::TopicMissing.words(),
            Self::FilterEmpty => DecodeCause::TopicFilterEmpty.words(),
            Self::TooLong => FIELD_TOO_LONG,
            Self::Null => DecodeCause::Utf8Null.words(),
            Self::WildcardInName => DecodeCause::TopicWildcard.words(),
            Self::MultiLevelNotLast => DecodeCause::TopicFilterMultiLevel.words(),
            Self::WildcardNotAlone => DecodeCause::TopicFilterWildcard.words(),
            Self::ShareNameInvalid => DecodeCause::ShareNameInvalid.words(),
            Self::ShareFilterMissing => DecodeCause::ShareFilterMissing.words(),
        }
    }
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.kind.words();
        f.write_str(words.text)?;
        words.write_code(f)?;
        write!(f, " at byte {}", self.offset)?;
        words.write_statement(f)
    }
}

impl core::error::Error for TopicError {}
