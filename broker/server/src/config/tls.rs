//! Types of the TLS keys.

use std::ops::RangeInclusive;
use std::path::Path;

use tautwire_tls::{CipherSuites, ClientCertificates, MinimumVersion};
use toml::de::DeValue;

use super::value::{Choice, FilePath, Setting, ValueError, quoted, texts};

/// A list of files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FilePaths(Vec<FilePath>);

impl FilePaths {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter_map(FilePath::get)
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// Makes the paths absolute; relative ones are relative to `folder`.
    pub(super) fn relative_to(&mut self, folder: &Path) {
        self.0.iter_mut().for_each(|path| path.relative_to(folder));
    }
}

impl Setting for FilePaths {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "path or list of paths".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let paths = texts::<Self>(value)?.into_iter().filter(|text| !text.is_empty());
        paths.map(|text| FilePath::from_toml(&DeValue::String(text.into()), range)).collect::<Result<_, _>>().map(Self)
    }

    fn to_toml(&self) -> String {
        format!("[{}]", self.0.iter().map(Setting::to_toml).collect::<Vec<_>>().join(", "))
    }
}

impl Choice for ClientCertificates {
    const CHOICES: &'static [(&'static str, ClientCertificates)] = &[
        ("none", ClientCertificates::None),
        ("optional", ClientCertificates::Optional),
        ("required", ClientCertificates::Required),
    ];
}

impl Choice for MinimumVersion {
    const CHOICES: &'static [(&'static str, MinimumVersion)] =
        &[("1.2", MinimumVersion::Tls12), ("1.3", MinimumVersion::Tls13)];
}

impl Setting for CipherSuites {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        let names: Vec<_> = CipherSuites::known().into_iter().map(quoted).collect();
        format!("list of {}", names.join(", "))
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        CipherSuites::of(texts::<Self>(value)?).map_err(|unknown| {
            ValueError::Range(format!(
                "\"{}\" is not a supported cipher suite; supported are {}",
                unknown.escape_debug(),
                CipherSuites::known().join(", ")
            ))
        })
    }

    fn to_toml(&self) -> String {
        format!("[{}]", self.names().iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "))
    }
}
