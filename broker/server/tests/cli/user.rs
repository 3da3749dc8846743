//! `tautwire user`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use crate::contracts::Folder;
use crate::process::{Broker, Process, run, run_with_input};

#[test]
fn users_are_added_changed_listed_and_removed() {
    let folder = Folder::new(&[("new-password", "second\r\n")]);
    let file = &folder.path("users");
    let added = run_with_input(&["user", "add", "-f", file, "alice"], b"first\n").expect(0);
    assert!(added.text().starts_with("user alice added to "), "{}", added.text());
    let before = fs::read_to_string(file).expect("a file");
    assert!(before.starts_with("alice:$argon2id$v=19$m=19456,t=2,p=1$") && before.contains(":$scram-sha-512$i="));
    assert_eq!(fs::metadata(file).expect("a file").permissions().mode() & 0o777, 0o600);

    run_with_input(&["user", "add", "--no-scram", "-f", file, "bob"], b"b").expect(0);
    let password = folder.path("new-password");
    run(&["user", "passwd", "-f", file, "--password-file", &password, "alice"]).expect(0);
    let listed = run(&["user", "list", "-f", file]).expect(0);
    assert_eq!(listed.text(), "alice  argon2id, SCRAM-SHA-256, SCRAM-SHA-512\nbob    argon2id\n");
    let after = fs::read_to_string(file).expect("a file");
    assert!(!after.contains(before.trim_end()) && !after.contains("second"), "{after}");

    run(&["user", "remove", "-f", file, "alice"]).expect(0);
    assert_eq!(run(&["user", "list", "-f", file]).expect(0).text(), "bob  argon2id\n");
    let names: Vec<_> =
        fs::read_dir(folder.path("")).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names.len(), 2, "something is left behind: {names:?}");
}

#[test]
fn errors_are_reported() {
    let folder = Folder::new(&[
        ("wrong", "alice:hunter2\n"),
        (
            "old",
            "bob:$6$Jztc1tU8uBHqv2KZ$jGDlSsQlGKK5KV1/CkIrBOJu/E7wKlPMdiyBg+443/2xOuVpg6Ntpex2liTK/0Bwditdjpp5DQIfd9yz7JvUZA==\n",
        ),
    ]);
    let (file, old, wrong) = (&folder.path("users"), &folder.path("old"), &folder.path("wrong"));
    let expect_error = |arguments: &[&str], input: &[u8], expected: &str| {
        let ended = run_with_input(&[&["user"], arguments].concat(), input).expect(1);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
        assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    };
    expect_error(&["add", "-f", file, "a:b"], b"x", "a user name must not contain colons");
    expect_error(&["add", "-f", file, "alice"], b"", "standard input has no password");
    expect_error(&["add", "-f", file, "alice"], b"\n", "a password must have 1 to 65,535 bytes");
    expect_error(&["add", "-f", old, "bob"], b"x", "the user bob already exists");
    expect_error(
        &["add", "-f", file, "--password", "hunter2", "alice"],
        b"",
        "can be read by every user of this machine",
    );
    expect_error(&["add", "-f", file], b"", "write the name of one user");
    expect_error(&["passwd", "-f", file, "alice"], b"x", "cannot read");
    expect_error(&["passwd", "-f", old, "alice"], b"x", "there is no user alice [user_unknown]");
    expect_error(&["remove", "-f", old, "alice"], b"", "there is no user alice [user_unknown]");
    expect_error(&["list", "-f", wrong], b"", ":1: there is no hash after the user name");
    expect_error(&["lsit"], b"", "did you mean user list?");
    assert_eq!(run(&["user", "list", "-f", old]).expect(0).text(), "bob  mosquitto $6$\n");
}

#[test]
fn concurrent_additions_of_users_lose_none() {
    let folder = Folder::new(&[]);
    let file = &folder.path("users");
    let names: Vec<String> = (0..8).map(|number| format!("user-{number}")).collect();
    let adding = names.iter().map(|name| {
        let mut process = Process::start(&["user", "add", "--no-scram", "-f", file, name]);
        process.give(b"password\n");
        process
    });
    for process in adding.collect::<Vec<_>>() {
        process.end().expect(0);
    }
    let listed = run(&["user", "list", "-f", file]).expect(0).text();
    assert!(names.iter().all(|name| listed.contains(name.as_str())), "{listed}");
}

#[test]
fn a_file_behind_a_symlink_keeps_its_group_and_the_link() {
    let folder = Folder::new(&[("real", "# users\n")]);
    let (link, real) = (folder.path("link"), folder.path("real"));
    std::os::unix::fs::symlink("real", &link).expect("a link");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o664)).expect("permissions");
    let owner = fs::metadata(&real).expect("a file").uid();
    run_with_input(&["user", "add", "--no-scram", "-f", &link, "alice"], b"x\n").expect(0);
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    let metadata = fs::metadata(&real).expect("a file");
    assert_eq!((metadata.permissions().mode() & 0o777, metadata.uid()), (0o640, owner));
    assert!(fs::read_to_string(&real).expect("text").starts_with("# users\nalice:$argon2id$"));
}

#[test]
fn a_scram_publisher_does_not_send_the_password() {
    let folder = Folder::new(&[("secret", "pencil\n"), ("wrong", "rubber\n")]);
    let file = &folder.path("users");
    run(&["user", "add", "-f", file, "--password-file", &folder.path("secret"), "a,b"]).expect(0);
    let broker = Broker::with(&[&format!("auth.password_file={file}")]);
    let publish = |hash: &str, password: &str| {
        let password = folder.path(password);
        broker.publish(&["-u", "a,b", "--scram", hash, "--password-file", &password, "-q", "1", "demo", "hi"])
    };
    for hash in ["sha-256", "sha-512"] {
        publish(hash, "secret").expect(0);
        let refused = publish(hash, "wrong").expect(3);
        assert!(refused.stderr.contains("Bad User Name or Password (0x86)"), "{}", refused.stderr);
    }
    let expect_error = |arguments: &[&str], expected: &str| {
        let ended = broker.publish(arguments).expect(1);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    };
    let secret = folder.path("secret");
    expect_error(&["--scram", "sha-256", "-u", "a,b", "demo", "hi"], "--scram needs a user name (-u) and a password");
    expect_error(&["--scram", "sha-256", "--password-file", &secret, "demo", "hi"], "--scram needs a user name (-u)");
    expect_error(&["--scram", "sha-1", "demo", "hi"], "expected one of sha-256, sha-512");
    expect_error(&["-V", "3.1.1", "--scram", "sha-256", "demo", "hi"], "--scram needs MQTT 5.0");
}

#[test]
fn suggested_commands_include_a_user_if_clients_need_a_password() {
    let folder = Folder::new(&[("secret", "pencil\n"), ("key", "a key of 32 bytes, or a few more\n")]);
    let file = folder.path("users");
    run(&["user", "add", "-f", &file, "--password-file", &folder.path("secret"), "device"]).expect(0);
    let password_file = format!("auth.password_file={file}");
    let printed = |settings: &[&str]| {
        let mut arguments = vec!["serve", "--memory", "--listen", "127.0.0.1:0", "--threads", "1"];
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        let mut broker = Process::start_without_reader(&arguments);
        assert!(broker.output_line().starts_with("listening on "));
        // The broker prints everything before it handles signals.
        broker.interrupt();
        let lines: String = std::iter::from_fn(|| Some(broker.output_line()).filter(|line| !line.is_empty())).collect();
        broker.end().expect(0);
        lines
    };
    let open = printed(&[]);
    assert!(open.contains("tautwire sub") && open.contains("mosquitto_pub") && !open.contains("-u"), "{open}");
    let closed = printed(&[&password_file]);
    assert!(closed.contains("TAUTWIRE_PASSWORD") && closed.contains("-u NAME 'demo/#'"), "{closed}");
    fs::write(folder.path("nobody"), "").expect("can be written");
    let empty = printed(&[&format!("auth.password_file={}", folder.path("nobody"))]);
    assert!(!empty.contains("tautwire sub"), "{empty}");
    let nobody = printed(&["auth.anonymous=false", &format!("auth.jwt_secret_file={}", folder.path("key"))]);
    assert!(!nobody.contains("tautwire sub"), "{nobody}");
}

#[test]
fn the_cost_of_a_hash_is_configurable() {
    let folder =
        Folder::new(&[("broker.toml", "auth.password_file = \"users\"\nauth.password_cost = \"m=8,t=1,p=1\"\n")]);
    let (config, file) = (&folder.path("broker.toml"), &folder.path("users"));
    let add = |arguments: &[&str]| run_with_input(&[&["user", "add", "--no-scram"], arguments].concat(), b"secret\n");
    add(&["--config", config, "of-the-configuration"]).expect(0);
    add(&["--config", config, "--cost", "m=16,t=1,p=2", "of-the-option"]).expect(0);
    add(&["-f", file, "--cost", "low", "low"]).expect(0);
    let text = fs::read_to_string(file).expect("a file");
    for (line, expected) in text.lines().zip([
        "of-the-configuration:$argon2id$v=19$m=8,t=1,p=1$",
        "of-the-option:$argon2id$v=19$m=16,t=1,p=2$",
        "low:$argon2id$v=19$m=4096,t=1,p=1$",
    ]) {
        assert!(line.starts_with(expected), "{line}");
    }
    let refused = add(&["-f", file, "--cost", "cheap", "x"]).expect(1).stderr;
    assert!(refused.contains("\"cheap\": the cost must be low, default, high, or m="), "{refused}");
    run(&["user", "list", "--config", config]).expect(0);
}

#[test]
fn a_missing_or_readable_password_file_is_reported_with_its_key() {
    let folder = Folder::new(&[("broker.toml", "listen = \"mqtt://127.0.0.1:0\"\nauth.password_file = \"users\"\n")]);
    let (config, file) = (&folder.path("broker.toml"), &folder.path("users"));
    let missing = run(&["config", "check", "--config", config]).expect(1).stderr;
    let expected = format!(
        "{config}:2:22: auth.password_file of listener mqtt://127.0.0.1:0: {file} cannot be read: No such file or directory"
    );
    assert!(missing.contains(&expected) && missing.contains("create it with: tautwire user add"), "{missing}");

    run_with_input(&["user", "add", "-f", file, "--cost", "low", "alice"], b"secret\n").expect(0);
    assert_eq!(run(&["config", "check", "--config", config]).expect(0).stderr, "");
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let open = run(&["config", "check", "--config", config]).expect(0).stderr;
    let expected =
        format!("warning: auth.password_file: every user of this machine can read {file}; run: chmod o= {file}");
    assert!(open.contains(&expected), "{open}");
}
