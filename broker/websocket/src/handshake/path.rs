//! The path of the MQTT endpoint.

use std::fmt;

/// Longest path.
const PATH_MAX_BYTES: usize = 255;

/// The path of a WebSocket address: `/mqtt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(Box<str>);

impl Path {
    /// A path that begins with `/`, of at most 255 visible ASCII characters except `?`, `#`, `"`, `'`, `,` and backslash.
    pub fn new(path: &str) -> Option<Path> {
        let allowed = |byte: u8| byte.is_ascii_graphic() && !b"?#\"',\\".contains(&byte);
        let valid = path.starts_with('/') && path.len() <= PATH_MAX_BYTES && path.bytes().all(allowed);
        valid.then(|| Path(path.into()))
    }

    /// The path as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a request is for this path, with any query.
    pub(crate) fn matches_target(&self, target: &str) -> bool {
        target.split_once('?').map_or(target, |(path, _)| path) == self.as_str()
    }
}

impl Default for Path {
    /// The default path of clients.
    fn default() -> Path {
        Path("/mqtt".into())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_ignored_and_everything_else_matters() {
        let path = Path::default();
        for target in ["/mqtt", "/mqtt?", "/mqtt?a=/b"] {
            assert!(path.matches_target(target), "{target}");
        }
        for target in ["/", "/mqtt/", "/MQTT", "/mqttt", "?/mqtt", "http://127.0.0.1/mqtt"] {
            assert!(!path.matches_target(target), "{target}");
        }
    }

    #[test]
    fn only_characters_of_a_request_line_are_a_path() {
        for path in ["/", "/mqtt", "/a/b-c_%20~"] {
            assert!(Path::new(path).is_some(), "{path}");
        }
        let long = format!("/{}", "x".repeat(PATH_MAX_BYTES));
        for path in ["", "mqtt", "/a b", "/a?b", "/a#b", "/é", "/\n", &long] {
            assert!(Path::new(path).is_none(), "{path}");
        }
    }
}
