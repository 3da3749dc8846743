//! An authority for development. All of it follows from its key: its name, too, so that the key alone is enough to go on with.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData as _,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use sha2::{Digest as _, Sha256};

use super::error::CertificateError;
use super::names::{COMMON_NAME_MAX_CHARACTERS, ClientName, ServerName};
use crate::time::UtcTime;

/// How long something holds. Clocks of other machines may be behind, so it begins an hour early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    from_unix_s: u64,
    to_unix_s: u64,
}

impl Validity {
    const EARLY_S: u64 = 3_600;
    const DAY_S: i64 = 86_400;
    /// 9999-12-31T23:59:59Z, the last moment that a certificate can name.
    const LAST_UNIX_S: u64 = 253_402_300_799;

    /// So many days from now on; fewer than none for what has expired.
    pub(crate) fn days(now: SystemTime, days: i32) -> Validity {
        let now_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let to_unix_s = now_s.saturating_add_signed(i64::from(days) * Self::DAY_S).min(Self::LAST_UNIX_S);
        Validity { from_unix_s: now_s.min(to_unix_s).saturating_sub(Self::EARLY_S), to_unix_s }
    }

    /// Its last day, for example `2026-12-31`.
    pub(super) fn last_day(self) -> String {
        let last = UtcTime::from_unix(self.to_unix_s, 0);
        format!("{:04}-{:02}-{:02}", last.year, last.month, last.day)
    }
}

/// A certificate and its key, in PEM.
pub(crate) struct CertifiedKey {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// An authority: its key, and what signs with it.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// There are no random numbers.
    pub(crate) fn generate() -> Result<Authority, CertificateError> {
        Ok(Authority::of(KeyPair::generate().map_err(CertificateError::making)?))
    }

    /// The one whose key this is, in PEM.
    ///
    /// # Errors
    /// It is no key.
    pub(crate) fn from_key(pem: &str) -> Result<Authority, rcgen::Error> {
        KeyPair::from_pem(pem).map(Authority::of)
    }

    fn of(key: KeyPair) -> Authority {
        let params = authority_params(&key);
        Authority { issuer: Issuer::new(params, key) }
    }

    /// Its certificate and its key.
    pub(crate) fn certificate(&self, validity: Validity) -> Result<CertifiedKey, CertificateError> {
        let key = self.issuer.key();
        let mut params = authority_params(key);
        set_validity(&mut params, validity);
        let certificate = params.self_signed(key).map_err(CertificateError::making)?;
        Ok(made(&certificate, key))
    }

    /// A certificate for a server of these names.
    pub(crate) fn issue_to_server(
        &self,
        names: &[ServerName],
        validity: Validity,
    ) -> Result<CertifiedKey, CertificateError> {
        let names_of_it = names.iter().map(ServerName::to_alternative_name).collect::<Result<Vec<_>, _>>();
        let mut params = CertificateParams::default();
        params.subject_alt_names = names_of_it.map_err(CertificateError::making)?;
        let common_name = names.first().map(ToString::to_string);
        let common_name = common_name.filter(|name| name.len() <= COMMON_NAME_MAX_CHARACTERS);
        params.distinguished_name = named(common_name.as_deref().unwrap_or("broker"));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params, validity)
    }

    /// A certificate for a client.
    pub(crate) fn issue_to_client(
        &self,
        name: &ClientName,
        validity: Validity,
    ) -> Result<CertifiedKey, CertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name.as_str());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, validity)
    }

    fn issue(&self, mut params: CertificateParams, validity: Validity) -> Result<CertifiedKey, CertificateError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, validity);
        let key = KeyPair::generate().map_err(CertificateError::making)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(CertificateError::making)?;
        Ok(made(&certificate, &key))
    }

    /// What its name and its key are in a certificate.
    pub(super) fn public_key_info(&self) -> Vec<u8> {
        self.issuer.key().subject_public_key_info()
    }

    pub(super) fn name(&self) -> String {
        name_of(self.issuer.key())
    }

    /// A list, in PEM, that revokes its own certificates of these numbers, and no others.
    pub(super) fn revoke(&self, serials: &[Vec<u8>], validity: Validity) -> Result<String, CertificateError> {
        let mut times = CertificateParams::default();
        set_validity(&mut times, validity);
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: times.not_before,
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: times.not_before,
            next_update: times.not_after,
            crl_number: SerialNumber::from(validity.from_unix_s),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).and_then(|list| list.pem()).map_err(CertificateError::making)
    }
}

fn name_of(key: &KeyPair) -> String {
    const NAME_BYTES: usize = 4;
    let digest = Sha256::digest(key.subject_public_key_info());
    let name: String = digest.iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("Tautwire development authority {name}")
}

fn authority_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(name_of(key));
    // It issues certificates of servers and clients, and no authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(common_name: impl Into<String>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name.into());
    name
}

fn set_validity(params: &mut CertificateParams, validity: Validity) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(validity.from_unix_s);
    params.not_after = epoch + Duration::from_secs(validity.to_unix_s);
}

fn made(certificate: &Certificate, key: &KeyPair) -> CertifiedKey {
    CertifiedKey { certificate: certificate.pem(), key: key.serialize_pem() }
}
