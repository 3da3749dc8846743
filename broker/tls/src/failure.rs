//! Why a connection cannot go on.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The peer does not speak TLS at all.
    NotTls,
    /// The peer and this server have no version, cipher suite, group or protocol in common.
    NothingInCommon,
    /// The peer showed no certificate, or one that is not accepted.
    Certificate,
    /// The peer does not accept this server's certificate.
    RefusedByPeer,
    /// The peer broke the rules of TLS, or somebody tampers with what it sends.
    Violation,
    /// Something that is this server's.
    Server,
}

impl Fault {
    /// A stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Fault::NotTls => "tls_not_spoken",
            Fault::NothingInCommon => "tls_nothing_in_common",
            Fault::Certificate => "tls_client_certificate",
            Fault::RefusedByPeer => "tls_refused_by_client",
            Fault::Violation => "tls_violation",
            Fault::Server => "tls_server",
        }
    }
}

/// Why a connection cannot go on. Where the peer can be told, an alert is among what is to be written.
#[derive(Debug, Clone)]
pub struct Failure {
    error: Error,
}

impl Failure {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match &self.error {
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType
                | InvalidMessage::UnknownProtocolVersion
                | InvalidMessage::MessageTooLarge,
            ) => Fault::NotTls,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Fault::NothingInCommon,
            Error::NoCertificatesPresented | Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => {
                Fault::Certificate
            }
            Error::AlertReceived(
                AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::AccessDenied,
            ) => Fault::RefusedByPeer,
            Error::AlertReceived(_)
            | Error::InvalidMessage(_)
            | Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. }
            | Error::PeerMisbehaved(_)
            | Error::DecryptError
            | Error::PeerSentOversizedRecord => Fault::Violation,
            _ => Fault::Server,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = self.fault();
        match (&self.error, fault) {
            (_, Fault::NotTls) => f.write_str("the client does not speak TLS; have it connect with mqtts:// or wss://")?,
            (Error::NoCertificatesPresented, _) => f.write_str("the client showed no certificate")?,
            (Error::InvalidCertificate(error), _) => match error {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    f.write_str("the client's certificate has expired")?;
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    f.write_str("the client's certificate is not valid yet")?;
                }
                CertificateError::Revoked => f.write_str("the client's certificate has been revoked")?,
                CertificateError::UnknownIssuer => {
                    f.write_str("the client's certificate was not issued by an authority of tls.client_ca")?;
                }
                CertificateError::UnknownRevocationStatus => f.write_str(
                    "no list in tls.revoked says whether the client's certificate has been revoked; add its authority's",
                )?,
                CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
                    f.write_str("a list in tls.revoked has expired; get the authority's newer one")?;
                }
                error => write!(f, "the client's certificate is not accepted: {error}")?,
            },
            (Error::NoApplicationProtocol, _) => {
                f.write_str("the client asks by ALPN for another protocol than MQTT is served by here")?;
            }
            (Error::PeerIncompatible(error), _) => write!(f, "the client and the broker have nothing in common: {error:?}")?,
            (Error::AlertReceived(AlertDescription::CertificateExpired), _) => f.write_str(
                "the client does not accept the broker's certificate: it has expired, or is not valid yet; see its dates and the client's clock",
            )?,
            (Error::AlertReceived(AlertDescription::CertificateRevoked), _) => {
                f.write_str("the client does not accept the broker's certificate: it has been revoked; have a new one issued")?;
            }
            (Error::AlertReceived(alert), Fault::RefusedByPeer) => {
                write!(f, "the client does not accept the broker's certificate: {alert:?}; does it know the authority and connect by a name that the certificate has?")?;
            }
            (error, _) => error.fmt(f)?,
        }
        write!(f, " [{}]", fault.code())
    }
}

impl std::error::Error for Failure {}
