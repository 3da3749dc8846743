//! Responses of a hook, and certificates, of arbitrary bytes: no panic, and an accepted client is the one in the response.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tautwire_identity::{
    AuthAttempt, AuthBackend, AuthStep, Certificate, CertificateFields, Chain, ClientOrigin, Hook, HookSettings,
    HttpClient, HttpRequest, HttpRequestError, HttpResponse, Now, Secret, Settings, limits,
};

/// Returns this response.
struct Service<'a>(&'a [u8]);

impl HttpClient for Service<'_> {
    fn request(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, HttpRequestError> {
        let body = std::str::from_utf8(request.body.expect("a body").expose()).expect("text");
        assert!(tautwire_json::parse(body).is_ok_and(|body| !body.has_duplicates()), "{body}");
        Ok(HttpResponse::new(200, self.0))
    }
}

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(4, |byte| *byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (client_id, user_name, password, answer) = (part(), part(), part(), part());
    if let Some(fields) = CertificateFields::read(answer) {
        assert!(fields.iter().all(|(_, value)| !value.is_empty() && !value.contains('\0')));
    }
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(Box::<str>::from);
    let origin = ClientOrigin {
        listener: "tls".into(),
        address: Some([192, 0, 2, 7].into()),
        is_encrypted: true,
        certificate: Some(Certificate::Der(answer.into())),
        peer_uid: None,
    };
    let attempt = AuthAttempt {
        origin: Arc::new(origin),
        client_id: text(client_id).unwrap_or_default(),
        user_name: text(user_name),
        password: Some(Secret::new(password)),
        method: None,
        data: None,
        is_v5: true,
    };
    let hook = Hook::new(HookSettings::new("https://hook/"), &[7; 32]).expect("settings");
    let settings =
        Settings { allows_plain_passwords: false, key: [7; 32], bans: Arc::default(), verified: Arc::default() };
    let chain = Arc::new(Chain::new(vec![AuthBackend::Hook(Arc::new(hook))], settings).expect("a chain"));
    let now = Now { unix_s: 1, steady_ms: 1 };
    let outcome = |step: AuthStep| match step {
        AuthStep::Admit { principal, .. } => {
            assert!(
                principal
                    .user
                    .as_ref()
                    .is_none_or(|user| !user.is_empty() && user.len() <= limits::USER_NAME_BYTES_MAX)
            );
            assert!(principal.roles.len() <= limits::ROLES_MAX && principal.claims.len() <= limits::CLAIMS_MAX);
            assert!(std::str::from_utf8(answer).is_ok_and(|answer| answer.contains("\"result\"")));
            Ok(principal)
        }
        AuthStep::Refuse(refusal) => Err(refusal.code),
        other => panic!("{other:?}"),
    };
    let AuthStep::AuthWork(work) = chain.begin(attempt.clone(), now, &mut |_| Ok(())) else {
        panic!("it is not asked")
    };
    let first = outcome(work.run(&Service(answer), now));
    // A cached decision is the same.
    match chain.begin(attempt, now, &mut |_| Ok(())) {
        AuthStep::AuthWork(_) => {}
        step => assert_eq!(outcome(step), first),
    }
});
