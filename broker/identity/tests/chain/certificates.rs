//! Clients with certificates.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use tautwire_identity::{
    AuthAttempt, AuthBackend, Certificate, CertificateFields, CertificateRule, CertificateRules, Pattern, RefusalCode,
    Template,
};

use super::support::{admitted, chain, chain as chain_of, ends, from, nobody, refused, user, users};

fn certificate(common_name: &str, names: Vec<SanType>) -> Arc<[u8]> {
    certificate_with(common_name, names, |_| {})
}

fn certificate_with(common_name: &str, names: Vec<SanType>, change: impl FnOnce(&mut CertificateParams)) -> Arc<[u8]> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.distinguished_name.push(DnType::OrganizationName, "Works");
    params.subject_alt_names = names;
    change(&mut params);
    let key = KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("a certificate").der().to_vec().into()
}

fn name(text: &str) -> rcgen::string::Ia5String {
    text.try_into().expect("ASCII")
}

fn holder(certificate: &Arc<[u8]>) -> AuthAttempt {
    from(nobody(), |origin| {
        (origin.certificate, origin.is_encrypted) = (Some(Certificate::Der(certificate.clone())), true)
    })
}

fn rules(rules: Vec<CertificateRule>) -> AuthBackend {
    AuthBackend::Certificate(Arc::new(CertificateRules { rules }))
}

fn template(text: &str) -> Option<Template> {
    Some(Template::new(text).expect("a template"))
}

#[test]
fn the_common_name_is_the_user() {
    let chain = chain(vec![AuthBackend::Certificate(Arc::new(CertificateRules::common_name())), users()]);
    let principal = admitted(&chain, holder(&certificate("gerät-7", vec![])));
    assert_eq!(
        (principal.user.as_deref(), principal.client_id, principal.backend),
        (Some("gerät-7"), None, "certificate")
    );
    let claim = |name: &str| principal.claims.iter().find(|(known, _)| &**known == name).map(|(_, value)| value.len());
    assert_eq!((claim("o"), claim("fingerprint")), (Some(5), Some(64)));
    // A client without a certificate is left to other backends.
    assert_eq!(admitted(&chain, user("dave", "password")).backend, "password_file");
}

#[test]
fn all_names_of_a_certificate_are_read() {
    let names = vec![
        SanType::DnsName(name("a.example")),
        SanType::DnsName(name("b.example")),
        SanType::Rfc822Name(name("a@example")),
        SanType::URI(name("urn:dev:7")),
        SanType::IpAddress(IpAddr::from([192, 0, 2, 7])),
        SanType::IpAddress("2001:db8::1".parse().expect("an address")),
    ];
    let fields = CertificateFields::read(&certificate("c", names)).expect("fields");
    let read: Vec<_> = fields.iter().filter(|(name, _)| !["serial", "fingerprint"].contains(name)).collect();
    let expected = [
        ("cn", "c"),
        ("o", "Works"),
        ("issuer", "c"),
        ("dns", "a.example"),
        ("dns", "b.example"),
        ("email", "a@example"),
        ("uri", "urn:dev:7"),
        ("ip", "192.0.2.7"),
        ("ip", "2001:db8::1"),
    ];
    assert_eq!(read, expected);
}

#[test]
fn the_first_matching_rule_names_user_and_client() {
    let chain = chain(vec![rules(vec![
        CertificateRule {
            when: vec![
                Pattern::new("o", "Works").expect("a pattern"),
                Pattern::new("uri", "urn:dev:*").expect("a pattern"),
            ],
            user: template("device-{*}"),
            client_id: template("{o}/{*}"),
            roles: vec!["device".into()],
        },
        CertificateRule { user: template("{email}"), ..CertificateRule::default() },
    ])]);
    let uris = vec![SanType::URI(name("https://x.example")), SanType::URI(name("urn:dev:7"))];
    let device = admitted(&chain, holder(&certificate("c", uris)));
    assert_eq!((device.user.as_deref(), device.client_id.as_deref()), (Some("device-7"), Some("Works/7")));
    assert_eq!(&*device.roles, ["device".into()]);
    let person = admitted(&chain, holder(&certificate("c", vec![SanType::Rfc822Name(name("a@example"))])));
    assert_eq!((person.user.as_deref(), person.client_id), (Some("a@example"), None));
    // By any alternative name, and by the issuer, which is the holder here.
    let by_name = |issuer: &str| CertificateRule {
        when: vec![Pattern::new("issuer", issuer).expect("a pattern"), Pattern::new("san", "10.*").expect("a pattern")],
        user: template("{issuer}: {san}"),
        ..CertificateRule::default()
    };
    let chain_by_name = chain_of(vec![rules(vec![by_name("other"), by_name("c")])]);
    let named = || vec![SanType::DnsName(name("a.example")), SanType::IpAddress(IpAddr::from([10, 0, 0, 7]))];
    let device = admitted(&chain_by_name, holder(&certificate("c", named())));
    assert_eq!(device.user.as_deref(), Some("c: a.example"));
    assert_eq!(refused(&chain_by_name, holder(&certificate("d", named()))).code, RefusalCode::NoRule);
    // A star that matches nothing gives no name.
    let refusal = refused(&chain, holder(&certificate("line\nbreak", vec![SanType::URI(name("urn:dev:"))])));
    assert_eq!(refusal.code, RefusalCode::NoRule);
    assert!(!refusal.log.contains('\n'));
}

#[test]
fn ambiguous_names_match_no_user() {
    let chain = chain(vec![AuthBackend::Certificate(Arc::new(CertificateRules::common_name()))]);
    for wrong in ["admin\0.evil", "", "a\nb", &"n".repeat(2_000)] {
        assert_eq!(refused(&chain, holder(&certificate(wrong, vec![]))).code, RefusalCode::NoRule);
    }
    let short = |der: &[u8]| refused(&chain, holder(&der[..der.len() - 1].into())).code;
    assert_eq!(short(&certificate("c", vec![])), RefusalCode::Certificate);
}

#[test]
fn a_client_identifier_that_is_too_long_is_refused() {
    let rule = CertificateRule { client_id: template("{cn}{cn}"), ..CertificateRule::default() };
    let chain = chain(vec![rules(vec![rule])]);
    assert_eq!(refused(&chain, holder(&certificate(&"n".repeat(600), vec![]))).code, RefusalCode::NoRule);
    assert!(admitted(&chain, holder(&certificate(&"n".repeat(500), vec![]))).client_id.is_some());
}

#[test]
fn invalid_rules_are_refused() {
    for (text, expected) in [
        ("", "a name must not be empty"),
        ("{cn", "a brace is not closed"),
        ("cn}", "a brace is not opened"),
        ("{name}", "unknown certificate field name; known fields are cn, o, ou, dns"),
    ] {
        let error = Template::new(text).expect_err("wrong").to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(Pattern::new("cn", "a*b*").is_err() && Pattern::new("subject", "a").is_err());
}

/// A client that resumes a TLS session presents no certificate again, and gets a new ticket each time.
#[test]
fn a_certificate_that_expired_after_the_handshake_is_refused() {
    // NOW is 2027-01-15.
    let until = |day| certificate_with("c", vec![], |params| params.not_after = rcgen::date_time_ymd(2027, 1, day));
    let by_name = chain(vec![AuthBackend::Certificate(Arc::new(CertificateRules::common_name()))]);
    // TLS relies on the certificate even if it does not name the client.
    let by_password = chain(vec![users()]);
    for (day, is_over) in [(14, true), (16, false)] {
        let certificate = until(day);
        let with_password = AuthAttempt { origin: holder(&certificate).origin, ..user("dave", "password") };
        for (chain, attempt) in [(&by_name, holder(&certificate)), (&by_password, with_password)] {
            let code = ends(chain, attempt).0.err().map(|refusal| refusal.code);
            assert_eq!(code, is_over.then_some(RefusalCode::CertificateExpired), "{day}");
        }
    }
}
