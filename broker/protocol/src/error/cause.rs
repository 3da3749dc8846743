use core::fmt;

use super::DecodeCause;

/// Generates [`DecodeCause`] from its table.
macro_rules! causes {
    ($($variant:ident: $code:literal, $fault:ident $reason:ident, $statement:expr, $text:literal;)*) => {
        /// A check that decoding makes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DecodeCause {
            $(#[doc = concat!("`", $code, "`: ", $text, ".")] $variant,)*
        }

        impl DecodeCause {
            /// Every cause.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub(crate) const fn words(self) -> Words {
                match self { $(Self::$variant => Words { code: $code, text: $text, statement: $statement },)* }
            }

            /// The reason code to answer with.
            pub const fn reason(self) -> $crate::ReasonCode {
                match self { $(Self::$variant => $crate::ReasonCode::$reason,)* }
            }

            /// The kind of fault. `needed` is not known here and is 0.
            pub(crate) const fn fault(self) -> $crate::Fault {
                match self { $(Self::$variant => $crate::error::cause::causes!(@fault $fault),)* }
            }
        }
    };
    (@fault Incomplete) => { $crate::Fault::Incomplete { needed: 0 } };
    (@fault $fault:ident) => { $crate::Fault::$fault };
}
pub(super) use causes;

impl DecodeCause {
    /// A stable name for programs and logs.
    pub const fn code(self) -> &'static str {
        self.words().code
    }

    /// What is wrong and, after a colon, what to do about it.
    pub const fn text(self) -> &'static str {
        self.words().text
    }

    /// The statement of MQTT 5.0 that the check enforces; `None` if the standard has no numbered statement.
    pub const fn statement(self) -> Option<&'static str> {
        self.words().statement
    }
}

impl fmt::Display for DecodeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    #[test]
    fn malformed_causes_map_to_malformed_packet() {
        for cause in DecodeCause::ALL {
            if cause.fault() == Fault::Malformed {
                assert_eq!(cause.reason(), crate::ReasonCode::MalformedPacket);
            } else {
                assert!(cause.reason().is_error());
            }
        }
    }
}
