//! What is asked for, and carrying it out: all is looked at before the first file is written.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::authority::{Authority, Validity};
use super::error::CertificateError;
use super::folder::{CertificateFiles, ExistingFiles, Folder, refuse_existing, write};
use super::names::{ClientName, ServerName, default_names};

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) folder: Folder,
    /// Those of the server. With none, a server that is there is kept.
    pub(crate) names: Vec<ServerName>,
    pub(crate) clients: Vec<ClientName>,
    /// Certificates that are to be on the list of revoked ones.
    pub(crate) revoke: Vec<PathBuf>,
    pub(crate) days: i32,
    pub(crate) authority_days: i32,
    pub(crate) existing: ExistingFiles,
}

/// What was done, for whoever asked.
#[derive(Debug, Default)]
pub(crate) struct IssueReport {
    /// Files, each with what it is for.
    pub(crate) files: Vec<(PathBuf, String)>,
    /// The broker can be told of these.
    pub(crate) server: Option<CertificateFiles>,
}

impl Request {
    /// Makes what is missing of what is asked for.
    ///
    /// # Errors
    /// Files that are there, or that do not fit; what the system refuses.
    pub(crate) fn carry_out(&self, now: SystemTime) -> Result<IssueReport, CertificateError> {
        let Request { folder, .. } = self;
        let known = folder.authority(now)?;
        if known.is_none() && !self.revoke.is_empty() {
            let path = folder.pair("ca").key;
            return Err(CertificateError::file(&path, "cert_no_authority", "there is no authority that could revoke"));
        }
        let serials = self.revoke.iter().map(|path| folder.serial_of_issued(path)).collect::<Result<Vec<_>, _>>()?;
        let server = self.requested_server(now)?;
        if self.existing == ExistingFiles::Keep {
            let clients = self.clients.iter().map(|name| folder.pair(name.as_str())).collect::<Vec<_>>();
            refuse_existing(&clients.iter().flat_map(CertificateFiles::files).collect::<Vec<_>>())?;
            if !serials.is_empty() {
                refuse_existing(&[&folder.revoked()])?;
            }
        }

        folder.make()?;
        let mut done = IssueReport::default();
        let authority = self.authority(known, now, &mut done)?;
        let validity = Validity::days(now, self.days);
        match server {
            ServerCertificate::NotRequested => {}
            ServerCertificate::Existing { until } => done.keep_existing(folder.pair("server"), &until),
            ServerCertificate::Requested(names) => {
                let pair = folder.pair("server");
                pair.write(&authority.issue_to_server(&names, validity)?, self.existing)?;
                let names = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                done.pair(&pair, format!("the broker's certificate, for {names}; until {}", validity.last_day()));
                done.server = Some(pair);
            }
        }
        for name in &self.clients {
            let pair = folder.pair(name.as_str());
            pair.write(&authority.issue_to_client(name, validity)?, self.existing)?;
            done.pair(&pair, format!("a client's certificate; until {}", validity.last_day()));
        }
        if !serials.is_empty() {
            let path = folder.revoked();
            write(&path, authority.revoke(&serials, validity)?.as_bytes(), false, self.existing)?;
            done.files.push((path, format!("for tls.revoked; until {}", validity.last_day())));
        }
        Ok(done)
    }

    fn authority(
        &self,
        known: Option<Authority>,
        now: SystemTime,
        done: &mut IssueReport,
    ) -> Result<Authority, CertificateError> {
        let pair = self.folder.pair("ca");
        let validity = Validity::days(now, self.authority_days);
        let what = format!("the authority: clients are to trust it; until {}", validity.last_day());
        match known {
            Some(authority) if pair.certificate.exists() => Ok(authority),
            Some(authority) => {
                let made = authority.certificate(validity)?;
                write(&pair.certificate, made.certificate.as_bytes(), false, ExistingFiles::Keep)?;
                done.files.push((pair.certificate, what));
                Ok(authority)
            }
            None => {
                let authority = Authority::generate()?;
                pair.write(&authority.certificate(validity)?, ExistingFiles::Keep)?;
                done.files.push((pair.certificate, what));
                done.files.push((pair.key, "its key: whoever has it can be anybody; give it to nobody".to_owned()));
                Ok(authority)
            }
        }
    }

    fn requested_server(&self, now: SystemTime) -> Result<ServerCertificate, CertificateError> {
        let pair = self.folder.pair("server");
        let [certificate, key] = pair.files().map(Path::exists);
        if !certificate && !key {
            let asks_for_it = !self.names.is_empty() || self.revoke.is_empty();
            return Ok(if asks_for_it {
                ServerCertificate::Requested(self.names_or_default())
            } else {
                ServerCertificate::NotRequested
            });
        }
        if self.names.is_empty() && !(self.clients.is_empty() && self.revoke.is_empty()) {
            return Ok(ServerCertificate::NotRequested);
        }
        if self.existing == ExistingFiles::Replace {
            return Ok(ServerCertificate::Requested(self.names_or_default()));
        }
        if !self.names.is_empty() || !certificate || !key {
            refuse_existing(&pair.files())?;
        }
        Ok(ServerCertificate::Existing { until: self.folder.check(&pair.certificate, now)? })
    }

    fn names_or_default(&self) -> Vec<ServerName> {
        if self.names.is_empty() { default_names() } else { self.names.clone() }
    }
}

/// What becomes of the server's certificate.
enum ServerCertificate {
    NotRequested,
    Existing { until: String },
    Requested(Vec<ServerName>),
}

impl IssueReport {
    fn pair(&mut self, pair: &CertificateFiles, what: String) {
        self.files.push((pair.certificate.clone(), what));
        self.files.push((pair.key.clone(), "its key".to_owned()));
    }

    fn keep_existing(&mut self, pair: CertificateFiles, until: &str) {
        let what = format!("the broker's certificate is there already; until {until}; --force makes a new one");
        self.files.push((pair.certificate.clone(), what));
        self.server = Some(pair);
    }
}
