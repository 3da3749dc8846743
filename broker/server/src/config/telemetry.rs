//! Types of the telemetry keys.

use std::ops::RangeInclusive;

use tautwire_identity::is_safe_url;
use toml::de::DeValue;

use super::value::{Setting, ValueError, quoted, text, texts};

/// The URL of the collector, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Endpoint(String);

/// A fraction of all messages, in millionths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ratio {
    pub(crate) millionths: u32,
}

/// Resource attributes: names and values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes(pub(crate) Vec<(String, String)>);

/// Millionths in one.
const ALL: u32 = 1_000_000;
/// Maximum number of additional attributes.
const ATTRIBUTES_MAX: usize = 64;

impl Endpoint {
    /// The URL without a trailing slash, if any.
    pub(crate) fn get(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&*self.0)
    }

    /// Whether the connection is private: over TLS, or to this machine.
    pub(crate) fn is_safe(&self) -> bool {
        is_safe_url(&self.0)
    }
}

impl Setting for Endpoint {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "URL with http:// or https://, \"\" for none".to_owned()
    }

    /// Errors do not contain the URL, which may contain a password.
    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let url = text::<Self>(value)?;
        if url.is_empty() {
            return Ok(Endpoint::default());
        }
        let wrong = |why: &str| Err(ValueError::Range(why.to_owned()));
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let Some(rest) = rest else {
            return wrong("is not a valid URL; write it like \"http://127.0.0.1:4318\", with http:// or https://");
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return wrong("contains a user or a password; put an Authorization line into telemetry.headers_file");
        }
        if rest.contains(['?', '#', '\\']) || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong("is not a valid URL: write only scheme, host, port and path");
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse::<u16>().is_ok()),
            _ => (authority, true),
        };
        if host.is_empty() || !port {
            return wrong("is not a valid URL: its host or its port is invalid");
        }
        Ok(Endpoint(url.trim_end_matches('/').to_owned()))
    }

    fn to_toml(&self) -> String {
        quoted(&self.0)
    }
}

impl Setting for Ratio {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "number from 0 to 1, such as 0.001".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let number = match value {
            DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => return Err(ValueError::Type(format!("expected a {}", Self::accepts(None)))),
        };
        match number {
            Some(number) if (0.0..=1.0).contains(&number) => {
                Ok(Ratio { millionths: (number * f64::from(ALL)).round() as u32 })
            }
            _ => Err(ValueError::Range(format!("is not a fraction; write a {}", Self::accepts(None)))),
        }
    }

    fn to_toml(&self) -> String {
        match self.millionths {
            0 => "0".to_owned(),
            ALL => "1".to_owned(),
            millionths => format!("0.{millionths:06}").trim_end_matches('0').to_owned(),
        }
    }
}

impl Setting for Attributes {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"NAME=VALUE\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let wrong = |text: &str| {
            let text = text.escape_debug();
            ValueError::Range(format!(
                "\"{text}\" is not an attribute; write NAME=VALUE, for example \"deployment.environment.name=production\""
            ))
        };
        let attribute = |text: &str| {
            let (name, value) = text.split_once('=').ok_or_else(|| wrong(text))?;
            let (name, value) = (name.trim(), value.trim());
            if name.is_empty() { Err(wrong(text)) } else { Ok((name.to_owned(), value.to_owned())) }
        };
        let texts = texts::<Self>(value)?.into_iter().filter(|text| !text.is_empty());
        let all = texts.map(attribute).collect::<Result<Vec<_>, _>>()?;
        if all.len() > ATTRIBUTES_MAX {
            return Err(ValueError::Range(format!("has {} attributes; the maximum is {ATTRIBUTES_MAX}", all.len())));
        }
        Ok(Attributes(all))
    }

    fn to_toml(&self) -> String {
        let attribute = |(name, value): &(String, String)| quoted(&format!("{name}={value}"));
        format!("[{}]", self.0.iter().map(attribute).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<S: Setting>(text: &str) -> Result<S, ValueError> {
        let parsed = DeValue::parse(text).expect("TOML").into_inner();
        S::from_toml(&parsed, None)
    }

    #[test]
    fn an_endpoint_is_a_url_without_secrets() {
        for good in ["http://127.0.0.1:4318", "https://collector.example.org", "http://[::1]:4318/otlp"] {
            let endpoint: Endpoint = read(&format!("\"{good}/\"")).expect(good);
            assert_eq!(endpoint.get(), Some(good));
        }
        assert_eq!(read::<Endpoint>("\"\"").expect("none").get(), None);
        let bad = [
            "collector:4318",
            "ftp://x",
            "http://",
            "http://:1",
            "http://a:b",
            "http://a/?x=1",
            "http://a b",
            "http://a:99999",
        ];
        for bad in bad {
            assert!(read::<Endpoint>(&format!("\"{bad}\"")).is_err(), "{bad}");
        }
        let Err(ValueError::Range(why)) = read::<Endpoint>("\"https://ann:secret@example.org\"") else {
            panic!("accepted")
        };
        assert!(why.contains("headers_file") && !why.contains("secret") && !why.contains("ann"), "{why}");
    }

    #[test]
    fn a_ratio_round_trips() {
        for text in ["0", "1", "0.5", "0.000001", "0.123456"] {
            assert_eq!(read::<Ratio>(text).expect(text).to_toml(), text);
        }
        for bad in ["1.1", "-0.1", "nan", "2", "-1"] {
            assert!(read::<Ratio>(bad).is_err(), "{bad}");
        }
        assert!(matches!(read::<Ratio>("\"x\""), Err(ValueError::Type(_))));
    }

    #[test]
    fn attributes_have_names() {
        let read_back: Attributes = read("[\"a.b=c=d\", \"e=\"]").expect("attributes");
        assert_eq!(read_back.to_toml(), "[\"a.b=c=d\", \"e=\"]");
        assert!(read::<Attributes>("[\"=x\"]").is_err());
        assert!(read::<Attributes>("[\"x\"]").is_err());
    }
}
