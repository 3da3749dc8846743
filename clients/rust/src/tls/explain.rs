//! Explains the errors of rustls, and what to do.

use std::net::IpAddr;

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use super::failure::{TlsFailure, TlsFault};
use super::verifier::SelfSigned;

/// Explains why a TLS connection failed.
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
        Error::AlertReceived(alert) => alert_failure(*alert),
        _ if is_not_tls => TlsFailure::new(TlsFault::NotSupported, "to connect without TLS, use mqtt:// or ws://"),
        Error::PeerIncompatible(what) => TlsFailure::new(TlsFault::NoSharedParameters, format!("{what:?}")),
        error => TlsFailure::new(TlsFault::Violation, error.to_string()),
    }
}

/// Explains a problem of the server's certificate.
fn certificate(error: &CertificateError) -> TlsFailure {
    let (fault, text) = match error {
        CertificateError::UnknownIssuer => (TlsFault::UnknownAuthority, String::new()),
        CertificateError::BadSignature => (
            TlsFault::UnknownAuthority,
            "it was not signed by the trusted certificate of the authority that it names".to_owned(),
        ),
        CertificateError::Other(other) if other.0.is::<SelfSigned>() => {
            (TlsFault::SelfSigned, "it is self-signed, not issued by an authority".to_owned())
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = presented.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ");
            let names = if names.is_empty() { "no name".to_owned() } else { names };
            let text = format!("it is for {names}, not for {}", shown(expected));
            (TlsFault::NameMismatch, text)
        }
        CertificateError::ExpiredContext { time, not_after } => {
            let text = format!("it expired on {}, and today is {}", day(*not_after), day(*time));
            (TlsFault::Expired, text)
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let text = format!("it is valid from {} on, and today is {}", day(*not_before), day(*time));
            (TlsFault::NotYetValid, text)
        }
        CertificateError::Revoked => {
            (TlsFault::Revoked, "it is on the revocation list: its key may have been compromised".to_owned())
        }
        CertificateError::UnknownRevocationStatus => {
            (TlsFault::Revoked, "there is no revocation list of its authority".to_owned())
        }
        CertificateError::ExpiredRevocationList => (TlsFault::Revoked, "the revocation list has expired".to_owned()),
        CertificateError::ExpiredRevocationListContext { next_update, .. } => {
            (TlsFault::Revoked, format!("the revocation list was valid until {}", day(*next_update)))
        }
        CertificateError::Other(other) if other.0.to_string() == "CaUsedAsEndEntity" => (
            TlsFault::Certificate,
            "it is a CA certificate (CA:TRUE), which a server cannot use: have one issued for the server".to_owned(),
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => (
            TlsFault::Certificate,
            "its extended key usage does not allow servers: have one issued with serverAuth".to_owned(),
        ),
        error => (TlsFault::Certificate, error.to_string()),
    };
    TlsFailure::new(fault, text)
}

/// Explains an alert of the server.
fn alert_failure(alert: AlertDescription) -> TlsFailure {
    let refused = |why: &str| TlsFailure::new(TlsFault::ClientCertificateRefused, why);
    match alert {
        AlertDescription::CertificateRequired => TlsFailure::new(TlsFault::ClientCertificateRequired, ""),
        AlertDescription::CertificateRevoked => refused("it has been revoked: get a new one"),
        AlertDescription::CertificateExpired => refused("it has expired, or is not valid yet: get a new one"),
        AlertDescription::UnknownCA => refused(
            "the server does not trust the authority that issued it: have one issued by an authority that it trusts",
        ),
        AlertDescription::UnsupportedCertificate => {
            refused("it is not a client certificate: have one issued with clientAuth")
        }
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown | AlertDescription::AccessDenied => {
            refused(&format!("{alert:?}: see the server's log"))
        }
        AlertDescription::NoApplicationProtocol => {
            TlsFailure::new(TlsFault::NoSharedParameters, "ALPN: request \"mqtt\", or no protocol")
        }
        AlertDescription::ProtocolVersion
        | AlertDescription::HandshakeFailure
        | AlertDescription::InsufficientSecurity => {
            TlsFailure::new(TlsFault::NoSharedParameters, format!("the server sent the alert {alert:?}"))
        }
        alert => TlsFailure::new(TlsFault::Violation, format!("the server sent the alert {alert:?}")),
    }
}

/// `DnsName("localhost")` as plain text.
fn plain(presented: &str) -> String {
    let inner = presented.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
    let inner = inner.unwrap_or(presented).trim_matches('"');
    // IPv6 addresses have a different form there.
    inner.parse::<IpAddr>().map_or_else(|_| inner.to_owned(), |address| address.to_string())
}

fn shown(name: &ServerName<'_>) -> String {
    name.to_str().into_owned()
}

/// The day in UTC, for example `2026-12-31`.
fn day(time: UnixTime) -> String {
    // Years are counted from March, so that the leap day is the last day of a year, in cycles of 400
    // years.
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
    fn days_match_the_calendar() {
        let shown = |unix_s| day(UnixTime::since_unix_epoch(Duration::from_secs(unix_s)));
        assert_eq!(shown(0), "1970-01-01");
        assert_eq!(shown(951_782_400), "2000-02-29");
        assert_eq!(shown(1_798_761_599), "2026-12-31");
        assert_eq!(shown(4_107_542_400), "2100-03-01");
    }

    #[test]
    fn names_are_shown_without_their_type() {
        assert_eq!(plain("DnsName(\"localhost\")"), "localhost");
        assert_eq!(plain("IpAddress(0::1)"), "::1");
        assert_eq!(plain("other"), "other");
    }
}
