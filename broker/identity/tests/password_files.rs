//! Password files: errors have their line, and never contain what may be a password.

use proptest::prelude::*;
use tautwire_identity::edit::{self, Derived, EditError};
use tautwire_identity::{Account, ErrorCode, PasswordCost, PasswordFile, Secret, limits};

const HASH: &str = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

fn errors(text: &str) -> Vec<String> {
    PasswordFile::parse("users", text).expect_err("an invalid file").iter().map(ToString::to_string).collect()
}

fn account() -> Account {
    PasswordFile::parse("users", &format!("u:{HASH}")).expect("a file").user("u").expect("the user").clone()
}

#[test]
fn each_error_has_its_line() {
    let mosquitto = |iterations: &str| format!("u:$7${iterations}$AAAAAAAAAAAAAAAA${}==", "A".repeat(86));
    let argon2 =
        |cost: &str| format!("u:$argon2id$v=19${cost}$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4");
    let scram = |keys: &str| format!("u:{HASH}:{keys}");
    for (line, expected) in [
        ("alice".to_owned(), "the line has no colon"),
        ("alice:hunter2".to_owned(), "there is no hash after the user name"),
        ("alice:".to_owned(), "[users_no_hash]"),
        (format!(":{HASH}"), "a user name must not be empty [users_name]"),
        (format!(" u:{HASH}"), "have spaces around it"),
        (format!("u\tv:{HASH}"), "control characters"),
        ("u:$2b$12$abcdefghijklmnopqrstuv".to_owned(), "a hash of crypt(3)"),
        ("u:$6$rounds=5000$salt$hash".to_owned(), "a hash of crypt(3)"),
        ("u:$9$a$b".to_owned(), "unknown kind of hash; known kinds are $argon2id$, $7$ and $6$ [users_unknown_hash]"),
        ("u:$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65".to_owned(), "[users_unknown_hash]"),
        ("u:$7$101$AAAA$AAAA".to_owned(), "a salt must have 8 to 64 bytes [users_syntax]"),
        (mosquitto("0"), "iterations is 0; it must be from 1 to 2000000 [users_cost]"),
        (mosquitto("2000001"), "[users_cost]"),
        (mosquitto("0101"), "a number in the hash is not valid"),
        (mosquitto("-1"), "a number in the hash is not valid"),
        (argon2("m=262145,t=2,p=1"), "memory m is 262145; it must be from 8 to 262144 [users_cost]"),
        (argon2("m=256,t=17,p=1"), "iterations t is 17; it must be from 1 to 16"),
        (argon2("m=256,t=2,p=17"), "lanes p is 17"),
        (argon2("m=8,t=1,p=2"), "eight times its lanes"),
        (argon2("m=256,t=2,p=1,x=1"), "the cost of Argon2id must be m=…,t=…,p=…"),
        (argon2("t=2,m=256,p=1"), "the cost of Argon2id must be"),
        (scram("x"), "after the password hash there must be SCRAM keys or nothing"),
        (scram("$scram-sha-1$i=4096$c29tZXNhbHQ$AA$AA"), "SCRAM keys must be $scram-sha-256$ or $scram-sha-512$"),
        (scram("$scram-sha-256$i=4095$c29tZXNhbHQ$AA$AA"), "iterations i is 4095; it must be from 4096"),
        (scram("$scram-sha-256$i=4096$c29tZXNhbHQ$AA$AA"), "a SCRAM key must be as long as its hash"),
        (
            format!(
                "u:{HASH}:{keys}:{keys}",
                keys = format_args!("$scram-sha-256$i=4096$c29tZXNhbHQ${0}${0}", "A".repeat(43))
            ),
            "duplicate keys of SCRAM-SHA-256 [users_duplicate]",
        ),
        ("u:$argon2id$v=19".to_owned(), "the hash has a missing"),
        (format!("u:{}", "x".repeat(limits::LINE_BYTES_MAX)), "the line is longer than 4096 bytes [users_limit]"),
        (
            format!("u:{HASH}\nu:{HASH}"),
            "users:4: the user is already in line 3; remove one of the lines [users_duplicate]",
        ),
    ] {
        let errors = errors(&format!("# users\nok:{HASH}\n{line}\n"));
        let [error] = errors.as_slice() else { panic!("{line}: {errors:?}") };
        assert!(error.starts_with("users:3: ") || error.starts_with("users:4: "), "{error}");
        assert!(error.contains(expected), "{line}: {error}");
        assert!(!error.contains("hunter2") && !error.contains("nf65"), "{error}");
    }
}

#[test]
fn the_number_of_errors_is_limited() {
    assert_eq!(errors(&"wrong\n".repeat(1_000)).len(), limits::ERRORS_MAX);
}

#[test]
fn blank_lines_comments_and_crlf_are_accepted() {
    let text = format!("\r\n# a:b\r\n   \nu:{HASH}\r\nv:{HASH}");
    let file = PasswordFile::parse("users", &text).expect("a file");
    assert_eq!(file.users().map(|(name, _)| name).collect::<Vec<_>>(), ["u", "v"]);
    assert!(PasswordFile::parse("users", "").expect("a file").users().next().is_none());
}

#[test]
fn edits_do_not_change_other_lines() {
    let account = account();
    let text = format!("# first\nu:{HASH}\n\nv:{HASH}");
    let added = edit::add(&text, "w", &account).expect("added");
    assert_eq!(added, format!("{text}\nw:{HASH}\n"));
    assert_eq!(edit::remove(&added, "u").expect("removed"), format!("# first\n\nv:{HASH}\nw:{HASH}\n"));
    assert_eq!(edit::change(&text, "v", &account).expect("changed"), format!("# first\nu:{HASH}\n\nv:{HASH}\n"));
    assert_eq!(edit::add(&text, "u", &account), Err(EditError::Exists("u".to_owned())));
    assert_eq!(edit::remove(&text, "# first\nu"), Err(EditError::Unknown("# first\nu".to_owned())));
    assert_eq!(edit::change(&text, "x", &account), Err(EditError::Unknown("x".to_owned())));
    for name in ["", "a:b", "#a", " a", "a\nb", "a\r"] {
        assert!(matches!(edit::add(&text, name, &account), Err(EditError::Name(_))), "{name}");
    }
}

#[test]
fn a_password_has_length_limits() {
    let mut random = |bytes: &mut [u8]| bytes.fill(1);
    for wrong in [0, 65_536] {
        let made = edit::account(
            &Secret::new(vec![b'x'; wrong]),
            Derived { scram: false, cost: PasswordCost::default() },
            &mut random,
        );
        assert!(matches!(made, Err(EditError::Password(_))));
    }
}

proptest! {
    #[test]
    fn edited_files_are_readable(names in prop::collection::vec("[ -~à-ü]{1,12}", 1..12)) {
        let account = account();
        let (mut text, mut known) = (String::from("# users"), std::collections::BTreeSet::new());
        for (index, name) in names.iter().enumerate() {
            match edit::add(&text, name, &account) {
                Ok(longer) => {
                    prop_assert!(known.insert(name.clone()));
                    text = longer;
                }
                Err(EditError::Exists(_)) => prop_assert!(known.contains(name)),
                Err(error) => prop_assert!(matches!(error, EditError::Name(_))),
            }
            if index % 3 == 2 && let Some(first) = known.pop_first() {
                text = edit::remove(&text, &first).expect("removed");
            }
            let file = PasswordFile::parse("users", &text).expect("a file");
            prop_assert!(file.users().map(|(name, _)| name).eq(known.iter().map(String::as_str)));
        }
    }

    #[test]
    fn any_text_is_a_file_or_has_errors_with_lines(text in "([a-z#: ]|\\$|argon2id|v=19|m=8,t=1,p=1|7|6|101|AAAAAAAAAAA|scram-sha-256|i=4096|\n){0,80}") {
        if let Err(errors) = PasswordFile::parse("users", &text) {
            prop_assert!(!errors.is_empty());
            for error in errors {
                prop_assert!(error.line.is_some_and(|line| line >= 1 && line <= text.split('\n').count()));
                prop_assert!(ErrorCode::ALL.contains(&error.code));
            }
        }
    }
}
