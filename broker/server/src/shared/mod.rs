//! What all nodes of a cluster share, by revision: access rules, users, contracts and bans (`docs/decisions/0035-one-configuration.md`). A part that is
//! shared stands in place of the node's own file. A broker that is alone shares nothing.

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

/// A revision.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    /// From 1; 0 where there is none yet.
    pub(crate) number: u64,
    pub(crate) parts: Parts,
}

/// What a revision says. A part that it does not have is each node's own.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// In place of `acl.file`.
    pub(crate) acl: Option<String>,
    /// In place of `auth.password_file`.
    pub(crate) users: Option<String>,
    /// In place of the folder `contracts.path`.
    pub(crate) contracts: Option<Files>,
    /// Beside those that rules have made on a node.
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

    /// The part of this name.
    pub(crate) fn of(name: &str) -> Option<Part> {
        Part::ALL.into_iter().find(|part| part.name() == name)
    }

    /// What messages call it, where a file has its path.
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
    /// Without the texts, which may be users.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Parts {
    /// The names of those that are there.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let is_there = [self.acl.is_some(), self.users.is_some(), self.contracts.is_some(), self.bans.is_some()];
        Part::ALL.into_iter().zip(is_there).filter(|(_, is_there)| *is_there).map(|(part, _)| part.name())
    }

    /// The users, where they are shared.
    ///
    /// # Errors
    /// Everything that is wrong with them, a line each.
    pub(crate) fn users(&self) -> Result<Option<Arc<PasswordFile>>, Vec<String>> {
        self.users.as_deref().map(|text| parse_users(Part::Users.file(), text)).transpose()
    }

    /// The bans that are shared.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn bans(&self) -> Result<Vec<Ban>, Vec<String>> {
        let wrong = |why| vec![format!("{}: {why} [bans_file]", Part::Bans.file())];
        self.bans.as_deref().map_or(Ok(Vec::new()), ban_file::parse).map_err(wrong)
    }

    /// The parts that are one text each.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (Part, &str)> {
        let texts = [(Part::Acl, &self.acl), (Part::Users, &self.users), (Part::Bans, &self.bans)];
        texts.into_iter().filter_map(|(part, text)| Some((part, text.as_deref()?)))
    }

    /// The contracts, where they are shared.
    ///
    /// # Errors
    /// Everything that is wrong with them, a line each.
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
    fn nothing_of_a_part_is_shown_by_debug() {
        let parts = Parts { users: Some("ann:geheim".to_owned()), ..Parts::default() };
        assert_eq!(format!("{:?}", Shared { number: 3, parts }), r#"Shared { number: 3, parts: ["users"] }"#);
    }

    #[test]
    fn what_is_wrong_with_a_part_names_it() {
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
