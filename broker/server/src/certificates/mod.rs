//! A development authority and its certificates in a folder, as created by `tautwire cert`.

mod authority;
mod chain;
mod der;
mod error;
mod folder;
mod names;
mod request;

pub(crate) use chain::completed_chain;
pub(crate) use der::not_after_unix_s;
pub(crate) use folder::{CertificateFiles, ExistingFiles, Folder};
pub(crate) use names::{ClientName, ServerName};
pub(crate) use request::Request;
