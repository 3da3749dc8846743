//! The registry of keys: one entry per key, from which parsing, validation, output and documentation derive. The file has one registry, and
//! so has each kind of table that can appear several times.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use super::error::ErrorLocation;
use super::value::ValueError;

/// One configuration key of `C`.
pub(crate) struct Key<C: 'static> {
    /// Dotted name, as in the file and in `--set`, for example `mqtt.max_qos`.
    pub(crate) name: &'static str,
    /// Its meaning in a sentence or two.
    pub(crate) doc: &'static str,
    /// Accepted type and values, for people.
    pub(crate) accepts: fn(Option<&RangeInclusive<u64>>) -> String,
    /// Allowed range of an integer.
    pub(crate) range: Option<RangeInclusive<u64>>,
    /// Unit of a number, if the name does not contain it.
    pub(crate) unit: Option<&'static str>,
    pub(crate) set: Set<C>,
    /// Stores the location of the value.
    pub(crate) locate: fn(&mut C, &ErrorLocation),
    /// Copies the value of the key from another configuration.
    pub(crate) copy: fn(&mut C, &C),
    /// The value as TOML text; empty if it is not set.
    pub(crate) show: fn(&C) -> String,
}

/// Sets a value, if it has the key's type and is in range.
pub(crate) type Set<C> = fn(&mut C, &DeValue<'_>, Option<&RangeInclusive<u64>>) -> Result<(), ValueError>;

impl<C> Key<C> {
    /// The table of the key; `None` for keys before the first table.
    pub(crate) fn section(&self) -> Option<&'static str> {
        self.name.split_once('.').map(|(section, _)| section)
    }

    /// The name within its table.
    pub(crate) fn leaf(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, leaf)| leaf)
    }

    /// Type, range and unit, for people: for example `whole number from 1 to 65535`.
    pub(crate) fn accepts(&self) -> String {
        let accepts = (self.accepts)(self.range.as_ref());
        match self.unit {
            Some(unit) => format!("{accepts} ({unit})"),
            None => accepts,
        }
    }
}

/// One table of the file.
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
}

pub(crate) fn find<C>(keys: &'static [Key<C>], name: &str) -> Option<&'static Key<C>> {
    keys.iter().find(|key| key.name == name)
}

/// Defines the configuration structures, their defaults and the registry of keys.
///
/// Each key is defined once: meaning (the doc comment), name, type, default, and for numbers the range and the unit.
macro_rules! settings {
    (
        $(#[doc = $root_doc:literal])+
        $Root:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $default:expr $(, in $range:expr)? $(, unit $unit:literal)?;
            )*
            $( tables $tables:ident: $Table:ty; )*
        }
        $(
            $(#[doc = $section_doc:literal])+
            $section:ident: $Section:ident {
                $(
                    $(#[doc = $inner_doc:literal])+
                    $inner:ident: $inner_type:ty = $inner_default:expr
                        $(, in $inner_range:expr)? $(, unit $inner_unit:literal)?;
                )*
            }
        )*
    ) => {
        $(#[doc = $root_doc])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) struct $Root {
            $( $(#[doc = $doc])+ pub(crate) $field: $type, )*
            $( $(#[doc = $section_doc])+ pub(crate) $section: $Section, )*
            $( /// Tables that can appear several times.
            pub(crate) $tables: Vec<$Table>, )*
        }

        impl Default for $Root {
            fn default() -> Self {
                Self {
                    $( $field: $default, )*
                    $( $section: $Section::default(), )*
                    $( $tables: Vec::new(), )*
                }
            }
        }

        $(
            $(#[doc = $section_doc])+
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub(crate) struct $Section {
                $( $(#[doc = $inner_doc])+ pub(crate) $inner: $inner_type, )*
            }

            impl Default for $Section {
                fn default() -> Self {
                    Self { $( $inner: $inner_default, )* }
                }
            }
        )*

        /// Every table of the file, in the order of the documentation.
        pub(crate) static SECTIONS: &[$crate::config::registry::Section] = &[
            $( $crate::config::registry::Section {
                name: stringify!($section),
                doc: concat!($($section_doc),+).trim_ascii(),
            }, )*
        ];

        /// Every key, in the order of the documentation: those outside a table first.
        pub(crate) static KEYS: &[$crate::config::registry::Key<$Root>] = &[
            $( settings!(@key
                stringify!($field), [$($doc),+], $type,
                [$($range)?], [$($unit)?], $field
            ), )*
            $( $( settings!(@key
                concat!(stringify!($section), ".", stringify!($inner)), [$($inner_doc),+], $inner_type,
                [$($inner_range)?], [$($inner_unit)?], $section.$inner
            ), )* )*
        ];
    };
    (@key $name:expr, [$($doc:literal),+], $type:ty, [$($range:expr)?], [$($unit:literal)?], $($path:ident).+) => {
        $crate::config::registry::Key {
            name: $name,
            doc: concat!($($doc),+).trim_ascii(),
            accepts: <$type as $crate::config::value::Setting>::accepts,
            range: settings!(@option $($range)?),
            unit: settings!(@option $($unit)?),
            set: |config, value, range| {
                config.$($path).+ = <$type as $crate::config::value::Setting>::from_toml(value, range)?;
                Ok(())
            },
            locate: |config, location| {
                $crate::config::value::Setting::set_location(&mut config.$($path).+, location);
            },
            copy: |config, other| config.$($path).+ = other.$($path).+.clone(),
            show: |config| $crate::config::value::Setting::to_toml(&config.$($path).+),
        }
    };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
}
pub(crate) use settings;
