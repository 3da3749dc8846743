//! A certificate authority for development. Everything, including its name, is derived from its key, so the key alone restores it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData as _,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use ring::digest::{SHA256, digest};

use super::error::CertificateError;
use super::names::{COMMON_NAME_MAX_CHARACTERS, ClientName, ServerName};
use crate::time::UtcTime;

/// A validity period. It starts an hour early, since the clocks of other machines may be behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    from_unix_s: u64,
    to_unix_s: u64,
}

impl Validity {
    const EARLY_S: u64 = 3_600;
    const DAY_S: i64 = 86_400;
    /// 9999-12-31T23:59:59Z, the last representable time in a certificate.
    const LAST_UNIX_S: u64 = 253_402_300_799;

    /// A period of this many days from now; negative for one that has expired.
    pub(crate) fn days(now: SystemTime, days: i32) -> Validity {
        let now_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let to_unix_s = now_s.saturating_add_signed(i64::from(days) * Self::DAY_S).min(Self::LAST_UNIX_S);
        Validity { from_unix_s: now_s.min(to_unix_s).saturating_sub(Self::EARLY_S), to_unix_s }
    }

    /// The last day, for example `2026-12-31`.
    pub(super) fn last_day(self) -> String {
        let last = UtcTime::from_unix(self.to_unix_s, 0);
        format!("{:04}-{:02}-{:02}", last.year, last.month, last.day)
    }
}

/// A certificate and its private key, in PEM.
pub(crate) struct CertifiedKey {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A certificate authority, which signs with its key.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Generates a new authority.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub(crate) fn generate() -> Result<Authority, CertificateError> {
        Ok(Authority::of(KeyPair::generate().map_err(CertificateError::generation)?))
    }

    /// Restores an authority from its private key, in PEM.
    ///
    /// # Errors
    /// The PEM has no valid key.
    pub(crate) fn from_key(pem: &str) -> Result<Authority, rcgen::Error> {
        KeyPair::from_pem(pem).map(Authority::of)
    }

    fn of(key: KeyPair) -> Authority {
        let params = authority_params(&key);
        Authority { issuer: Issuer::new(params, key) }
    }

    /// The certificate and the private key of the authority.
    pub(crate) fn certificate(&self, validity: Validity) -> Result<CertifiedKey, CertificateError> {
        let key = self.issuer.key();
        let mut params = authority_params(key);
        set_validity(&mut params, validity);
        let certificate = params.self_signed(key).map_err(CertificateError::generation)?;
        Ok(to_pem(&certificate, key))
    }

    /// Issues a certificate for a server with these names.
    pub(crate) fn issue_to_server(
        &self,
        names: &[ServerName],
        validity: Validity,
    ) -> Result<CertifiedKey, CertificateError> {
        let alternative_names = names.iter().map(ServerName::to_alternative_name).collect::<Result<Vec<_>, _>>();
        let mut params = CertificateParams::default();
        params.subject_alt_names = alternative_names.map_err(CertificateError::generation)?;
        let common_name = names.first().map(ToString::to_string);
        let common_name = common_name.filter(|name| name.len() <= COMMON_NAME_MAX_CHARACTERS);
        params.distinguished_name = distinguished_name(common_name.as_deref().unwrap_or("broker"));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params, validity)
    }

    /// Issues a certificate for a client.
    pub(crate) fn issue_to_client(
        &self,
        name: &ClientName,
        validity: Validity,
    ) -> Result<CertifiedKey, CertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(name.as_str());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, validity)
    }

    fn issue(&self, mut params: CertificateParams, validity: Validity) -> Result<CertifiedKey, CertificateError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, validity);
        let key = KeyPair::generate().map_err(CertificateError::generation)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(CertificateError::generation)?;
        Ok(to_pem(&certificate, &key))
    }

    /// The SubjectPublicKeyInfo of its key.
    pub(super) fn public_key_info(&self) -> Vec<u8> {
        self.issuer.key().subject_public_key_info()
    }

    pub(super) fn name(&self) -> String {
        name_of(self.issuer.key())
    }

    /// A revocation list, in PEM, of certificates of this authority with these serial numbers.
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
        list.signed_by(&self.issuer).and_then(|list| list.pem()).map_err(CertificateError::generation)
    }
}

fn name_of(key: &KeyPair) -> String {
    const NAME_BYTES: usize = 4;
    let digest = digest(&SHA256, &key.subject_public_key_info());
    let name: String = digest.as_ref().iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("Tautwire development authority {name}")
}

fn authority_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name(name_of(key));
    // It may issue certificates for servers and clients, but not for other authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn distinguished_name(common_name: impl Into<String>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name.into());
    name
}

fn set_validity(params: &mut CertificateParams, validity: Validity) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(validity.from_unix_s);
    params.not_after = epoch + Duration::from_secs(validity.to_unix_s);
}

fn to_pem(certificate: &Certificate, key: &KeyPair) -> CertifiedKey {
    CertifiedKey { certificate: certificate.pem(), key: key.serialize_pem() }
}
