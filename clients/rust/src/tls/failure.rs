//! Why TLS failed.

use std::fmt;

use crate::error::{message, text_of};

/// The kind of a TLS failure, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TlsFault {
    /// The files or options of this client: certificates, keys, names.
    Settings,
    /// The server's certificate was issued by an authority that is not trusted.
    UnknownAuthority,
    /// The server's certificate is self-signed and not trusted.
    SelfSigned,
    /// The server's certificate is for other names.
    NameMismatch,
    /// The server's certificate has expired.
    Expired,
    /// The server's certificate is not valid yet, or the clock of this machine is wrong.
    NotYetValid,
    /// The server's certificate has been revoked, or its revocation status is unknown.
    Revoked,
    /// The server's certificate cannot be used for another reason.
    Certificate,
    /// The server requests a certificate of this client, which has none.
    ClientCertificateRequired,
    /// The server does not accept this client's certificate.
    ClientCertificateRefused,
    /// The server does not speak TLS at this port.
    NotSupported,
    /// The server speaks TLS at this port, but the address does not use TLS.
    Needed,
    /// The server closed the connection before the handshake was complete.
    Closed,
    /// There is no version, cipher suite or protocol (ALPN) that both sides support.
    NoSharedParameters,
    /// The received data violates TLS, or was modified in transit.
    Violation,
}

impl TlsFault {
    /// A stable name for programs and logs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Settings => "tls_options",
            Self::UnknownAuthority => "tls_unknown_authority",
            Self::SelfSigned => "tls_self_signed",
            Self::NameMismatch => "tls_name_mismatch",
            Self::Expired => "tls_expired",
            Self::NotYetValid => "tls_not_yet_valid",
            Self::Revoked => "tls_revoked",
            Self::Certificate => "tls_certificate",
            Self::ClientCertificateRequired => "tls_client_certificate_required",
            Self::ClientCertificateRefused => "tls_client_certificate_refused",
            Self::NotSupported => "tls_not_supported",
            Self::Needed => "tls_needed",
            Self::Closed => "tls_closed",
            Self::NoSharedParameters => "tls_no_shared_parameters",
            Self::Violation => "tls_protocol_error",
        }
    }

    fn text(self) -> &'static str {
        text_of(self.code()).unwrap_or_default()
    }
}

/// Why TLS failed, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFailure {
    /// The kind of failure.
    pub fault: TlsFault,
    /// The details of this case, for people; may be empty.
    pub detail: Box<str>,
}

impl TlsFailure {
    pub(crate) fn new(fault: TlsFault, detail: impl Into<Box<str>>) -> TlsFailure {
        TlsFailure { fault, detail: detail.into() }
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        message(f, self.fault.text(), &self.detail, self.fault.code())
    }
}

impl std::error::Error for TlsFailure {}
