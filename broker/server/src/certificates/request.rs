//! A certificate request, and its execution: everything is checked before the first file is written.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::authority::{Authority, Validity};
use super::error::CertificateError;
use super::folder::{CertificateFiles, ExistingFiles, Folder, refuse_existing, write};
use super::names::{ClientName, ServerName, default_names};

/// A request for certificates.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) folder: Folder,
    /// The names of the server. If empty, an existing server certificate is kept.
    pub(crate) names: Vec<ServerName>,
    pub(crate) clients: Vec<ClientName>,
    /// Certificates to revoke.
    pub(crate) revoke: Vec<PathBuf>,
    pub(crate) days: i32,
    pub(crate) authority_days: i32,
    pub(crate) existing: ExistingFiles,
}

/// The files written for a request.
#[derive(Debug, Default)]
pub(crate) struct IssueReport {
    /// The files with their purpose.
    pub(crate) files: Vec<(PathBuf, String)>,
    /// The certificate of the broker, for its configuration.
    pub(crate) server: Option<CertificateFiles>,
}

impl Request {
    /// Issues the missing certificates.
    ///
    /// # Errors
    /// A file exists already, does not fit, or cannot be written.
    pub(crate) fn carry_out(&self, now: SystemTime) -> Result<IssueReport, CertificateError> {
        let Request { folder, .. } = self;
        let known = folder.authority(now)?;
        if known.is_none() && !self.revoke.is_empty() {
            let path = folder.pair("ca").key;
            return Err(CertificateError::file(
                &path,
                "cert_no_authority",
                "the folder has no authority that could revoke certificates",
            ));
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

        folder.create()?;
        let mut report = IssueReport::default();
        let authority = self.authority(known, now, &mut report)?;
        let validity = Validity::days(now, self.days);
        match server {
            ServerCertificate::NotRequested => {}
            ServerCertificate::Existing { until } => report.keep_existing(folder.pair("server"), &until),
            ServerCertificate::Requested(names) => {
                let pair = folder.pair("server");
                pair.write(&authority.issue_to_server(&names, validity)?, self.existing)?;
                let names = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                report.add_pair(
                    &pair,
                    format!("the broker's certificate for {names}, valid until {}", validity.last_day()),
                );
                report.server = Some(pair);
            }
        }
        for name in &self.clients {
            let pair = folder.pair(name.as_str());
            pair.write(&authority.issue_to_client(name, validity)?, self.existing)?;
            report.add_pair(&pair, format!("a client certificate, valid until {}", validity.last_day()));
        }
        if !serials.is_empty() {
            let path = folder.revoked();
            write(&path, authority.revoke(&serials, validity)?.as_bytes(), false, self.existing)?;
            report.files.push((path, format!("for tls.crl, valid until {}", validity.last_day())));
        }
        Ok(report)
    }

    fn authority(
        &self,
        known: Option<Authority>,
        now: SystemTime,
        report: &mut IssueReport,
    ) -> Result<Authority, CertificateError> {
        let pair = self.folder.pair("ca");
        let validity = Validity::days(now, self.authority_days);
        let purpose = format!("the authority for clients to trust, valid until {}", validity.last_day());
        match known {
            Some(authority) if pair.certificate.exists() => Ok(authority),
            Some(authority) => {
                let certified = authority.certificate(validity)?;
                write(&pair.certificate, certified.certificate.as_bytes(), false, ExistingFiles::Keep)?;
                report.files.push((pair.certificate, purpose));
                Ok(authority)
            }
            None => {
                let authority = Authority::generate()?;
                pair.write(&authority.certificate(validity)?, ExistingFiles::Keep)?;
                report.files.push((pair.certificate, purpose));
                report.files.push((
                    pair.key,
                    "its private key: keep it secret, it can issue a certificate for any name".to_owned(),
                ));
                Ok(authority)
            }
        }
    }

    fn requested_server(&self, now: SystemTime) -> Result<ServerCertificate, CertificateError> {
        let pair = self.folder.pair("server");
        let [certificate, key] = pair.files().map(Path::exists);
        if !certificate && !key {
            let is_requested = !self.names.is_empty() || self.revoke.is_empty();
            return Ok(if is_requested {
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

/// What to do with the server certificate.
enum ServerCertificate {
    NotRequested,
    Existing { until: String },
    Requested(Vec<ServerName>),
}

impl IssueReport {
    fn add_pair(&mut self, pair: &CertificateFiles, purpose: String) {
        self.files.push((pair.certificate.clone(), purpose));
        self.files.push((pair.key.clone(), "its private key".to_owned()));
    }

    fn keep_existing(&mut self, pair: CertificateFiles, until: &str) {
        let purpose = format!("the broker's existing certificate, valid until {until}; use --force to issue a new one");
        self.files.push((pair.certificate.clone(), purpose));
        self.server = Some(pair);
    }
}
