//! Help, version, configuration and invalid arguments, without a broker.

use crate::process::run;

#[test]
fn help_and_version_go_to_standard_output_and_succeed() {
    for (arguments, expected) in [
        (&["--help"][..], "Usage: tautwire COMMAND"),
        (&["help"], "Usage: tautwire COMMAND"),
        (&["help", "serve"], "Usage: tautwire serve"),
        (&["serve", "--help"], "Usage: tautwire serve"),
        (&["help", "config", "check"], "Usage: tautwire config check"),
        (&["help", "config"], "Usage: tautwire config show"),
        (&["pub", "--help"], "--repeat-delay SECONDS"),
        (&["sub", "--help"], "%j JSON"),
        (&["discover", "--help"], "--topic TOPIC"),
        (&["contract", "--help"], "Usage: tautwire contract add"),
        (&["help", "contract"], "Usage: tautwire contract check"),
        (&["contract", "diff", "--help"], "Exit codes: 0 compatible"),
        (&["help"], "  data backup     back up a data directory"),
        (&["data", "--help"], "Usage: tautwire data restore"),
        (&["help", "data"], "Usage: tautwire data dump"),
        (&["data", "check", "--help"], "Exit codes: 0 done, and nothing is lost"),
        (&["serve", "--help"], "--recover"),
        (&["cert", "--help"], "Usage: tautwire cert"),
        (&["--version"], concat!("tautwire ", env!("CARGO_PKG_VERSION"))),
    ] {
        let ended = run(arguments).expect(0);
        assert!(ended.text().contains(expected), "{arguments:?}: {}", ended.text());
        assert_eq!(ended.stderr, "");
    }
}

#[test]
fn wrong_arguments_are_reported_on_standard_error_with_exit_code_1() {
    for (arguments, expected) in [
        (&[][..], "Usage: tautwire COMMAND"),
        (&["sevre"], "did you mean serve?"),
        (&["serve", "--lisen", "x"], "did you mean --listen?"),
        (&["serve", "--set", "mqtt.max_qso=1"], "did you mean mqtt.max_qos?"),
        (&["serve", "--config", "no-such-file.toml"], "no-such-file.toml: cannot be read"),
        (&["pub", "a", "m", "-P", "hunter2"], "--password-file FILE"),
        (&["sub"], "a topic filter is missing"),
        (&["config", "chekc"], "did you mean config check?"),
        (&["config"], "config check"),
        (&["contract"], "contract check"),
        (&["contract", "chekc"], "did you mean contract check?"),
        (&["contract", "list", "extra"], "unexpected argument \"extra\""),
        (&["contract", "show"], "the name of one contract"),
        (&["contract", "list", "--admin", "http://127.0.0.1:1"], "--admin needs --token-file"),
        (&["contract", "list", "--path", "a", "--admin", "http://127.0.0.1:1"], "use one of them"),
        (&["contract", "diff", "one"], "write two folders"),
        (&["contract", "test", "name"], "a file with a payload is missing"),
        (&["contract", "add", "name"], "--schema is missing"),
        (&["discover", "a", "b"], "only one contract"),
        (&["data"], "data check"),
        (&["data", "chekc"], "did you mean data check?"),
        (&["data", "check", "--set", "data.path="], "use --data DIR"),
        (&["data", "check", "--data", "a", "--set", "data.path=b"], "use one of them"),
        (&["data", "check", "--data", "no-such-directory"], "no-such-directory: directory not found"),
        (&["data", "dump", "--data", "a", "--topic", "a/#/b"], "--topic"),
        (&["data", "backup", "--data", "a"], "write the directory for the backup"),
        (&["data", "restore", "--data", "a", "b", "c"], "write one backup directory"),
        (&["serve", "--memory", "--recover"], "--recover needs data.path"),
    ] {
        let ended = run(arguments).expect(1);
        assert!(ended.stderr.contains(expected), "{arguments:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("hunter2"));
        assert_eq!(ended.text(), "");
    }
}

#[test]
fn config_check_reports_all_errors_with_file_and_line() {
    let path = std::env::temp_dir().join(format!("tautwire-check-{}.toml", std::process::id()));
    let name = path.display().to_string();
    std::fs::write(&path, "threads = 1\n[mqtt]\nmax_qso = 1\nreceive_maximum = 0\n").expect("writes");
    let wrong = run(&["config", "check", "--config", &name]).expect(1);
    assert!(wrong.stderr.contains(&format!("{name}:3:1: there is no key mqtt.max_qso")), "{}", wrong.stderr);
    assert!(
        wrong.stderr.contains(&format!("{name}:4:19: mqtt.receive_maximum: 0 is out of range")),
        "{}",
        wrong.stderr
    );

    std::fs::write(&path, "listen = \"0.0.0.0:1883\"\nauth.anonymous = true\n").expect("writes");
    let right = run(&["config", "check", "--config", &name]).expect(0);
    assert_eq!(right.text(), "the configuration is valid\n");
    assert!(right.stderr.contains("is open to the network"), "{}", right.stderr);
    std::fs::remove_file(&path).expect("removes");
}

#[test]
fn config_show_output_reads_back_the_same() {
    let shown = run(&["config", "show", "--set", "mqtt.max_qos=1", "--listen", "127.0.0.1:7"]).expect(0).text();
    assert!(shown.contains("\nmax_qos = 1\n") && shown.contains("listen = [\"127.0.0.1:7\"]\n"), "{shown}");
    let path = std::env::temp_dir().join(format!("tautwire-show-{}.toml", std::process::id()));
    std::fs::write(&path, &shown).expect("writes");
    let again = run(&["config", "show", "--config", &path.display().to_string()]).expect(0).text();
    std::fs::remove_file(&path).expect("removes");
    assert_eq!(again, shown);
}

#[test]
fn a_missing_rule_file_is_reported_with_the_line_of_its_setting() {
    let listener = "[[listener]]\nname = \"own\"\naddress = \"mqtt://127.0.0.1:0\"\nacl.file = \"own.toml\"\n";
    let folder = crate::contracts::Folder::new(&[
        ("all.toml", "listen = \"mqtt://127.0.0.1:0\"\n[acl]\nfile = \"access.toml\"\n"),
        ("listener.toml", listener),
    ]);
    for (name, place, missing) in [("all.toml", "3:8", "access.toml"), ("listener.toml", "4:12", "own.toml")] {
        let (config, file) = (folder.path(name), folder.path(missing));
        let refused = run(&["config", "check", "--config", &config]).expect(1).stderr;
        let expected = format!("{config}:{place}: acl.file: {file}: cannot be read: No such file or directory");
        assert!(refused.contains(&expected), "{refused}");
        let by_option = format!("acl.file={file}");
        let refused = run(&["config", "check", "--set", &by_option]).expect(1).stderr;
        assert!(refused.contains(&format!("--set acl.file: acl.file: {file}: cannot be read")), "{refused}");
    }
}

#[test]
fn rules_that_never_apply_are_warnings_that_name_both_lines() {
    let folder = crate::contracts::Folder::new(&[
        (
            "access.toml",
            "[[role]]\nname = \"all\"\nrules = [\n    { allow = \"subscribe\", topics = \"#\" },\n    { deny = \"subscribe\", topics = \"secret/#\" },\n]\n",
        ),
        ("broker.toml", "acl.file = \"access.toml\"\nlisten = \"mqtt://127.0.0.1:0\"\n"),
    ]);
    let file = folder.path("access.toml");
    let checked = run(&["acl", "check", "--file", &file]).expect(0);
    assert_eq!(checked.text(), "the rules are valid: 2 rules in 1 role, 0 users, 1 warning\n");
    let by_configuration = run(&["config", "check", "--config", &folder.path("broker.toml")]).expect(0);
    for stderr_text in [checked.stderr, by_configuration.stderr] {
        let expected = format!(
            "tautwire: warning: {file}:5: role all: the rule {{ deny = \"subscribe\", topics = \"secret/#\" }} never applies: \
             {{ allow = \"subscribe\", topics = \"#\" }} at {file}:4 comes first"
        );
        assert!(stderr_text.contains(&expected), "{stderr_text}");
    }
}
