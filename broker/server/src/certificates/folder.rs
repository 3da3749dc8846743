//! The files of an authority in its folder.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::authority::{Authority, CertifiedKey};
use super::der::{Fields, fields};
use super::error::CertificateError;
use crate::files;
use crate::time::UtcTime;

/// Largest accepted file.
const FILE_MAX_BYTES: usize = 1 << 20;

/// The folder of an authority and its certificates.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

/// The paths of a certificate and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Whether existing files are overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingFiles {
    Keep,
    Replace,
}

impl Folder {
    pub(crate) fn at(path: PathBuf) -> Folder {
        Folder(path)
    }

    /// The paths for this name.
    pub(crate) fn pair(&self, name: &str) -> CertificateFiles {
        CertificateFiles { certificate: self.file(&format!("{name}.pem")), key: self.file(&format!("{name}.key")) }
    }

    pub(crate) fn revoked(&self) -> PathBuf {
        self.file("revoked.pem")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn create(&self) -> Result<(), CertificateError> {
        fs::create_dir_all(&self.0).map_err(|error| {
            CertificateError::file(&self.0, "cert_folder", format!("cannot create the folder: {error}"))
        })
    }

    /// Loads the authority of the folder, if it has one. Its certificate is checked if it exists.
    pub(super) fn authority(&self, now: SystemTime) -> Result<Option<Authority>, CertificateError> {
        let CertificateFiles { certificate, key } = self.pair("ca");
        if !key.exists() {
            return match certificate.exists() {
                false => Ok(None),
                true => Err(CertificateError::file(
                    &key,
                    "cert_authority_key",
                    "the key of the authority is missing; restore it, or choose another folder with --dir",
                )),
            };
        }
        let authority = Authority::from_key(&text(&key)?).map_err(|error| {
            CertificateError::file(&key, "cert_authority_key", format!("not a private key in PEM: {error}"))
        })?;
        if certificate.exists() {
            let der = certificate_of(&certificate)?;
            let found = read(&certificate, &der)?;
            let is_ours = found.public_key_info == authority.public_key_info()
                && contains(found.subject, authority.name().as_bytes());
            if !is_ours {
                let what = format!("not the certificate of an authority created by tautwire with {}", key.display());
                return Err(CertificateError::file(&certificate, "cert_authority", what));
            }
            if has_expired(&found, now) {
                let what = format!(
                    "the authority has expired ({}); remove the file to create a new certificate, and distribute that to clients",
                    day(&found)
                );
                return Err(CertificateError::file(&certificate, "cert_authority_expired", what));
            }
        }
        Ok(Some(authority))
    }

    /// The serial number of a certificate issued by the authority of this folder.
    pub(super) fn serial_of_issued(&self, path: &Path) -> Result<Vec<u8>, CertificateError> {
        let der = certificate_of(path)?;
        let found = read(path, &der)?;
        self.check_issuer(path, &found)?;
        Ok(found.serial.to_vec())
    }

    /// Checks that the authority of this folder issued the certificate at `path` and that it is valid. Returns its last day.
    pub(super) fn check(&self, path: &Path, now: SystemTime) -> Result<String, CertificateError> {
        let der = certificate_of(path)?;
        let found = read(path, &der)?;
        self.check_issuer(path, &found)?;
        if has_expired(&found, now) {
            let what = format!("has expired ({}); use --force to issue a new one", day(&found));
            return Err(CertificateError::file(path, "cert_expired", what));
        }
        Ok(day(&found))
    }

    fn check_issuer(&self, path: &Path, found: &Fields<'_>) -> Result<(), CertificateError> {
        let authority_path = self.pair("ca").certificate;
        let authority = certificate_of(&authority_path)?;
        if read(&authority_path, &authority)?.subject == found.issuer {
            return Ok(());
        }
        let what =
            format!("was not issued by {}; give the folder of its authority with --dir", authority_path.display());
        Err(CertificateError::file(path, "cert_other_authority", what))
    }
}

impl CertificateFiles {
    pub(super) fn write(&self, issued: &CertifiedKey, existing: ExistingFiles) -> Result<(), CertificateError> {
        // The key first: a certificate without its key is useless, but for a key a new certificate can be issued.
        write(&self.key, issued.key.as_bytes(), true, existing)?;
        write(&self.certificate, issued.certificate.as_bytes(), false, existing)
    }

    pub(super) fn files(&self) -> [&Path; 2] {
        [&self.certificate, &self.key]
    }
}

/// Fails if any of the files exists.
pub(super) fn refuse_existing(files: &[&Path]) -> Result<(), CertificateError> {
    match files.iter().find(|path| path.exists()) {
        None => Ok(()),
        Some(path) => Err(exists(path)),
    }
}

fn exists(path: &Path) -> CertificateError {
    CertificateError::file(path, "cert_exists", "already exists; use --force to replace it")
}

/// Writes a file atomically. A private file is readable by its owner only.
pub(super) fn write(
    path: &Path,
    bytes: &[u8],
    is_private: bool,
    existing: ExistingFiles,
) -> Result<(), CertificateError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => CertificateError::file(path, "cert_write", format!("cannot write the file: {error}")),
    };
    match existing {
        ExistingFiles::Keep => create(path, bytes, is_private).map_err(failed),
        ExistingFiles::Replace => {
            let mut temporary = path.as_os_str().to_owned();
            temporary.push(format!(".{}", std::process::id()));
            let temporary = PathBuf::from(temporary);
            create(&temporary, bytes, is_private).and_then(|()| fs::rename(&temporary, path)).map_err(failed)
        }
    }
}

fn create(path: &Path, bytes: &[u8], is_private: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if is_private { 0o600 } else { 0o644 });
    #[cfg(not(unix))]
    let _ = is_private;
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn text(path: &Path) -> Result<String, CertificateError> {
    files::text(path, FILE_MAX_BYTES).map_err(|why| CertificateError::file(path, "cert_read", why.to_string()))
}

/// The first certificate of a file, in DER.
fn certificate_of(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let certificate = CertificateDer::from_pem_slice(text(path)?.as_bytes());
    certificate.map(|certificate| certificate.to_vec()).map_err(|_| not_a_certificate(path))
}

fn read<'a>(path: &Path, der: &'a [u8]) -> Result<Fields<'a>, CertificateError> {
    fields(der).ok_or_else(|| not_a_certificate(path))
}

fn not_a_certificate(path: &Path) -> CertificateError {
    let what = "has no certificate in PEM, which starts with \"-----BEGIN CERTIFICATE-----\"";
    CertificateError::file(path, "cert_read", what)
}

fn has_expired(found: &Fields<'_>, now: SystemTime) -> bool {
    let now: String = UtcTime::from(now).to_string().chars().filter(char::is_ascii_digit).collect();
    found.not_after.trim_end_matches('Z') < now.as_str()
}

/// The last valid day of a certificate.
fn day(found: &Fields<'_>) -> String {
    let part = |range| found.not_after.get(range).unwrap_or("?");
    format!("{}-{}-{}", part(0..4), part(4..6), part(6..8))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
