//! The shared configuration of a cluster, by revision: access rules, users, contracts and bans
//! (`docs/decisions/0035-one-configuration.md`). A shared part replaces the node's own file. A broker without a cluster shares nothing.

mod change;
mod summary;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tautwire_contracts::{Catalogue, Files, LoadLimits};
use tautwire_identity::{Ban, PasswordFile};

pub(crate) use change::RevisionChanges;
pub(crate) use summary::{content, summary};

use crate::contracts;
use crate::identity::{ban_file, parse_users};

/// A revision of the shared configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    /// Counted from 1; 0 if there is none yet.
    pub(crate) number: u64,
    pub(crate) parts: Parts,
}

/// The parts of a revision. A missing part is configured on each node.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Replaces `acl.file`.
    pub(crate) acl: Option<String>,
    /// Replaces `auth.password_file`.
    pub(crate) users: Option<String>,
    /// Replaces the folder `contracts.path`.
    pub(crate) contracts: Option<Files>,
    /// In addition to those that ban rules created on a node.
    pub(crate) bans: Option<String>,
}

/// The name of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Acl,
    Users,
    Contracts,
    Bans,
}

impl Part {
    pub(crate) const ALL: [Part; 4] = [Part::Acl, Part::Users, Part::Contracts, Part::Bans];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Acl => "acl",
            Part::Users => "users",
            Part::Contracts => "contracts",
            Part::Bans => "bans",
        }
    }

    /// The part with this name.
    pub(crate) fn of(name: &str) -> Option<Part> {
        Part::ALL.into_iter().find(|part| part.name() == name)
    }

    /// Its name in messages, in the position of a path.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Part::Acl => "cluster/acl",
            Part::Users => "cluster/users",
            Part::Contracts => "cluster/contracts",
            Part::Bans => "cluster/bans",
        }
    }
}

impl fmt::Debug for Parts {
    /// Omits the texts, which may be password hashes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Parts {
    /// The names of the parts that are present.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let is_present = [self.acl.is_some(), self.users.is_some(), self.contracts.is_some(), self.bans.is_some()];
        Part::ALL.into_iter().zip(is_present).filter(|(_, is_present)| *is_present).map(|(part, _)| part.name())
    }

    /// The shared users, if any.
    ///
    /// # Errors
    /// All errors, one line each.
    pub(crate) fn users(&self) -> Result<Option<Arc<PasswordFile>>, Vec<String>> {
        self.users.as_deref().map(|text| parse_users(Part::Users.file(), text)).transpose()
    }

    /// The shared bans.
    ///
    /// # Errors
    /// A description of the error.
    pub(crate) fn bans(&self) -> Result<Vec<Ban>, Vec<String>> {
        let wrong = |why| vec![format!("{}: {why} [bans_file]", Part::Bans.file())];
        self.bans.as_deref().map_or(Ok(Vec::new()), ban_file::parse).map_err(wrong)
    }

    /// The parts that consist of a single text.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (Part, &str)> {
        let texts = [(Part::Acl, &self.acl), (Part::Users, &self.users), (Part::Bans, &self.bans)];
        texts.into_iter().filter_map(|(part, text)| Some((part, text.as_deref()?)))
    }

    /// The shared contracts, if any.
    ///
    /// # Errors
    /// All errors, one line each.
    pub(crate) fn contracts(&self) -> Result<Option<Catalogue>, Vec<String>> {
        let load = |files| {
            let folder = Path::new(Part::Contracts.file());
            Catalogue::load(files, &LoadLimits::default()).map_err(|errors| contracts::format_errors(folder, &errors))
        };
        self.contracts.as_ref().map(load).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_has_no_content() {
        let parts = Parts { users: Some("ann:geheim".to_owned()), ..Parts::default() };
        assert_eq!(format!("{:?}", Shared { number: 3, parts }), r#"Shared { number: 3, parts: ["users"] }"#);
    }

    #[test]
    fn an_error_names_its_part() {
        let text = |text: &str| Some(text.to_owned());
        let manifest = ("contracts.toml".to_owned(), "x".to_owned());
        let parts = Parts { users: text("geheim"), contracts: Some([manifest].into()), ..Parts::default() };
        let summary = parts.users().expect_err("wrong").join("\n");
        assert!(summary.starts_with("cluster/users:1: ") && !summary.contains("geheim"), "{summary}");
        let summary = parts.contracts().expect_err("wrong").join("\n");
        assert!(summary.starts_with("cluster/contracts/contracts.toml:1:"), "{summary}");
    }

    #[test]
    fn parts_have_names() {
        assert!(Part::ALL.into_iter().all(|part| Part::of(part.name()) == Some(part)));
        assert_eq!(Part::of("rules"), None);
    }
}
