//! Why a connection cannot continue.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// The kind of a TLS failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsErrorKind {
    /// The peer does not speak TLS at all.
    NotTls,
    /// The peer and this server have no version, cipher suite, group or protocol in common.
    NoCommonParameters,
    /// The peer presented no certificate, or one that is not accepted.
    Certificate,
    /// The peer does not accept this server's certificate.
    RefusedByPeer,
    /// The peer violated the protocol, or its data was tampered with.
    Violation,
    /// A fault of this server.
    TlsServer,
}

impl TlsErrorKind {
    /// A stable code.
    pub const fn code(self) -> &'static str {
        match self {
            TlsErrorKind::NotTls => "tls_not_supported",
            TlsErrorKind::NoCommonParameters => "tls_no_shared_parameters",
            TlsErrorKind::Certificate => "tls_client_certificate",
            TlsErrorKind::RefusedByPeer => "tls_refused_by_client",
            TlsErrorKind::Violation => "tls_protocol_error",
            TlsErrorKind::TlsServer => "tls_server",
        }
    }
}

/// Why a connection cannot continue. If the peer can be notified, an alert is pending.
#[derive(Debug, Clone)]
pub struct TlsError {
    error: Error,
}

impl TlsError {
    /// The kind of failure.
    pub fn kind(&self) -> TlsErrorKind {
        match &self.error {
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType
                | InvalidMessage::UnknownProtocolVersion
                | InvalidMessage::MessageTooLarge,
            ) => TlsErrorKind::NotTls,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => TlsErrorKind::NoCommonParameters,
            Error::NoCertificatesPresented | Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => {
                TlsErrorKind::Certificate
            }
            Error::AlertReceived(
                AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::AccessDenied,
            ) => TlsErrorKind::RefusedByPeer,
            Error::AlertReceived(_)
            | Error::InvalidMessage(_)
            | Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. }
            | Error::PeerMisbehaved(_)
            | Error::DecryptError
            | Error::PeerSentOversizedRecord => TlsErrorKind::Violation,
            _ => TlsErrorKind::TlsServer,
        }
    }
}

impl From<Error> for TlsError {
    fn from(error: Error) -> TlsError {
        TlsError { error }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = self.kind();
        match (&self.error, fault) {
            (_, TlsErrorKind::NotTls) => f.write_str("the client does not speak TLS; connect with mqtts:// or wss://")?,
            (Error::NoCertificatesPresented, _) => f.write_str("the client presented no certificate")?,
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
                    "tls.crl has no list of the authority that issued the client's certificate; add it",
                )?,
                CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
                    f.write_str("a list in tls.crl has expired; get a newer one from the authority")?;
                }
                error => write!(f, "the client's certificate is not accepted: {error}")?,
            },
            (Error::NoApplicationProtocol, _) => {
                f.write_str("the client requests a protocol by ALPN that this listener does not serve")?;
            }
            (Error::PeerIncompatible(error), _) => write!(f, "the client and the broker have no common TLS parameters: {error:?}")?,
            (Error::AlertReceived(AlertDescription::CertificateExpired), _) => f.write_str(
                "the client does not accept the broker's certificate: it has expired, or is not valid yet; check its dates and the client's clock",
            )?,
            (Error::AlertReceived(AlertDescription::CertificateRevoked), _) => {
                f.write_str("the client does not accept the broker's certificate: it has been revoked; have a new one issued")?;
            }
            (Error::AlertReceived(alert), TlsErrorKind::RefusedByPeer) => {
                write!(f, "the client does not accept the broker's certificate: {alert:?}; the client must trust the authority and connect by a name in the certificate")?;
            }
            (error, _) => error.fmt(f)?,
        }
        write!(f, " [{}]", fault.code())
    }
}

impl std::error::Error for TlsError {}
