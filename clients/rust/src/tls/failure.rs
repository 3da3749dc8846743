//! Why TLS failed.

use std::fmt;

use crate::error::{message, text_of};

/// What is wrong, in a form for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TlsFault {
    /// The files or options of this client: certificates, keys, names.
    Settings,
    /// The server's certificate was issued by an authority that is not trusted.
    UnknownAuthority,
    /// The server's certificate was issued by nobody but itself, and is not trusted.
    SelfSigned,
    /// The server's certificate is for other names.
    NameMismatch,
    /// The server's certificate has expired.
    Expired,
    /// The server's certificate is not valid yet, or the clock of this machine is wrong.
    NotYetValid,
    /// The server's certificate has been revoked, or nothing says that it has not.
    Revoked,
    /// The server's certificate cannot be used for another reason.
    Certificate,
    /// The server asks for a certificate of this client, which has none.
    ClientCertificateRequired,
    /// The server does not accept this client's certificate.
    ClientCertificateRefused,
    /// The server does not speak TLS at this port.
    NotSpoken,
    /// The server speaks TLS at this port, and the address does not ask for it.
    Needed,
    /// The server ended the connection before the handshake was over.
    Closed,
    /// There is no version, cipher suite or protocol (ALPN) that both have.
    NothingInCommon,
    /// What came breaks the rules of TLS, or was changed on its way.
    Violation,
}

impl TlsFault {
    /// A stable name for programs and logs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Settings => "tls_settings",
            Self::UnknownAuthority => "tls_unknown_authority",
            Self::SelfSigned => "tls_self_signed",
            Self::NameMismatch => "tls_name_mismatch",
            Self::Expired => "tls_expired",
            Self::NotYetValid => "tls_not_yet_valid",
            Self::Revoked => "tls_revoked",
            Self::Certificate => "tls_certificate",
            Self::ClientCertificateRequired => "tls_client_certificate_required",
            Self::ClientCertificateRefused => "tls_client_certificate_refused",
            Self::NotSpoken => "tls_not_spoken",
            Self::Needed => "tls_needed",
            Self::Closed => "tls_closed",
            Self::NothingInCommon => "tls_nothing_in_common",
            Self::Violation => "tls_violation",
        }
    }

    fn text(self) -> &'static str {
        text_of(self.code()).unwrap_or_default()
    }
}

/// Why TLS failed: what is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFailure {
    /// What is wrong.
    pub fault: TlsFault,
    /// What it was in this case, for people; empty where there is nothing to add.
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
