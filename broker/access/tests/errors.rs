//! Errors of rule files, with their positions.

use tautwire_access::{ErrorCode, Policy, limits};

fn errors(text: &str) -> Vec<String> {
    Policy::parse("access.toml", text).expect_err("an invalid file").iter().map(ToString::to_string).collect()
}

/// A file with one role, whose rules begin on line 4.
fn with_rules(rules: &str) -> String {
    format!("[[role]]\nname = \"r\"\nrules = [\n{rules}\n]\n")
}

#[test]
fn each_error_has_a_location_and_advice() {
    let right = with_rules("{ allow = 'publish', topics = 'a' }");
    for (text, expected) in [
        ("a = ".to_owned(), "access.toml:1:5: not valid TOML: "),
        (
            "rules = []".to_owned(),
            "access.toml:1:1: unknown key rules here; known keys are role, assign, users [access_unknown_key]",
        ),
        ("[role]\nname = 'r'".to_owned(), "access.toml:1:1: write [[role]], with two brackets"),
        ("users = 1".to_owned(), "access.toml:1:9: write [users], followed by"),
        ("[[role]]\nrules = []".to_owned(), "access.toml:1:1: the role has no name"),
        ("[[role]]\nname = 'r'".to_owned(), "access.toml:1:1: the role has no rules"),
        (
            "[[role]]\nname = ''\nrules = []".to_owned(),
            "access.toml:2:8: name must be a non-empty string [access_value]",
        ),
        ("[[role]]\nname = 'r'\nrules = 'a'".to_owned(), "access.toml:3:9: rules must be a list"),
        (
            "[[role]]\nname = 'r'\nrules = []\nusers = []".to_owned(),
            "access.toml:4:1: unknown key users here; known keys are name, rules",
        ),
        (
            format!("{right}[[role]]\nname = 'r'\nrules = []"),
            "access.toml:7:8: the role r is defined twice: give each role its own name [access_duplicate]",
        ),
        (with_rules("1"), "access.toml:4:1: a rule must be a table"),
        (with_rules("{ topics = 'a' }"), "access.toml:4:1: the rule has neither allow nor deny"),
        (with_rules("{ allow = 'publish' }"), "access.toml:4:1: the rule has no topics"),
        (
            with_rules("{ allow = 'publish', topics = [] }"),
            "access.toml:4:31: topics must be a string, or a list of strings",
        ),
        (
            with_rules("{ allow = 'publish', deny = 'publish', topics = 'a' }"),
            "access.toml:4:29: the rule has both allow and deny",
        ),
        (
            with_rules("{ allow = 'read', topics = 'a' }"),
            "access.toml:4:11: allow must be \"publish\", \"subscribe\", or both in a list; found read",
        ),
        (
            with_rules("{ deny = 'publish', topics = ['a', 'a#'] }"),
            "access.toml:4:36: a#: a wildcard must fill its whole level",
        ),
        (
            with_rules("{ deny = 'publish', topics = '{name}' }"),
            "access.toml:4:30: {name}: unknown placeholder {name}; known placeholders are {client_id}",
        ),
        (
            with_rules("{ deny = 'publish', topics = '$share/g/a' }"),
            "access.toml:4:30: $share/g/a: write the filter without $share/NAME/",
        ),
        (
            with_rules("{ deny = 'publish', topics = 'a', qos = 3 }"),
            "access.toml:4:41: qos must be 0, 1 or 2, or a list of these",
        ),
        (with_rules("{ deny = 'publish', topics = 'a', qos = [] }"), "access.toml:4:41: qos must be"),
        (
            with_rules("{ deny = 'publish', topics = 'a', retain = 1 }"),
            "access.toml:4:44: retain must be true or false",
        ),
        (
            with_rules("{ deny = 'subscribe', topics = 'a', retain = true }"),
            "access.toml:4:37: retain applies only to publish rules",
        ),
        (
            with_rules("{ deny = 'publish', topics = 'a', shared = true }"),
            "access.toml:4:35: shared applies only to subscribe rules",
        ),
        (
            with_rules("{ deny = 'publish', topic = 'a' }"),
            "access.toml:4:21: unknown key topic here; known keys are allow, deny, topics",
        ),
        (format!("{right}[[assign]]\neveryone = true"), "access.toml:6:1: roles is missing"),
        (format!("{right}[[assign]]\nroles = 'r'"), "access.toml:6:1: the assignment has no condition"),
        (
            format!("{right}[[assign]]\nroles = 'x'\neveryone = true"),
            "access.toml:7:9: there is no role x: add [[role]] with this name, or correct it [access_unknown_role]",
        ),
        (
            format!("{right}[[assign]]\nroles = 'r'\neveryone = false"),
            "access.toml:8:12: everyone must be true, or absent",
        ),
        (
            format!("{right}[[assign]]\nroles = 'r'\nclaims = {{}}"),
            "access.toml:8:10: claims must be a table with at least one claim",
        ),
        (
            format!("{right}[[assign]]\nroles = 'r'\nclaims = {{ a = 1 }}"),
            "access.toml:8:16: a must be a string, or a list of strings",
        ),
        (format!("{right}[[assign]]\nroles = 'r'\nuser = 7"), "access.toml:8:8: user must be a string"),
        (
            format!("{right}[[assign]]\nroles = 'r'\ngroup = 'x'"),
            "access.toml:8:1: unknown key group here; known keys are roles, everyone",
        ),
        (format!("{right}[users]\nann = 'x'"), "access.toml:7:7: there is no role x"),
        (format!("{right}[users]\nann = []"), "access.toml:7:7: ann must be a string, or a list of strings"),
        (String::new(), "access.toml: the file has no rule, so it would deny everything"),
        ("[[role]]\nname = 'r'\nrules = []".to_owned(), "access.toml: the file has no rule"),
    ] {
        let found = errors(&text);
        assert!(
            found.iter().any(|error| error.starts_with(expected)),
            "{text}\nfound    {found:?}\nexpected {expected}"
        );
    }
}

#[test]
fn all_errors_are_reported_in_file_order() {
    let text = "[users]\nann = 'x'\n[[role]]\nname = 'r'\nrules = [{ allow = 'fly', topics = 'a' }, { allow = 'publish', topics = '#/a' }]\n";
    let found = errors(text);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].contains(":2:7:") && found[1].contains(":5:20:") && found[2].contains(":5:73:"), "{found:?}");
    let many = with_rules(&"{ allow = 'fly', topics = 'a' },\n".repeat(limits::ERRORS_MAX + 5));
    assert_eq!(errors(&many).len(), limits::ERRORS_MAX);
}

#[test]
fn limits_are_enforced() {
    let long = format!("#{}\n", " ".repeat(limits::FILE_BYTES_MAX));
    assert!(errors(&long)[0].contains("[access_limit]"));
    let rule = |count: usize| with_rules(&format!("{{ allow = 'publish', topics = [{}] }}", "'a',".repeat(count)));
    assert!(Policy::parse("f", &rule(limits::RULES_MAX)).is_ok());
    assert!(errors(&rule(limits::RULES_MAX + 1))[0].contains("more than 100000 rules"));
    let roles = |count: usize| {
        (0..count)
            .map(|number| format!("[[role]]\nname = '{number}'\nrules = [{{ deny = 'publish', topics = 'a' }}]\n"))
            .collect::<String>()
    };
    assert_eq!(Policy::parse("f", &roles(limits::ROLES_MAX)).map(|policy| policy.role_count()), Ok(limits::ROLES_MAX));
    assert!(errors(&roles(limits::ROLES_MAX + 1))[0].contains("more than 10000 roles"));
    let claims = |count: usize| {
        let topics: String = (0..count).map(|number| format!("'{{claim.{number}}}',")).collect();
        with_rules(&format!("{{ allow = 'publish', topics = [{topics}] }}"))
    };
    assert!(Policy::parse("f", &claims(limits::PLACEHOLDERS_MAX)).is_ok());
    assert!(errors(&claims(limits::PLACEHOLDERS_MAX + 1))[0].contains("more than 64 different placeholders"));
    let assigns = |count: usize| roles(1) + &"[[assign]]\nroles = '0'\neveryone = true\n".repeat(count);
    assert!(Policy::parse("f", &assigns(limits::ASSIGNMENTS_MAX)).is_ok());
    assert!(errors(&assigns(limits::ASSIGNMENTS_MAX + 1))[0].contains("more than 10000 [[assign]]"));
}

#[test]
fn codes_are_stable_and_different() {
    let codes = ErrorCode::ALL.map(ErrorCode::as_str);
    assert!(codes.iter().all(|code| code.starts_with("access_")));
    assert!(codes.iter().enumerate().all(|(at, code)| !codes[..at].contains(code)));
}
