//! `tautwire token`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::contracts::Folder;
use crate::process::run;

#[test]
fn tokens_are_added_listed_and_removed_and_stored_as_hashes() {
    let folder = Folder::new(&[]);
    let file = &folder.path("tokens.toml");
    let add = |more: &[&str]| run(&[&["token", "add", "-f", file], more].concat());
    let first = add(&["--role", "read", "grafana"]).expect(0).text();
    let second =
        add(&["--role", "operate", "--payloads", "--expires", "2999-01-31T01:00:00+01:00", "on-call"]).expect(0);
    add(&["--role", "administer", "--days", "30", "deploy.2"]).expect(0);
    let secret = first.trim_end();
    assert!(secret.starts_with("tautwire_") && secret.len() > 64, "{secret}");
    assert_ne!(first, second.text());
    let stored = fs::read_to_string(file).expect("a file");
    assert!(!stored.contains(secret) && !stored.contains(&secret["tautwire_".len()..]), "{stored}");
    assert_eq!(fs::metadata(file).expect("a file").permissions().mode() & 0o777, 0o600);
    let listed = run(&["token", "list", "-f", file]).expect(0).text();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines[0], "grafana   read");
    assert_eq!(lines[1], "on-call   operate, payloads, until 2999-01-31T00:00:00Z");
    assert!(lines[2].starts_with("deploy.2  administer, until 2"), "{listed}");
    run(&["token", "remove", "-f", file, "on-call"]).expect(0);
    let listed = run(&["token", "list", "-f", file]).expect(0).text();
    assert!(!listed.contains("on-call") && listed.lines().count() == 2, "{listed}");
}

#[test]
fn errors_are_reported() {
    let folder = Folder::new(&[("wrong", "[[token]]\nname = \"a\"\nrole = \"root\"\n")]);
    let (file, wrong) = (&folder.path("tokens.toml"), &folder.path("wrong"));
    run(&["token", "add", "-f", file, "--role", "read", "a"]).expect(0);
    let expect_error = |arguments: &[&str], expected: &str| {
        let ended = run(&[&["token"], arguments].concat()).expect(1);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    };
    expect_error(&["add", "-f", file, "--role", "read", "a"], "token a already exists");
    expect_error(&["add", "-f", file, "b"], "--role is required");
    expect_error(&["add", "-f", file, "--role", "root", "b"], "expected one of read, operate, administer");
    expect_error(&["add", "-f", file, "--role", "read", "a b"], "a name has 1 to 64 letters");
    expect_error(&["add", "-f", file, "--role", "read"], "write the name of one token");
    expect_error(&["add", "-f", file, "--role", "read", "--expires", "2020-01-01T00:00:00Z", "b"], "a future time");
    expect_error(&["add", "-f", file, "--role", "read", "--days", "0", "b"], "at least 1");
    expect_error(
        &["add", "-f", file, "--role", "read", "--days", "1", "--expires", "2999-01-01T00:00:00Z", "b"],
        "use one of them",
    );
    expect_error(
        &["add", "-f", wrong, "--role", "read", "b"],
        ":3: role: expected read, operate or administer [tokens_file]",
    );
    expect_error(&["list", "-f", wrong], ":3: role");
    expect_error(&["remove", "-f", file, "b"], "there is no token b");
    expect_error(&["remove", "-f", &folder.path("gone"), "b"], "cannot be changed");
    expect_error(&["lsit"], "did you mean token list?");
}
