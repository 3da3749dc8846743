//! The fields of a certificate that name its holder.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::fmt::Write as _;

use ring::digest::{SHA256, digest};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::{DirectoryString, GeneralName};

use crate::limits::{CERTIFICATE_BYTES_MAX, CERTIFICATE_NAMES_MAX, USER_NAME_BYTES_MAX};
use crate::{Certificate, Now};

macro_rules! fields {
    ($($variant:ident = $name:literal;)*) => {
        /// A field of a certificate that names its holder.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Field { $($variant,)* }

        impl Field {
            pub(crate) const ALL: &'static [Field] = &[$(Field::$variant),*];

            /// Its name in rules, and as a claim.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Field::$variant => $name,)* }
            }
        }
    };
}

fields! {
    CommonName = "cn";
    Organisation = "o";
    OrganisationalUnit = "ou";
    Dns = "dns";
    Email = "email";
    Uri = "uri";
    Ip = "ip";
    AlternativeName = "san";
    Issuer = "issuer";
    Serial = "serial";
    Fingerprint = "fingerprint";
}

impl Field {
    /// Whether a name in this field is one of `other`.
    fn is(self, other: Field) -> bool {
        let is_alternative = matches!(self, Field::Dns | Field::Email | Field::Uri | Field::Ip);
        self == other || (other == Field::AlternativeName && is_alternative)
    }
}

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANISATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
const ORGANISATIONAL_UNIT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.11");

/// The fields of a certificate: names of its subject (`cn`, `o`, `ou`), alternative names (`dns`, `email`, `uri`, `ip`, or any of them as
/// `san`), the common name of its issuer (`issuer`), its serial number and the SHA-256 of the whole (`serial`, `fingerprint`, in lower-case
/// hexadecimal).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateFields(Vec<(Field, String)>);

impl CertificateFields {
    /// Reads a certificate in DER. Names that no MQTT client could have are skipped: empty ones, long ones, and those with control
    /// characters, by which one name could be mistaken for another.
    #[must_use]
    pub fn read(der: &[u8]) -> Option<CertificateFields> {
        if der.len() > CERTIFICATE_BYTES_MAX {
            return None;
        }
        let certificate = CertificateInner::<Raw>::from_der(der).ok()?;
        let certificate = certificate.tbs_certificate();
        let mut fields = CertificateFields::default();
        for attribute in certificate.subject().iter() {
            let field = match attribute.oid {
                COMMON_NAME => Field::CommonName,
                ORGANISATION => Field::Organisation,
                ORGANISATIONAL_UNIT => Field::OrganisationalUnit,
                _ => continue,
            };
            fields.add(field, text(attribute).unwrap_or_default());
        }
        for attribute in certificate.issuer().iter().filter(|attribute| attribute.oid == COMMON_NAME) {
            fields.add(Field::Issuer, text(attribute).unwrap_or_default());
        }
        if let Ok(Some((_, SubjectAltName(names)))) = certificate.get_extension::<SubjectAltName>() {
            for name in names {
                match name {
                    GeneralName::DnsName(name) => fields.add(Field::Dns, name.as_str().to_owned()),
                    GeneralName::Rfc822Name(name) => fields.add(Field::Email, name.as_str().to_owned()),
                    GeneralName::UniformResourceIdentifier(name) => fields.add(Field::Uri, name.as_str().to_owned()),
                    GeneralName::IpAddress(bytes) => fields.add(Field::Ip, ip(bytes.as_bytes()).unwrap_or_default()),
                    _ => {}
                }
            }
        }
        fields.add(Field::Serial, hexadecimal(certificate.serial_number().as_bytes()));
        fields.add(Field::Fingerprint, hexadecimal(digest(&SHA256, der).as_ref()));
        Some(fields)
    }

    /// The fields of a certificate.
    pub(crate) fn of(certificate: &Certificate) -> Option<CertificateFields> {
        match certificate {
            Certificate::Der(der) => CertificateFields::read(der),
            Certificate::CommonName(name) => {
                let mut fields = CertificateFields::default();
                fields.add(Field::CommonName, name.to_string());
                Some(fields)
            }
        }
    }

    fn add(&mut self, field: Field, value: String) {
        let is_usable = !value.is_empty() && value.len() <= USER_NAME_BYTES_MAX && !value.chars().any(char::is_control);
        let is_own = matches!(field, Field::Serial | Field::Fingerprint);
        if is_usable && (is_own || self.0.len() < CERTIFICATE_NAMES_MAX) {
            self.0.push((field, value));
        }
    }

    /// The values of a field, in the order of the certificate.
    pub(crate) fn values(&self, field: Field) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known.is(field)).map(|(_, value)| &**value)
    }

    /// All fields, as names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(field, value)| (field.name(), &**value))
    }
}

impl Certificate {
    /// Whether it has expired. TLS checks this only when a client presents its certificate; a resumed session presents none.
    pub(crate) fn has_expired(&self, now: Now) -> bool {
        match self {
            Certificate::Der(der) => not_after_unix_s(der).is_some_and(|until_s| until_s < now.unix_s),
            // The proxy has checked it.
            Certificate::CommonName(_) => false,
        }
    }
}

fn not_after_unix_s(der: &[u8]) -> Option<u64> {
    let certificate = CertificateInner::<Raw>::from_der(der).ok()?;
    Some(certificate.tbs_certificate().validity().not_after.to_unix_duration().as_secs())
}

fn text(attribute: &AttributeTypeAndValue) -> Option<String> {
    DirectoryString::try_from(&attribute.value).ok().map(|text| text.value().into_owned())
}

fn ip(bytes: &[u8]) -> Option<String> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).to_string());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).to_string())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
