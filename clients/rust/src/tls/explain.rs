//! What rustls says, in words that say what to do.

use std::net::IpAddr;

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use super::failure::{TlsFailure, TlsFault};
use super::verifier::SelfSigned;

/// Why a connection by TLS cannot go on.
pub(super) fn explain(error: &Error) -> TlsFailure {
    let is_not_tls = matches!(
        error,
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType
                | InvalidMessage::UnknownProtocolVersion
                | InvalidMessage::MessageTooLarge
        )
    );
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::AlertReceived(alert) => told(*alert),
        _ if is_not_tls => TlsFailure::new(
            TlsFault::NotSpoken,
            "the server does not speak TLS at this port; connect to its port for TLS, or with mqtt:// or ws://",
        ),
        Error::PeerIncompatible(what) => TlsFailure::new(
            TlsFault::NothingInCommon,
            format!("the server and this client have no version or cipher suite of TLS in common: {what:?}"),
        ),
        error => TlsFailure::new(TlsFault::Violation, format!("the server breaks the rules of TLS: {error}")),
    }
}

/// What is wrong with the server's certificate.
fn certificate(error: &CertificateError) -> TlsFailure {
    let (fault, text) = match error {
        CertificateError::UnknownIssuer => (
            TlsFault::UnknownAuthority,
            "the server's certificate was issued by an authority that is not trusted; trust that authority's certificate \
             (ca.pem of `tautwire cert`)"
                .to_owned(),
        ),
        CertificateError::BadSignature => (
            TlsFault::UnknownAuthority,
            "the server's certificate was not signed by the authority that it names; trust the certificate that this \
             authority has now"
                .to_owned(),
        ),
        CertificateError::Other(other) if other.0.is::<SelfSigned>() => (
            TlsFault::SelfSigned,
            "the server's certificate is self-signed: no authority vouches for it; trust this very certificate, or have an \
             authority issue one (`tautwire cert` makes both)"
                .to_owned(),
        ),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = presented.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ");
            let names = if names.is_empty() { "no name at all".to_owned() } else { names };
            let text = format!(
                "the server's certificate is for {names}, not for {}; connect by a name that it has, or have one issued for \
                 this name",
                shown(expected)
            );
            (TlsFault::NameMismatch, text)
        }
        CertificateError::ExpiredContext { time, not_after } => {
            let text = format!(
                "the server's certificate expired on {}, and today is {}; have the server renew it",
                day(*not_after),
                day(*time)
            );
            (TlsFault::Expired, text)
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let text = format!(
                "the server's certificate is valid from {} on, and today is {}; see whether the clock is right",
                day(*not_before),
                day(*time)
            );
            (TlsFault::NotYetValid, text)
        }
        CertificateError::Revoked => (
            TlsFault::Revoked,
            "the server's certificate has been revoked: somebody else may have its key; have the server get a new one"
                .to_owned(),
        ),
        CertificateError::UnknownRevocationStatus => (
            TlsFault::Revoked,
            "no list says whether the server's certificate has been revoked; add the list of its authority".to_owned(),
        ),
        CertificateError::ExpiredRevocationList => (TlsFault::Revoked, "a list of revoked certificates has expired".to_owned()),
        CertificateError::ExpiredRevocationListContext { next_update, .. } => (
            TlsFault::Revoked,
            format!(
                "the list of revoked certificates is good until {} only; get the authority's newer one",
                day(*next_update)
            ),
        ),
        CertificateError::Other(other) if other.0.to_string() == "CaUsedAsEndEntity" => (
            TlsFault::Certificate,
            "the server's certificate is that of an authority (CA:TRUE), which cannot be a server's; have one issued for \
             the server (`tautwire cert` makes both)"
                .to_owned(),
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => (
            TlsFault::Certificate,
            "the server's certificate is not for servers (its extended key usage); have one issued with serverAuth"
                .to_owned(),
        ),
        error => (TlsFault::Certificate, format!("the server's certificate cannot be used: {error}")),
    };
    TlsFailure::new(fault, text)
}

/// What the server says is wrong.
fn told(alert: AlertDescription) -> TlsFailure {
    let refused = |why: &str| {
        let text = format!("the server refuses this client's certificate: {why}");
        TlsFailure::new(TlsFault::ClientCertificateRefused, text)
    };
    match alert {
        AlertDescription::CertificateRequired => TlsFailure::new(
            TlsFault::ClientCertificateRequired,
            "the server lets in only clients with a certificate; set this client's certificate and its key",
        ),
        AlertDescription::CertificateRevoked => refused("it has been revoked; get a new one"),
        AlertDescription::CertificateExpired => refused("it has expired, or is not valid yet; get a new one"),
        AlertDescription::UnknownCA => {
            refused("it was issued by an authority that the server does not know; have one of the server's issue one")
        }
        AlertDescription::UnsupportedCertificate => {
            refused("it is of a kind that is not for clients; have one issued with clientAuth")
        }
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown | AlertDescription::AccessDenied => {
            refused(&format!("the server does not say why ({alert:?}); its log does"))
        }
        AlertDescription::NoApplicationProtocol => TlsFailure::new(
            TlsFault::NothingInCommon,
            "the server has none of the protocols that this client asks for by ALPN; ask for \"mqtt\", or for none",
        ),
        AlertDescription::ProtocolVersion
        | AlertDescription::HandshakeFailure
        | AlertDescription::InsufficientSecurity => TlsFailure::new(
            TlsFault::NothingInCommon,
            format!("the server and this client have no version or cipher suite of TLS in common ({alert:?})"),
        ),
        alert => TlsFailure::new(TlsFault::Violation, format!("the server ended the connection by TLS: {alert:?}")),
    }
}

/// `DnsName("localhost")` without what is of programs.
fn plain(presented: &str) -> String {
    let inner = presented.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
    let inner = inner.unwrap_or(presented).trim_matches('"');
    // Addresses of IPv6 have a form of their own there.
    inner.parse::<IpAddr>().map_or_else(|_| inner.to_owned(), |address| address.to_string())
}

fn shown(name: &ServerName<'_>) -> String {
    name.to_str().into_owned()
}

/// The day in UTC, for example `2026-12-31`.
fn day(time: UnixTime) -> String {
    // Years are counted from March, so that the leap day is a year's last day, in cycles of 400 years.
    let days = time.as_secs() / 86_400 + 719_468;
    let (cycle, day_of_cycle) = (days / 146_097, days % 146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    format!("{:04}-{month:02}-{day:02}", cycle * 400 + year_of_cycle + u64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let shown = |unix_s| day(UnixTime::since_unix_epoch(Duration::from_secs(unix_s)));
        assert_eq!(shown(0), "1970-01-01");
        assert_eq!(shown(951_782_400), "2000-02-29");
        assert_eq!(shown(1_798_761_599), "2026-12-31");
        assert_eq!(shown(4_107_542_400), "2100-03-01");
    }

    #[test]
    fn names_are_shown_without_their_kind() {
        assert_eq!(plain("DnsName(\"localhost\")"), "localhost");
        assert_eq!(plain("IpAddress(0::1)"), "::1");
        assert_eq!(plain("other"), "other");
    }
}
