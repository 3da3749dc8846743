//! The data directory.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::value::{FilePath, Setting, ValueError, quoted};

const AUTO: &str = "auto";
/// The directory of the broker below a shared state directory.
const BROKER_FOLDER: &str = "tautwire";

/// The data directory, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum DataPath {
    /// The state directory of the service or the user.
    #[default]
    Auto,
    /// This directory; none if it is empty.
    At(FilePath),
}

impl DataPath {
    /// The directory; `None` if everything is in memory.
    ///
    /// # Errors
    /// The environment does not name a state directory.
    pub(crate) fn directory(&self) -> Result<Option<PathBuf>, &'static str> {
        match self {
            DataPath::Auto => automatic(|name| std::env::var_os(name)).map(Some),
            DataPath::At(path) => Ok(path.get().map(Path::to_owned)),
        }
    }

    /// Whether everything is in memory.
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, DataPath::At(path) if path.get().is_none())
    }

    /// Makes the path absolute; a relative one is relative to `folder`.
    pub(super) fn relative_to(&mut self, folder: &Path) {
        if let DataPath::At(path) = self {
            path.relative_to(folder);
        }
    }
}

/// See file-hierarchy(7), and RuntimeDirectory= in systemd.exec(5).
fn automatic(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, &'static str> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // The variable may contain several paths, separated by colons.
    let services = variable("STATE_DIRECTORY").and_then(|text| text.into_string().ok());
    let service = services.as_deref().and_then(|text| text.split(':').next()).map(PathBuf::from);
    service
        .filter(|path| path.is_absolute())
        .or_else(|| absolute("XDG_STATE_HOME").map(|path| path.join(BROKER_FOLDER)))
        .or_else(|| absolute("HOME").map(|path| path.join(".local/state").join(BROKER_FOLDER)))
        .ok_or(
            "HOME is not set, so there is no default data directory; set data.path, or start with --memory to store nothing [data_no_directory]",
        )
}

impl Setting for DataPath {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "path, \"auto\", \"\" for none".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let is_auto = value.as_str() == Some(AUTO);
        if is_auto { Ok(DataPath::Auto) } else { FilePath::from_toml(value, range).map(DataPath::At) }
    }

    fn to_toml(&self) -> String {
        match self {
            DataPath::Auto => quoted(AUTO),
            DataPath::At(path) => path.to_toml(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        automatic(variable).ok().map(|path| path.display().to_string())
    }

    #[test]
    fn the_service_directory_precedes_the_users_and_none_is_an_error() {
        let all = [("STATE_DIRECTORY", "/var/lib/tautwire:/var/lib/b"), ("XDG_STATE_HOME", "/x"), ("HOME", "/u/a")];
        assert_eq!(with(&all).as_deref(), Some("/var/lib/tautwire"));
        assert_eq!(with(&all[1..]).as_deref(), Some("/x/tautwire"));
        assert_eq!(with(&all[2..]).as_deref(), Some("/u/a/.local/state/tautwire"));
        // Relative paths are ignored.
        assert_eq!(with(&[("XDG_STATE_HOME", "x"), all[2]]).as_deref(), Some("/u/a/.local/state/tautwire"));
        assert_eq!(with(&[]), None);
    }
}
