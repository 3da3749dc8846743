//! The semantics of rules, by example.

use std::sync::Arc;

use tautwire_access::{AccessDecision, Changes, Denial, Permissions, Policy, Request, Subject};
use tautwire_protocol::{QoS, TopicFilter};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

/// The example of the decision record, with one more rule.
const EXAMPLE: &str = r##"
[[role]]
name = "guard"
rules = [
    { deny = "publish", topics = "firmware/#" },
    { deny = "publish", topics = "#", retain = true, qos = 0 },
]

[[role]]
name = "device"
rules = [
    { allow = "publish", topics = "devices/{client_id}/up/#", qos = [0, 1], retain = false },
    { allow = "subscribe", topics = ["devices/{client_id}/down/#", "firmware/#"] },
]

[[role]]
name = "tenant"
rules = [
    { deny = "subscribe", topics = "tenants/{claim.tenant}/secret/#" },
    { allow = ["publish", "subscribe"], topics = "tenants/{claim.tenant}/#" },
]

[[role]]
name = "worker"
rules = [{ allow = "subscribe", topics = "jobs/#", shared = true }]

[[role]]
name = "operator"
rules = [
    { allow = ["publish", "subscribe"], topics = "#" },
    { allow = "subscribe", topics = "$SYS/#" },
    { allow = "publish", topics = "$SYS/discovery/request" },
]

[[assign]]
everyone = true
roles = "guard"

[[assign]]
client_id = "sensor-*"
listener = ["tls", "ws"]
roles = "device"

[[assign]]
claims = { kind = "app" }
roles = ["tenant", "worker"]

[users]
alice = "operator"
"bob@example.org" = ["worker", "tenant"]
"##;

fn policy(text: &str) -> Arc<Policy> {
    Arc::new(Policy::parse("access.toml", text).expect("a valid file"))
}

fn device<'a>(client_id: &'a str) -> Subject<'a> {
    Subject { client_id, user: None, listener: "tls", claims: &[], roles: &[] }
}

fn subscribes(permissions: &Permissions, filter: &str) -> AccessDecision {
    permissions.may_subscribe(TopicFilter::new(filter).expect("a filter"), Q1)
}

fn publishes(permissions: &Permissions, topic: &str) -> bool {
    permissions.may_publish(topic, Q1, false).is_allowed()
}

#[test]
fn the_examples_of_the_documentation_are_correct() {
    for page in [
        include_str!("../../../docs/decisions/0022-access-rules.md"),
        include_str!("../../../docs/concepts/access-rules.md"),
    ] {
        let (_, example) = page.split_once("```toml\n").expect("an example");
        let (example, _) = example.split_once("```").expect("its end");
        assert!(policy(example).rule_count() > 3);
    }
}

#[test]
fn a_device_can_access_its_own_topics() {
    let permissions = policy(EXAMPLE).resolve(&device("sensor-7"));
    assert_eq!(permissions.role_names().collect::<Vec<_>>(), ["guard", "device"]);
    assert!(publishes(&permissions, "devices/sensor-7/up"), "a/# matches a");
    assert!(publishes(&permissions, "devices/sensor-7/up/x/y"));
    assert!(!publishes(&permissions, "devices/sensor-8/up/x"));
    assert!(!publishes(&permissions, "devices/sensor-7/down"));
    assert_eq!(permissions.may_publish("devices/sensor-7/up", Q2, false), AccessDecision::Denied(Denial::NoRule));
    assert_eq!(permissions.may_publish("devices/sensor-7/up", Q1, true), AccessDecision::Denied(Denial::NoRule));
    assert_eq!(permissions.may_publish("devices/sensor-7/up", Q0, true), AccessDecision::Denied(Denial::ByRule));
    assert!(subscribes(&permissions, "devices/sensor-7/down/+").is_allowed());
    assert!(subscribes(&permissions, "$share/g/firmware/#").is_allowed());
    for filter in ["devices/+/down", "devices/#", "#", "+/sensor-7/down", "$share/g/devices/+/down"] {
        assert_eq!(subscribes(&permissions, filter), AccessDecision::Denied(Denial::NoRule), "{filter}");
    }
}

#[test]
fn all_conditions_of_an_assignment_must_hold() {
    let policy = policy(EXAMPLE);
    for (client_id, listener, roles) in
        [("sensor-7", "plain", 1), ("x", "tls", 1), ("sensor-7", "ws", 2), ("sensor-7", "tls", 2)]
    {
        let permissions = policy.resolve(&Subject { listener, ..device(client_id) });
        assert_eq!(permissions.role_names().count(), roles, "{client_id} {listener}");
    }
}

#[test]
fn a_tenant_can_access_its_topics_except_denied_ones() {
    let policy = policy(EXAMPLE);
    let claims = [("kind", "app"), ("tenant", "acme")];
    let permissions = policy.resolve(&Subject { claims: &claims, ..device("app") });
    assert!(subscribes(&permissions, "tenants/acme/orders/#").is_allowed());
    assert_eq!(subscribes(&permissions, "tenants/acme/#"), AccessDecision::Denied(Denial::ByRule));
    assert_eq!(
        subscribes(&permissions, "tenants/acme/+"),
        AccessDecision::Denied(Denial::ByRule),
        "it matches …/secret"
    );
    assert_eq!(
        subscribes(&permissions, "tenants/acme/+/x"),
        AccessDecision::Denied(Denial::ByRule),
        "it matches …/secret/x"
    );
    assert!(publishes(&permissions, "tenants/acme/secret/x"), "denied only for subscribing");
    assert!(!publishes(&permissions, "tenants/other/x"));
    assert_eq!(permissions.may_receive("tenants/acme/secret/x", Q0, false), AccessDecision::Denied(Denial::ByRule));
    assert!(permissions.may_receive("tenants/acme/orders", Q0, false).is_allowed());
}

#[test]
fn access_can_be_limited_to_shared_subscriptions() {
    let policy = policy(EXAMPLE);
    let permissions = policy.resolve(&Subject { user: Some("bob@example.org"), ..device("b") });
    assert!(subscribes(&permissions, "$share/g/jobs/#").is_allowed());
    assert_eq!(subscribes(&permissions, "jobs/#"), AccessDecision::Denied(Denial::NoRule));
}

#[test]
fn a_wildcard_for_everything_excludes_topics_with_a_dollar() {
    let policy = policy(EXAMPLE);
    let operator = policy.resolve(&Subject { user: Some("alice"), ..device("console") });
    for filter in ["#", "+/+", "$SYS/#", "$SYS/broker/+", "$as/json/#", "$share/g/$as/json/a/#"] {
        assert!(subscribes(&operator, filter).is_allowed(), "{filter}");
    }
    for filter in ["$quarantine/#", "$x", "$as/json/$quarantine/#"] {
        assert!(!subscribes(&operator, filter).is_allowed(), "{filter}");
    }
    assert!(publishes(&operator, "$SYS/discovery/request") && !publishes(&operator, "$SYS/other"));
}

#[test]
fn a_format_prefix_does_not_bypass_a_rule() {
    let permissions = policy(EXAMPLE).resolve(&device("sensor-7"));
    assert!(subscribes(&permissions, "$as/json/devices/sensor-7/down/#").is_allowed());
    assert!(!subscribes(&permissions, "$as/json/devices/sensor-8/down/#").is_allowed());
    assert!(!subscribes(&permissions, "$as/json/#").is_allowed());
}

#[test]
fn unusual_names_grant_no_additional_access() {
    let text = r#"
[[role]]
name = "r"
rules = [
    { deny = "publish", topics = "locked/{user}/#" },
    { allow = "publish", topics = ["own/{user}/#", "{user}/x", "locked/#"] },
    { allow = "subscribe", topics = ["{user}/#", "own/{user}/#"] },
]
[[assign]]
everyone = true
roles = "r"
"#;
    let policy = policy(text);
    let of = |user| policy.resolve(&Subject { user, ..device("c") });
    let ann = of(Some("ann"));
    assert!(publishes(&ann, "own/ann/x") && publishes(&ann, "ann/x") && publishes(&ann, "locked/bob"));
    assert!(!publishes(&ann, "locked/ann"));
    for name in [None, Some(""), Some("+"), Some("#"), Some("a/b"), Some("a\0")] {
        let odd = of(name);
        for topic in ["own/a/b", "own//x", "own/+", "own/#", "own/ann/x", "/x", "+/x", "a/b", "locked/bob", "locked//x"]
        {
            assert!(!publishes(&odd, topic), "{name:?} {topic}");
        }
        assert!(publishes(&odd, "locked"), "there is no level for {{user}}");
        for filter in ["#", "+/#", "own/#", "own/+/#", "own/a/b"] {
            assert!(!subscribes(&odd, filter).is_allowed(), "{name:?} {filter}");
        }
    }
    let dollar = of(Some("$SYS"));
    assert!(!publishes(&dollar, "$SYS/x") && !subscribes(&dollar, "$SYS/#").is_allowed());
    assert!(publishes(&dollar, "own/$SYS/x"));
}

#[test]
fn a_topic_of_one_empty_level_is_not_matched() {
    let text =
        "[[role]]\nname = 'r'\nrules = [{ deny = 'subscribe', topics = '/#' }, { allow = 'subscribe', topics = '+' }]";
    let permissions = policy(text).resolve(&Subject { roles: &["r"], ..device("c") });
    assert!(subscribes(&permissions, "+").is_allowed());
    assert!(!subscribes(&permissions, "/+").is_allowed() && !subscribes(&permissions, "+/+").is_allowed());
}

#[test]
fn without_a_file_all_is_allowed_and_with_one_the_default_is_deny() {
    let open = Arc::new(Policy::open()).resolve(&device("c"));
    assert!(
        publishes(&open, "a") && subscribes(&open, "#").is_allowed() && open.may_receive("$x", Q2, true).is_allowed()
    );
    let closed = policy(EXAMPLE).resolve(&Subject {
        client_id: "c",
        user: Some("stranger"),
        listener: "",
        claims: &[],
        roles: &["nonsense"],
    });
    assert_eq!(closed.may_publish("a", Q0, false), AccessDecision::Denied(Denial::NoRule));
    assert_eq!(subscribes(&closed, "a"), AccessDecision::Denied(Denial::NoRule));
    let admin = policy(EXAMPLE).resolve(&Subject::ADMIN);
    assert!(!publishes(&admin, "a"), "the admin API has only the roles that the file assigns");
}

#[test]
fn roles_from_authentication_apply_at_their_position_in_the_file() {
    let policy = policy(EXAMPLE);
    assert!(policy.has_role("operator") && !policy.has_role("nonsense"));
    let permissions = policy.resolve(&Subject { roles: &["operator", "nonsense", "operator"], ..device("c") });
    assert_eq!(permissions.role_names().collect::<Vec<_>>(), ["guard", "operator"]);
    assert!(publishes(&permissions, "a") && !publishes(&permissions, "firmware/x"), "guard comes first");
}

#[test]
fn a_filter_without_matching_deny_rules_is_granted_with_many_wildcards() {
    const DEPTH: usize = 20;
    let level = |at: usize| if at == DEPTH { "denied" } else { "+" };
    let rule =
        |place: usize| (0..=DEPTH).map(|at| if at == place { "a" } else { level(at) }).collect::<Vec<_>>().join("/");
    let denials: String =
        (0..DEPTH).map(|place| format!("{{ deny = 'subscribe', topics = '{}' }},\n", rule(place))).collect();
    let text = format!("[[role]]\nname = 'r'\nrules = [\n{denials}{{ allow = 'subscribe', topics = '#' }}]");
    let permissions = policy(&text).resolve(&Subject { roles: &["r"], ..device("c") });
    let levels_then = |depth: usize, last: &str| vec!["+"; depth].join("/") + last;
    assert_eq!(subscribes(&permissions, &levels_then(DEPTH, "/denied")), AccessDecision::Denied(Denial::ByRule));
    assert!(subscribes(&permissions, &levels_then(DEPTH, "/fine")).is_allowed());
    assert!(subscribes(&permissions, &levels_then(DEPTH / 2, "/fine")).is_allowed());
}

/// `count` rules that deny a literal on the first level, as many on the second, and one that allows all.
fn crossed(count: usize) -> String {
    let denials: String = (0..count)
        .map(|n| format!("{{ deny = 'subscribe', topics = ['+/d{n}/secret', 'p{n}/+/private'] }},\n"))
        .collect();
    format!("[[role]]\nname = 'r'\nrules = [\n{denials}{{ allow = 'subscribe', topics = '#' }}]")
}

#[test]
fn a_filter_without_matching_deny_rules_is_granted_with_many_rules() {
    let permissions = policy(&crossed(120)).resolve(&Subject { roles: &["r"], ..device("c") });
    assert!(subscribes(&permissions, "+/+/a").is_allowed());
    assert_eq!(subscribes(&permissions, "+/+/secret"), AccessDecision::Denied(Denial::ByRule));
    assert_eq!(subscribes(&permissions, "+/+/private"), AccessDecision::Denied(Denial::ByRule));
    assert_eq!(subscribes(&permissions, "+/+/+"), AccessDecision::Denied(Denial::ByRule));
}

#[test]
fn a_check_visits_each_rule_once_and_can_stop_after_any_step() {
    for count in [250, 2_500] {
        let permissions = policy(&crossed(count)).resolve(&Subject { roles: &["r"], ..device("c") });
        let filter = TopicFilter::new("+/+/a").expect("a filter");
        let mut steps = usize::MAX;
        assert!(permissions.start_subscribe(filter, Q1, &mut steps).is_ok_and(AccessDecision::is_allowed));
        let taken = usize::MAX - steps;
        assert!((count..5 * count).contains(&taken), "{taken} steps for {count} rules of each kind");

        let mut steps = 100;
        let mut check = permissions.start_subscribe(filter, Q1, &mut steps).expect_err("there are too few steps");
        assert!(check.is_for(&permissions, Q1) && !check.is_for(&permissions, Q2));
        let mut parts = 1;
        let verdict = loop {
            let mut steps = 100;
            match check.resume(filter, &mut steps) {
                Some(verdict) => break verdict,
                None => assert_eq!(steps, 0, "an incomplete check has used its steps"),
            }
            parts += 1;
        };
        assert!(verdict.is_allowed());
        assert_eq!(parts, taken / 100, "no step is taken twice");
    }
}

#[test]
fn deny_rules_after_equal_allow_rules_have_no_effect() {
    let rules: String = (0..2_000)
        .map(|n| {
            format!(
                "{{ allow = 'subscribe', topics = 't/{n}/public/#' }}, {{ deny = 'subscribe', topics = 't/{n}/#' }},\n"
            )
        })
        .collect();
    let text = format!("[[role]]\nname = 'r'\nrules = [\n{rules}{{ allow = 'subscribe', topics = '#' }}]");
    let permissions = policy(&text).resolve(&Subject { roles: &["r"], ..device("c") });
    assert!(subscribes(&permissions, "t/+/public/+").is_allowed());
    assert_eq!(subscribes(&permissions, "t/+/private"), AccessDecision::Denied(Denial::ByRule));
}

#[test]
fn a_rule_that_never_applies_is_reported_with_the_rules_before_it() {
    let policy = policy(
        "[[role]]\nname = 'r'\nrules = [\n{ allow = ['publish', 'subscribe'], topics = '#' },\n\
         { deny = 'subscribe', topics = ['secret/#', '$SYS/#'] },\n]\n\
         [[role]]\nname = 's'\nrules = [\n{ allow = 'publish', topics = 'a/#', qos = 0 },\n\
         { deny = 'publish', topics = 'a/#', qos = [1, 2] },\n{ allow = 'publish', topics = 'a/{user}' },\n]\n",
    );
    let warnings: Vec<String> = policy.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "access.toml:5: role r: the rule { deny = \"subscribe\", topics = \"secret/#\" } never applies: \
             { allow = [\"publish\", \"subscribe\"], topics = \"#\" } at access.toml:4 comes first and matches all of its topics; \
             move the rule up, or remove it [access_unreachable]",
            "access.toml:12: role s: the rule { allow = \"publish\", topics = \"a/{user}\" } never applies: \
             { allow = \"publish\", topics = \"a/#\", qos = [0] } at access.toml:10, and \
             { deny = \"publish\", topics = \"a/#\", qos = [1, 2] } at access.toml:11 come first and match all of its topics; \
             move the rule up, or remove it [access_unreachable]",
        ]
    );
}

#[test]
fn a_rule_shadowed_by_a_role_of_all_clients_is_reported() {
    let roles = "[[role]]\nname = 'all'\nrules = [\n{ allow = 'publish', topics = 'a/#' },\n]\n\
                 [[role]]\nname = 'guard'\nrules = [\n{ deny = 'publish', topics = 'a/secret' },\n]\n";
    let warnings = |assignments: &str| -> Vec<String> {
        policy(&format!("{roles}{assignments}")).warnings().iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        warnings("[[assign]]\neveryone = true\nroles = 'all'\n"),
        ["access.toml:9: role guard: the rule { deny = \"publish\", topics = \"a/secret\" } never applies: \
          { allow = \"publish\", topics = \"a/#\" } at access.toml:4 of role all, which all clients have, comes first and matches all of \
          its topics; move the rule up, or remove it [access_unreachable]"]
    );
    for uncertain in [
        // The order of the file decides, so only the rule of `all` can be unreachable, and only for clients with the other role.
        "[[assign]]\neveryone = true\nroles = 'guard'\n",
        // A client may have the role without the other one.
        "[users]\nann = ['all', 'guard']\n",
        "[[assign]]\nclient_id = '*'\nanonymous = true\nroles = 'all'\n",
        "[[assign]]\neveryone = true\nlistener = 'tls'\nroles = 'all'\n",
    ] {
        assert_eq!(warnings(uncertain), [""; 0], "{uncertain}");
    }
}

#[test]
fn policies_with_only_allow_rules_are_never_too_complex() {
    const DEPTH: usize = 30;
    let rule = |place: usize| (0..DEPTH).map(|at| if at == place { "a" } else { "+" }).collect::<Vec<_>>().join("/");
    let rules: String =
        (0..=DEPTH).map(|place| format!("{{ allow = 'subscribe', topics = '{}' }},\n", rule(place))).collect();
    let permissions = policy(&format!("[[role]]\nname = 'r'\nrules = [\n{rules}]"))
        .resolve(&Subject { roles: &["r"], ..device("c") });
    let all = vec!["+"; DEPTH].join("/");
    assert!(subscribes(&permissions, &all).is_allowed());
    assert_eq!(subscribes(&permissions, &format!("{all}/#")), AccessDecision::Denied(Denial::NoRule));
}

#[test]
fn an_explanation_names_the_rule_the_role_and_the_reason() {
    let policy = policy(EXAMPLE);
    let request = Request::Publish { topic: "firmware/x", qos: Q1, retain: false };
    let explanation = policy.explain(&device("sensor-7"), &request);
    assert_eq!(
        explanation.to_string(),
        "denied: sensor-7, publish to firmware/x with QoS 1\n\
         rule:    access.toml:5, role guard: { deny = \"publish\", topics = \"firmware/#\" }\n\
         why:     this is the first rule of the client's roles that matches\n\
         roles:   guard ([[assign]] at line 35, everyone = true); device ([[assign]] at line 39, client_id = \"sensor-*\", listener = [\"tls\", \"ws\"])\n"
    );
    let filter = TopicFilter::new("devices/+/down").expect("a filter");
    let explanation = policy.explain(&device("sensor-7"), &Request::Subscribe { filter, qos: Q1 });
    assert_eq!(explanation.rule, None);
    assert_eq!(
        explanation.reason,
        "the filter also matches devices/any/down, and for that no rule of the client's roles matches; the default is to deny"
    );
    let request = Request::Publish { topic: "devices/sensor-7/up", qos: Q2, retain: false };
    let notes = policy.explain(&device("sensor-7"), &request).notes;
    assert_eq!(
        notes,
        ["allowed instead: publish to devices/sensor-7/up with QoS 0; publish to devices/sensor-7/up with QoS 1"]
    );
    let claims = [("kind", "app"), ("tenant", "a/b")];
    let explanation = policy.explain(
        &Subject { claims: &claims, roles: &["gone"], user: Some("bob@example.org"), ..device("x") },
        &Request::Publish { topic: "tenants/a/b", qos: Q1, retain: false },
    );
    assert!(!explanation.decision.is_allowed());
    assert!(explanation.notes[0].starts_with("{claim.tenant} has no value"), "{explanation}");
    assert_eq!(explanation.notes[1], "authentication grants the role gone, which is not in the file");
    assert!(explanation.to_string().contains("worker ([users])"));
    let open = Arc::new(Policy::open()).explain(&device("x"), &Request::Publish { topic: "a", qos: Q0, retain: true });
    assert_eq!(open.reason, "there is no rule file, so everything is allowed");
}

#[test]
fn a_reload_affects_only_clients_whose_roles_have_changed() {
    let changed = EXAMPLE.replace("devices/{client_id}/down/#", "devices/{client_id}/in/#");
    let (old, new) = (policy(EXAMPLE), policy(&changed));
    let changes = Changes::between(&old, &new);
    let concerned = |subject: &Subject<'_>| changes.can_affect(&old.resolve(subject), &new.resolve(subject));
    assert!(concerned(&device("sensor-7")));
    assert!(!concerned(&device("other")));
    assert!(!concerned(&Subject { user: Some("alice"), ..device("console") }));
    let was = old.resolve(&device("sensor-7"));
    let is = new.resolve(&device("sensor-7"));
    assert!(
        subscribes(&was, "devices/sensor-7/down/x").is_allowed()
            && !subscribes(&is, "devices/sensor-7/down/x").is_allowed()
    );

    let comment = policy(&format!("# A comment moves every line.\n{EXAMPLE}"));
    assert!(!Changes::between(&old, &comment).can_affect(&was, &comment.resolve(&device("sensor-7"))));
    let moved = policy(&EXAMPLE.replace("\"sensor-*\"", "\"probe-*\""));
    assert!(Changes::between(&old, &moved).can_affect(&was, &moved.resolve(&device("sensor-7"))));
    let open = Arc::new(Policy::open());
    assert!(Changes::between(&old, &open).can_affect(&was, &open.resolve(&device("sensor-7"))));
    assert!(!Changes::between(&open, &open).can_affect(&open.resolve(&device("a")), &open.resolve(&device("a"))));
}

#[test]
fn a_listener_has_its_own_rules() {
    const OWN: &str = r##"
[[role]]
name = "device"
rules = [{ allow = "publish", topics = "own/#" }]
[[assign]]
everyone = true
roles = "device"
"##;
    let parsed = |text: &str| Policy::parse("access.toml", text).expect("a valid file");
    let with = |own: &str| Arc::new(parsed(EXAMPLE).with_listeners(vec![("b".into(), parsed(own))]));
    let old = with(OWN);
    let by = |listener: &'static str| Subject { listener, ..device("sensor-7") };
    let may = |policy: &Arc<Policy>, listener, topic| {
        policy.resolve(&by(listener)).may_publish(topic, Q0, false).is_allowed()
    };
    assert!(may(&old, "tls", "devices/sensor-7/up/x") && !may(&old, "tls", "own/x"));
    assert!(may(&old, "b", "own/x") && !may(&old, "b", "devices/sensor-7/up/x"));
    assert!(Arc::ptr_eq(old.resolve(&by("b")).policy(), &old), "the same policy");
    let explained = old.explain(&by("b"), &Request::Publish { topic: "own/x", qos: Q0, retain: false });
    assert!(explained.decision.is_allowed() && explained.roles[0].role == "device");
    assert_eq!(old.rule_count(), policy(EXAMPLE).rule_count() + 1);

    let concerned = |new: &Arc<Policy>, listener| {
        Changes::between(&old, new).can_affect(&old.resolve(&by(listener)), &new.resolve(&by(listener)))
    };
    assert!(!concerned(&with(OWN), "tls") && !concerned(&with(OWN), "b"));
    let new = with(&OWN.replace("own/#", "other/#"));
    assert!(!concerned(&new, "tls") && concerned(&new, "b"));
    // A listener loses its own rules.
    assert!(concerned(&policy(EXAMPLE), "b") && !concerned(&policy(EXAMPLE), "tls"));

    let half = Arc::new(Policy::open().with_listeners(vec![("b".into(), parsed(OWN))]));
    assert!(!half.is_open() && may(&half, "tls", "anything") && !may(&half, "b", "anything"));
    assert!(Policy::open().with_listeners(vec![("b".into(), Policy::open())]).is_open());
}
