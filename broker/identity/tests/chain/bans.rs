//! Bans.

use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use tautwire_identity::{
    AuthAttempt, AuthBackend, Ban, BanError, BanTarget, Bans, Certificate, CertificateRules, FailureKey, FailureRule,
    Network, Now, RefusalCode, limits,
};
use tautwire_protocol::ConnectReason;

use super::support::{NOW, chain_with, ends_at, from, nobody, user, users};

fn ban(who: BanTarget, until_unix_s: Option<u64>) -> Ban {
    Ban { who, until_unix_s, reason: "test".into() }
}

fn network(text: &str) -> Network {
    text.parse().expect("a network")
}

fn at(seconds: u64) -> Now {
    Now { unix_s: NOW.unix_s + seconds, steady_ms: NOW.steady_ms + seconds * 1_000 }
}

fn coming_from(attempt: AuthAttempt, address: &str) -> AuthAttempt {
    let address: IpAddr = address.parse().expect("an address");
    from(attempt, |origin| (origin.address, origin.is_encrypted) = (Some(address), true))
}

#[test]
fn a_ban_is_active_until_it_expires_or_is_removed() {
    let bans = Arc::new(Bans::default());
    let chain = chain_with(vec![users()], &bans);
    let code = |seconds| match ends_at(&chain, user("dave", "password"), at(seconds)).0 {
        Ok(_) => None,
        Err(refusal) => Some((refusal.code, refusal.reason)),
    };
    for who in
        [BanTarget::ClientId("c".into()), BanTarget::User("dave".into()), BanTarget::Network(network("127.0.0.0/8"))]
    {
        assert_eq!(code(0), None);
        bans.add(ban(who.clone(), Some(at(10).unix_s)), NOW).expect("banned");
        assert_eq!(code(9), Some((RefusalCode::Banned, ConnectReason::Banned)));
        assert_eq!(bans.list(at(9)).len(), 1);
        assert_eq!(code(10), None, "{who}");
        bans.add(ban(who.clone(), None), NOW).expect("banned");
        assert_eq!(code(1_000_000), Some((RefusalCode::Banned, ConnectReason::Banned)));
        assert!(bans.remove(&who) && !bans.remove(&who) && bans.list(NOW).is_empty());
    }
    assert_eq!(bans.counters().refused, 6);
}

#[test]
fn a_banned_user_is_refused_in_any_spelling() {
    let bans = Arc::new(Bans::default());
    let chain = chain_with(vec![AuthBackend::Certificate(Arc::new(CertificateRules::common_name()))], &bans);
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "dave");
    let certificate = params.self_signed(&key).expect("a certificate").der().to_vec();
    let attempt = from(nobody(), |origin| origin.certificate = Some(Certificate::Der(certificate.into())));
    assert!(ends_at(&chain, attempt.clone(), NOW).0.is_ok());
    bans.add(ban(BanTarget::User("dave".into()), None), NOW).expect("banned");
    assert_eq!(ends_at(&chain, attempt, NOW).0.expect_err("refused").code, RefusalCode::Banned);
}

#[test]
fn repeated_failures_lead_to_a_temporary_ban() {
    let rule = FailureRule { by: FailureKey::Address, count: 3, within_s: 60, ban_s: 300 };
    let bans = Arc::new(Bans::new(vec![rule]));
    let chain = chain_with(vec![users()], &bans);
    let outcome =
        |address, password, seconds| ends_at(&chain, coming_from(user("dave", password), address), at(seconds)).0.err();
    let code = |address, password, seconds| outcome(address, password, seconds).map(|refusal| refusal.code);
    // Two failures, and a third when the first has expired.
    for seconds in [0, 30, 61] {
        assert_eq!(code("192.0.2.7", "wrong", seconds), Some(RefusalCode::WrongPassword));
    }
    assert_eq!(code("192.0.2.7", "password", 62), None, "a success is not a failure");
    let last = outcome("192.0.2.7", "wrong", 63).expect("refused");
    assert!(last.log.ends_with("; address 192.0.2.7 is banned after too many failures"), "{last}");
    assert_eq!(code("192.0.2.7", "password", 64), Some(RefusalCode::Banned));
    assert!(bans.has_address(IpAddr::from([192, 0, 2, 7]), at(362)));
    assert_eq!(code("192.0.2.8", "password", 64), None, "others are not");
    assert_eq!(code("192.0.2.7", "password", 363), None);
    // An IPv6 client is counted by its network.
    for address in ["2001:db8::1", "2001:db8::2", "2001:db8::3"] {
        assert_eq!(code(address, "wrong", 400), Some(RefusalCode::WrongPassword));
    }
    assert_eq!(code("2001:db8::4", "password", 400), Some(RefusalCode::Banned));
    assert_eq!(code("2001:db8:0:1::4", "password", 400), None);
    assert_eq!(bans.counters().by_rule, 2);
}

#[test]
fn rules_can_count_by_user_and_by_client() {
    for (by, who) in
        [(FailureKey::User, BanTarget::User("dave".into())), (FailureKey::ClientId, BanTarget::ClientId("c".into()))]
    {
        let bans = Arc::new(Bans::new(vec![FailureRule { by, count: 1, within_s: 1, ban_s: 5 }]));
        let chain = chain_with(vec![users()], &bans);
        let _ = ends_at(&chain, user("dave", "wrong"), NOW);
        let [made] = &bans.list(NOW)[..] else { panic!("{:?}", bans.list(NOW)) };
        assert_eq!((&made.who, made.until_unix_s), (&who, Some(NOW.unix_s + 5)));
    }
}

#[test]
fn tables_are_bounded() {
    let bans = Bans::default();
    let user = |number: usize| BanTarget::User(number.to_string().into());
    for number in 0..limits::BANS_MAX {
        bans.add(ban(user(number), Some(at(5).unix_s)), NOW).expect("banned");
    }
    assert_eq!(bans.add(ban(user(limits::BANS_MAX), None), NOW), Err(BanError::Full));
    assert_eq!(bans.counters().not_recorded, 1);
    // Expired ones make room.
    bans.add(ban(user(limits::BANS_MAX), None), at(5)).expect("banned");
    assert_eq!(bans.list(at(5)).len(), 1);
    let why = "x".repeat(limits::BAN_REASON_BYTES_MAX + 1).into();
    assert_eq!(bans.add(Ban { reason: why, ..ban(user(0), None) }, NOW), Err(BanError::Reason));
}

#[test]
fn the_failure_table_is_bounded() {
    let rule = FailureRule { by: FailureKey::Address, count: 2, within_s: 60, ban_s: 300 };
    let bans = Arc::new(Bans::new(vec![rule]));
    // Without backends, an unknown user costs nothing.
    let chain = chain_with(vec![], &bans);
    let fails = |number: u32, seconds| {
        let [_, b, c, d] = number.to_be_bytes();
        let _ = ends_at(&chain, coming_from(user("x", "y"), &format!("10.{b}.{c}.{d}")), at(seconds));
    };
    let many = u32::try_from(limits::FAILURES_KEYS_MAX).expect("a number");
    (0..many + 10).for_each(|number| fails(number, 0));
    assert_eq!(bans.counters().not_recorded, 10);
    fails(many, 60);
    fails(many, 60);
    assert_eq!(bans.list(at(60)).len(), 1);
}

#[test]
fn shared_bans_replace_earlier_ones_and_local_bans_stay() {
    let (bans, shared) = (Bans::default(), |name: &str| ban(BanTarget::ClientId(name.into()), None));
    let own = ban(BanTarget::User("own".into()), None);
    bans.add(own.clone(), NOW).expect("banned");
    let over = ban(BanTarget::User("over".into()), Some(at(0).unix_s));
    bans.share(vec![shared("a"), shared("b"), ban(BanTarget::Network(network("10.0.0.0/8")), None), over], NOW);
    assert_eq!((bans.list(NOW).len(), bans.list_own(NOW)), (4, vec![own.clone()]));
    assert!(bans.has_networks() && bans.has(&shared("a").who, NOW));
    // A rule cannot shorten a ban that others share.
    bans.add(ban(shared("b").who, Some(at(1).unix_s)), NOW).expect("banned");
    assert!(bans.has(&shared("b").who, at(2)));
    bans.share(vec![shared("b")], NOW);
    assert!(bans.has(&shared("b").who, NOW) && !bans.has(&shared("a").who, NOW) && !bans.has_networks());
    bans.share(Vec::new(), NOW);
    assert_eq!(bans.list(NOW), [own]);
}

#[test]
fn networks_round_trip() {
    for text in ["192.0.2.7", "192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32", "::1", "::/0"] {
        assert_eq!(network(text).to_string(), text);
    }
    assert_eq!(network("::ffff:192.0.2.0/120").to_string(), "192.0.2.0/24");
    for wrong in ["", "192.0.2.7/33", "192.0.2.7/+8", "192.0.2/24", "::/129", "::/", "localhost", "192.0.2.7/24"] {
        assert!(wrong.parse::<Network>().is_err(), "{wrong}");
    }
    let message = "192.0.2.7/24".parse::<Network>().expect_err("wrong");
    assert_eq!(message, "192.0.2.7/24 has bits set after its prefix; the network is 192.0.2.0/24");
}

proptest! {
    #[test]
    fn an_address_is_in_a_network_if_its_prefix_matches(a: u32, b: u32, prefix in 0_u8..=32) {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        let text = format!("{}/{prefix}", std::net::Ipv4Addr::from_bits(a & mask));
        let (bans, near) = (Bans::default(), (a & mask) | (b & !mask));
        bans.add(ban(BanTarget::Network(network(&text)), None), NOW).expect("banned");
        for address in [a, b, near] {
            let address = std::net::Ipv4Addr::from_bits(address);
            let is_in = address.to_bits() & mask == a & mask;
            prop_assert_eq!(bans.has_address(address.into(), NOW), is_in);
            prop_assert_eq!(bans.has_address(address.to_ipv6_mapped().into(), NOW), is_in);
        }
    }
}

/// Clients choose names and prefixes: filling the table of one rule does not affect another.
#[test]
fn a_full_rule_does_not_evict_entries_of_another() {
    let by_address = FailureRule { by: FailureKey::Address, count: 2, within_s: 3_600, ban_s: 60 };
    let by_user = FailureRule { by: FailureKey::User, count: 2, within_s: 10, ban_s: 60 };
    let bans = Arc::new(Bans::new(vec![by_address, by_user]));
    // It has no users, so that failures cost nothing.
    let chain = chain_with(vec![], &bans);
    let fails = |name: &str, address: Option<&str>, seconds| {
        let attempt = user(name, "wrong");
        let attempt = match address {
            Some(address) => coming_from(attempt, address),
            None => from(attempt, |origin| origin.address = None),
        };
        ends_at(&chain, attempt, at(seconds)).0.expect_err("refused").code
    };
    assert_eq!(fails("first", Some("192.0.2.7"), 0), RefusalCode::UnknownUser);
    // So many names that the table of the user rule is full and removes expired entries.
    for number in 0..=limits::FAILURES_KEYS_MAX {
        fails(&format!("user-{number}"), None, 20);
    }
    assert!(bans.counters().not_recorded > 0);
    assert_eq!(fails("second", Some("192.0.2.7"), 40), RefusalCode::UnknownUser);
    assert!(bans.has_address(IpAddr::from([192, 0, 2, 7]), at(40)), "the second failure within an hour");
}

/// A name may be as long as a packet allows, and no user has such a name.
#[test]
fn invalid_names_are_not_stored() {
    for by in [FailureKey::User, FailureKey::ClientId] {
        let bans = Arc::new(Bans::new(vec![FailureRule { by, count: 1, within_s: 1, ban_s: 5 }]));
        let chain = chain_with(vec![users()], &bans);
        let fails = |length: usize| {
            let name = "x".repeat(length);
            let _ = ends_at(&chain, AuthAttempt { client_id: (&*name).into(), ..user(&name, "wrong") }, NOW);
            bans.list(NOW).len()
        };
        assert_eq!([fails(limits::USER_NAME_BYTES_MAX + 1), fails(limits::USER_NAME_BYTES_MAX)], [0, 1]);
    }
}
