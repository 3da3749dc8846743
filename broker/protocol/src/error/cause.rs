/// The kind of fault (section 4.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No fault: bytes are missing.
    Incomplete {
        /// The minimum number of bytes, from the start of the packet, before another attempt makes sense.
        needed: usize,
    },
    /// The bytes cannot be parsed.
    Malformed,
    /// The bytes can be parsed, but have a value that the standard does not allow.
    ProtocolError,
    /// The packet is larger than the receiver accepts.
    OverLimit,
}

/// Generates [`DecodeCause`](super::DecodeCause) from its table.
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
