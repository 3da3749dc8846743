//! The telemetry settings with the content of their files.

use std::fmt;
use std::path::Path;

use tautwire_identity::Secret;

use super::otlp::push_attributes;
use crate::config::settings::{Config, TelemetryConfig};
use crate::files;
use crate::identity::{UreqClient, read_authorities};

/// Largest accepted file with header fields.
const HEADERS_FILE_MAX_BYTES: usize = 16 << 10;
/// Largest number of header fields.
const HEADERS_MAX: usize = 32;

/// What to export, and where to.
#[derive(PartialEq, Eq)]
pub(crate) struct Plan {
    pub(super) url: String,
    pub(super) config: TelemetryConfig,
    pub(super) headers: Headers,
    authorities: Vec<Vec<u8>>,
}

impl Plan {
    /// Reads the settings of a configuration; `None` if nothing is exported.
    ///
    /// # Errors
    /// All errors in the files, one per line. Never contains secrets.
    pub(crate) fn read(config: &Config) -> Result<Option<Plan>, Vec<String>> {
        let config = &config.telemetry;
        let Some(url) = config.endpoint.get() else { return Ok(None) };
        let headers = config.headers_file.get().map_or_else(|| Ok(Vec::new()), read_headers);
        let headers = headers.and_then(|headers| {
            if !headers.is_empty() && !config.endpoint.is_safe() {
                return Err(
                    "telemetry.headers_file: header fields may be secret and need https://, or http:// to this machine; change \
                            telemetry.endpoint"
                        .to_owned(),
                );
            }
            Ok(headers)
        });
        match (headers, read_authorities("telemetry.ca", config.ca.iter())) {
            (Ok(headers), Ok(authorities)) => {
                Ok(Some(Plan { url: url.to_owned(), config: config.clone(), headers, authorities }))
            }
            (headers, authorities) => Err([headers.err(), authorities.err()].into_iter().flatten().collect()),
        }
    }

    /// The HTTP client for the collector. Reads the system's certificates if needed.
    pub(super) fn http(&self) -> UreqClient {
        if self.url.starts_with("http://") { UreqClient::without_tls() } else { UreqClient::new(&self.authorities) }
    }

    /// The resource attributes of the broker, as a JSON list.
    pub(super) fn resource(&self, instance: &str) -> String {
        let host = rustix::system::uname();
        let process = std::process::id().to_string();
        let defaults = [
            ("service.name", self.config.service_name.0.as_str()),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", instance),
            ("host.name", host.nodename().to_str().unwrap_or_default()),
            ("process.pid", &process),
            ("telemetry.sdk.name", "tautwire"),
            ("telemetry.sdk.language", "rust"),
            ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ];
        let added = &self.config.attributes.0;
        let is_default = |name: &str| added.iter().all(|(known, _)| known != name);
        let defaults = defaults.into_iter().filter(|(name, text)| is_default(name) && !text.is_empty());
        let mut out = String::new();
        push_attributes(&mut out, defaults.chain(added.iter().map(|(name, text)| (name.as_str(), text.as_str()))));
        out
    }
}

/// Omits the header fields, which may be secret.
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Header fields by name and value.
type Headers = Vec<(Box<str>, Secret)>;

fn read_headers(path: &Path) -> Result<Headers, String> {
    let label = || format!("telemetry.headers_file: {}", path.display());
    let text = files::text(path, HEADERS_FILE_MAX_BYTES).map_err(|why| format!("{} {why}", label()))?;
    headers(&text).map_err(|(line, why)| format!("{}:{line}: {why}", label()))
}

/// Parses header fields. An error has the line number and the reason.
fn headers(text: &str) -> Result<Headers, (usize, &'static str)> {
    let mut headers = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#')) {
        let wrong = |why| (at + 1, why);
        let (name, value) = line.split_once(':').ok_or(wrong("not a header field; write NAME: VALUE"))?;
        let (name, value) = (name.trim(), value.trim());
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(wrong("invalid character in the field name"));
        }
        if ["host", "content-length", "content-type", "transfer-encoding", "connection"]
            .contains(&&*name.to_ascii_lowercase())
        {
            return Err(wrong("this field is set by the broker"));
        }
        if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
            return Err(wrong("invalid character in the field value"));
        }
        if headers.len() == HEADERS_MAX {
            return Err(wrong("too many fields"));
        }
        headers.push((name.into(), Secret::new(value)));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_a_line_each() {
        let read = headers("# of the collector\nAuthorization: Bearer a:b\n\n x-org : 7\n").expect("valid fields");
        let expected = [("Authorization", "Bearer a:b"), ("x-org", "7")];
        assert_eq!(read, expected.map(|(name, value)| (Box::from(name), Secret::new(value))));
    }

    #[test]
    fn an_invalid_field_is_reported_with_its_line_and_without_its_value() {
        for (text, line) in
            [("a: b\nsecret", 2), ("a b: secret", 1), ("Host: secret", 1), ("a: s\u{e9}cret", 1), (": secret", 1)]
        {
            let (at, why) = headers(text).expect_err(text);
            assert_eq!(at, line, "{text}");
            assert!(!why.contains("secret"), "{why}");
        }
        let many: String = (0..=HEADERS_MAX).map(|number| format!("a{number}: b\n")).collect();
        assert!(headers(&many).is_err());
    }
}
