//! `tautwire import`.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::process::{Broker, Process, run};

/// A temporary folder for one test, removed when this is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tautwire-import-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("writes");
        path.display().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const USERS: &str = "dave:$7$101$bWFkZSB1cCBzYQ==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\n";

#[test]
fn a_mosquitto_configuration_is_converted_to_an_equivalent_one() {
    let folder = Folder::new("whole");
    folder.write("passwd", USERS);
    folder.write("acl", "user dave\ntopic readwrite home/#\npattern read devices/%c/#\n");
    let conf = folder.write(
        "mosquitto.conf",
        "# A comment\nper_listener_settings false\nallow_anonymous false\npassword_file passwd\nacl_file acl\n\
         persistence true\npersistence_location /var/lib/mosquitto/\nautosave_interval 1800\n\
         persistent_client_expiration 2w\nmax_queued_messages 5000\nmax_inflight_messages 20\n\
         listener 1884 127.0.0.1\nmax_connections 100\nlistener 8080\nprotocol websockets\nmount_point up/\n\
         log_dest syslog\nno_such_option 1\nconnection other\naddress other.example.org\ntopic # both\n",
    );
    let stdout_text = run(&["import", "mosquitto", "--dir", &folder.0.display().to_string(), &conf]).expect(0).text();
    for expected in [
        "/var/lib/mosquitto/mosquitto.db: sessions and messages are not imported; stop Mosquitto and run `tautwire import mosquitto --data DIR",
        ":8: autosave_interval 1800: not needed",
        ":17: log_dest",
        ":18: no_such_option 1: unknown option",
        ":19: connection other: client_id is ",
    ] {
        assert!(stdout_text.contains(expected), "{expected}: {stdout_text}");
    }
    let (file, rules) = (folder.path("tautwire.toml"), folder.path("access.toml"));
    run(&["config", "check", "--config", &file]).expect(0);
    run(&["acl", "check", "--file", &rules]).expect(0);
    let text = fs::read_to_string(&file).expect("reads");
    for expected in [
        "address = \"mqtt://127.0.0.1:1884\"\nlimits.connections = 100\nauth.anonymous = false\n",
        "address = \"ws://[::]:8080\"\nmount_point = \"up/\"\n",
        "max_session_expiry_s = 1209600",
        "session_queue_messages = 5000",
        "in_flight_per_client = 20",
        "receive_maximum = 20",
        "[data]\npath = \"auto\"",
        "[[bridge]]\nname = \"other\"\naddresses = [\"mqtt://other.example.org:1883\"]\n",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    run(&["acl", "explain", "--file", &rules, "--user", "dave", "c", "publish", "home/x"]).expect(0);
    run(&["acl", "explain", "--file", &rules, "--user", "dave", "c", "publish", "away/x"]).expect(3);
    let again = run(&["import", "--dir", &folder.0.display().to_string(), &conf]).expect(1);
    assert!(again.stderr.contains("already exists"), "{}", again.stderr);
    run(&["import", "--force", "--dir", &folder.0.display().to_string(), &conf]).expect(0);
}

#[test]
fn without_a_listener_the_imported_configuration_is_local_only() {
    let folder = Folder::new("local");
    let conf = folder.write("mosquitto.conf", "max_keepalive 600\n");
    run(&["import", "--dir", &folder.0.display().to_string(), &conf]).expect(0);
    let text = fs::read_to_string(folder.path("tautwire.toml")).expect("reads");
    assert!(text.contains("address = \"mqtt://127.0.0.1:1883\"\nauth.anonymous = true\n"), "{text}");
    run(&["config", "check", "--config", &folder.path("tautwire.toml")]).expect(0);
}

/// Options before the first `listener` line belong to an additional listener.
#[test]
fn options_before_the_first_listener_apply_to_the_default_one() {
    let folder = Folder::new("default");
    let import = |conf: &str| {
        let conf = folder.write("mosquitto.conf", conf);
        let stdout_text = run(&["import", "--force", "--dir", &folder.0.display().to_string(), &conf]).expect(0).text();
        run(&["config", "check", "--config", &folder.path("tautwire.toml")]).expect(0);
        (stdout_text, fs::read_to_string(folder.path("tautwire.toml")).expect("reads"))
    };
    let (stdout_text, text) = import("allow_anonymous true\nmax_connections 7\nlistener 1885 127.0.0.1\n");
    assert!(stdout_text.contains("options before the first listener"), "{stdout_text}");
    assert!(text.contains("address = \"mqtt://[::]:1883\"\nlimits.connections = 7\n"), "{text}");
    assert!(text.contains("address = \"mqtt://127.0.0.1:1885\"\n"), "{text}");
    // Common options do not create one.
    let (stdout_text, text) = import("allow_anonymous true\nlog_type error\nlistener 1885 127.0.0.1\n");
    assert!(!stdout_text.contains("options before") && !text.contains("1883"), "{stdout_text}{text}");
}

#[test]
fn per_listener_options_that_are_global_here_are_reported() {
    let folder = Folder::new("joined");
    let import = |conf: &str| {
        let conf = folder.write("mosquitto.conf", conf);
        let stdout_text = run(&["import", "--force", "--dir", &folder.0.display().to_string(), &conf]).expect(0).text();
        run(&["config", "check", "--config", &folder.path("tautwire.toml")]).expect(0);
        (stdout_text, fs::read_to_string(folder.path("tautwire.toml")).expect("reads"))
    };
    let (stdout_text, text) = import(
        "allow_anonymous true\nlistener 1885 127.0.0.1\nmax_qos 0\nlistener 1886 127.0.0.1\nlistener 8080 127.0.0.1\n\
         protocol websockets\nwebsockets_origin https://a.example\nwebsockets_origin https://b.example\n",
    );
    assert!(!stdout_text.contains("max_qos") && text.matches("mqtt.max_qos").count() == 1, "{stdout_text}{text}");
    assert!(text.contains("address = \"mqtt://127.0.0.1:1885\"\nmqtt.max_qos = 0\n"), "{text}");
    assert!(text.contains("origins = [\"https://a.example\", \"https://b.example\"]"), "{text}");
    assert!(!stdout_text.contains("websockets_origin"), "{stdout_text}");
    let (stdout_text, text) = import("allow_anonymous true\nlistener 8080 127.0.0.1\nmax_qos 1\nprotocol websockets\n");
    assert!(stdout_text.contains("Mosquitto accepts web pages of all origins"), "{stdout_text}");
    assert!(!stdout_text.contains("max_qos") && text.contains("max_qos = 1\n"), "{stdout_text}{text}");
    for (types, level) in
        [("log_type error\n", "error"), ("log_type error\nlog_type notice\n", "info"), ("log_type all\n", "debug")]
    {
        let (stdout_text, text) = import(&format!("{types}listener 1885 127.0.0.1\nallow_anonymous true\n"));
        assert!(
            text.contains(&format!("level = \"{level}\"")) && !stdout_text.contains("log_type"),
            "{stdout_text}{text}"
        );
    }
    let (stdout_text, text) = import("allow_anonymous true\nlistener 1885\nsocket_domain ipv4\n");
    assert!(text.contains("mqtt://0.0.0.0:1885") && !stdout_text.contains("socket_domain"), "{stdout_text}{text}");
}

#[test]
fn plugins_that_read_files_are_imported_as_the_files() {
    let folder = Folder::new("plugins");
    for name in ["users", "others"] {
        folder.write(name, USERS);
    }
    folder.write("acl", "user dave\ntopic readwrite home/#\n");
    folder.write("acl-2", "topic read public/#\n");
    let conf = folder.write(
        "mosquitto.conf",
        "global_plugin /usr/lib/x86_64-linux-gnu/mosquitto_password_file.so\nplugin_opt_password_file users\n\
         plugin_load rules /usr/lib/mosquitto_acl_file.so\nplugin_opt_acl_file acl\n\
         plugin_load public /usr/lib/mosquitto_acl_file.so\nplugin_opt_acl_file acl-2\n\
         plugin_load others /usr/lib/mosquitto_password_file.so\n\
         listener 1884 127.0.0.1\nplugin_use rules\n\
         listener 1885\nlistener_allow_anonymous true\nplugin_use public\nplugin_use others\nplugin_opt_password_file others\n\
         listener 8080 127.0.0.1\nprotocol http_api\n",
    );
    let stdout_text = run(&["import", "--dir", &folder.path("new/made"), &conf]).expect(0).text();
    assert_eq!(stdout_text.lines().filter(|line| line.contains("mosquitto.conf:")).count(), 1, "{stdout_text}");
    assert!(stdout_text.contains(":16: protocol http_api: this listener is omitted"), "{stdout_text}");
    let file = folder.path("new/made/tautwire.toml");
    run(&["config", "check", "--config", &file]).expect(0);
    let text = fs::read_to_string(&file).expect("reads");
    let listeners: Vec<&str> = text.split("[[listener]]\n").skip(1).collect();
    let [first, second] = listeners.as_slice() else { panic!("{text}") };
    let expected = format!(
        "address = \"mqtt://127.0.0.1:1884\"\nauth.anonymous = false\nauth.password_file = \"{}\"\nacl.file = \"access.toml\"\n",
        folder.path("users")
    );
    // Connections from this machine need no TLS.
    assert_eq!(first.trim(), expected.trim());
    assert!(second.contains("auth.anonymous = true\n") && second.contains(&folder.path("others")), "{second}");
    assert!(second.contains("auth.plaintext_passwords = true\n"), "{second}");
    assert!(second.contains("acl.file = \"access-2.toml\"\n"), "{second}");
    for rules in ["access.toml", "access-2.toml"] {
        run(&["acl", "check", "--file", &folder.path(&format!("new/made/{rules}"))]).expect(0);
    }
}

#[test]
fn a_missing_file_is_reported() {
    let gone = run(&["import", "no-such.conf"]).expect(1);
    assert!(gone.stderr.contains("no-such.conf cannot be read"), "{}", gone.stderr);
}

/// A truncated configuration would have another meaning.
#[test]
fn a_file_that_is_too_large_is_refused_and_not_truncated() {
    let folder = Folder::new("large");
    let file = folder.write("mosquitto.conf", "allow_anonymous true\n");
    let opened = fs::OpenOptions::new().write(true).open(&file).expect("it is there");
    opened.set_len((16 << 20) + 1).expect("a file may have a hole");
    let refused = run(&["import", "--dir", &folder.0.display().to_string(), &file]).expect(1);
    assert!(refused.stderr.contains("is larger than the maximum of 16777216 bytes"), "{}", refused.stderr);
}

/// With two lists of origins, web pages that only one listener accepts would be accepted by both.
#[test]
fn several_lists_of_origins_are_intersected() {
    let folder = Folder::new("origins");
    let listener = |port: u16, origins: &[&str]| {
        let lines: String =
            origins.iter().map(|origin| format!("websockets_origin https://{origin}.example\n")).collect();
        format!("listener {port} 127.0.0.1\nprotocol websockets\n{lines}")
    };
    let text = format!("allow_anonymous true\n{}{}", listener(8081, &["a", "b"]), listener(8082, &["b", "c"]));
    let conf = folder.write("mosquitto.conf", &text);
    let stdout_text = run(&["import", "--dir", &folder.path("new"), &conf]).expect(0).text();
    assert!(stdout_text.contains("it contains the origins that each of them accepts"), "{stdout_text}");
    let text = fs::read_to_string(folder.path("new/tautwire.toml")).expect("reads");
    assert!(text.contains("origins = [\"https://b.example\"]\n"), "{text}");
}

/// OpenSSL completes a chain from `cafile`; here the certificate file contains the whole chain.
#[test]
fn a_certificate_chain_completed_by_openssl_is_written() {
    let folder = Folder::new("issuers");
    let authority = |name: &str| {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (parameters, KeyPair::generate().expect("a key"))
    };
    let (root, root_key) = authority("Root");
    let root_pem = root.clone().self_signed(&root_key).expect("signed").pem();
    let root = Issuer::new(root, root_key);
    let (middle, middle_key) = authority("Intermediate");
    let middle_pem = middle.clone().signed_by(&middle_key, &root).expect("signed").pem();
    let middle = Issuer::new(middle, middle_key);
    let leaf_key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let leaf_pem = leaf.signed_by(&leaf_key, &middle).expect("signed").pem();
    folder.write("server.key", &leaf_key.serialize_pem());
    folder.write("ca.pem", &format!("{root_pem}\n{middle_pem}"));
    folder.write("server.pem", &leaf_pem);
    let text =
        "allow_anonymous true\nlistener 8883 127.0.0.1\ncertfile server.pem\nkeyfile server.key\ncafile ca.pem\n";
    let conf = folder.write("mosquitto.conf", text);
    let stdout_text = run(&["import", "--dir", &folder.path("new"), &conf]).expect(0).text();
    assert!(stdout_text.contains("/server.pem: it has no chain, which OpenSSL completes from cafile"), "{stdout_text}");
    let chain = fs::read_to_string(folder.path("new/chain-8883.pem")).expect("it is written");
    let without_ends = |text: &str| text.replace(['\r', '\n'], "");
    assert_eq!(
        without_ends(&chain),
        without_ends(&format!("{leaf_pem}{middle_pem}")),
        "the root stays with the clients"
    );
    let text = fs::read_to_string(folder.path("new/tautwire.toml")).expect("reads");
    assert!(text.contains("tls.certificate = \"chain-8883.pem\"\n"), "{text}");
    // A certificate file with its chain is used unchanged.
    folder.write("server.pem", &format!("{leaf_pem}{middle_pem}"));
    let stdout_text = run(&["import", "--dir", &folder.path("whole"), &conf]).expect(0).text();
    assert!(!stdout_text.contains("it has no chain"), "{stdout_text}");
    // A file that cannot be read might contain the chain.
    let conf = folder.write("mosquitto.conf", &fs::read_to_string(&conf).expect("reads").replace("ca.pem", "gone.pem"));
    folder.write("server.pem", &leaf_pem);
    let refused = run(&["import", "--dir", &folder.path("gone"), &conf]).expect(1).stderr;
    assert!(refused.contains("gone.pem cannot be read") && refused.contains("the chain of"), "{refused}");
}

/// Each of these configurations once was written and did not start.
#[test]
fn an_imported_configuration_starts_and_is_as_restrictive() {
    let folder = Folder::new("starts");
    folder.write("acl", "# Nobody.\n");
    let cases = [
        ("allow_anonymous false\n", "Not authorized"),
        ("allow_anonymous true\nacl_file acl\n", "Not authorized"),
        ("allow_anonymous true\nplugin /usr/lib/mosquitto_dynamic_security.so\n", "Not authorized"),
        ("allow_anonymous true\nprotocol websockets\nwebsockets_origin localhost\n", ""),
    ];
    for (at, (lines, refusal)) in cases.into_iter().enumerate() {
        let conf = folder.write("mosquitto.conf", &format!("listener 0 127.0.0.1\n{lines}"));
        let new = folder.path(&format!("new-{at}"));
        run(&["import", "--dir", &new, &conf]).expect(0);
        let mut broker =
            Process::start_without_reader(&["serve", "--memory", "--config", &format!("{new}/tautwire.toml")]);
        let line = broker.output_line();
        let url = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{lines}: {line}")).to_owned();
        let published = run(&["pub", "--url", &url, "-q", "1", "t", "x"]);
        if refusal.is_empty() {
            published.expect(0);
        } else {
            assert_ne!(published.code, Some(0), "{lines}");
            assert!(published.stderr.contains(refusal), "{lines}: {}", published.stderr);
        }
    }
}

/// The broker would not start, so nothing is written, not even the folder.
#[test]
fn a_configuration_that_does_not_start_is_not_written() {
    let folder = Folder::new("unwritten");
    let conf = folder.write("mosquitto.conf", "allow_anonymous false\npassword_file gone\nlistener 1885 127.0.0.1\n");
    let refused = run(&["import", "--dir", &folder.path("a/b"), &conf]).expect(1).stderr;
    assert!(refused.contains("nothing is written, because the broker would not start"), "{refused}");
    assert!(refused.contains("/gone cannot be read"), "{refused}");
    assert!(!fs::exists(folder.path("a")).expect("it can be looked for"), "a folder is left");
    // Existing files are kept.
    fs::create_dir(folder.path("new")).expect("makes");
    folder.write("new/tautwire.toml", "# Mine.\n");
    let conf = folder.write("mosquitto.conf", "listener 1885 127.0.0.1\nallow_anonymous false\n");
    let refused = run(&["import", "--dir", &folder.path("new"), &conf]).expect(1).stderr;
    assert!(refused.contains("new/tautwire.toml already exists; --force replaces it"), "{refused}");
    let names: Vec<_> =
        fs::read_dir(folder.path("new")).expect("reads").map(|entry| entry.expect("reads").file_name()).collect();
    assert_eq!(names, ["tautwire.toml"]);
    assert_eq!(fs::read_to_string(folder.path("new/tautwire.toml")).expect("reads"), "# Mine.\n");
    run(&["import", "--force", "--dir", &folder.path("new"), &conf]).expect(0);
}

#[test]
fn a_dry_run_prints_the_configuration() {
    let folder = Folder::new("dry");
    state_file(&folder);
    folder.write("acl", "topic read public/#\n");
    let here = folder.0.display();
    let text = format!(
        "persistence true\npersistence_location {here}/\nallow_anonymous true\nacl_file acl\nlistener 1885 127.0.0.1\n"
    );
    let conf = folder.write("mosquitto.conf", &text);
    let new = folder.path("new");
    let stdout_text =
        run(&["import", "--dry-run", "--dir", &new, "--data", &folder.path("data"), &conf]).expect(0).text();
    for expected in [
        &format!("would be written: {new}/tautwire.toml\n"),
        "  | address = \"mqtt://127.0.0.1:1885\"\n",
        &format!("would be written: {new}/access.toml\n"),
        "  |     { allow = \"subscribe\", topics = \"public/#\" },\n",
        &format!("would be written: {here}/data, from "),
        " 3 sessions\n",
    ] {
        assert!(stdout_text.contains(expected), "{expected}: {stdout_text}");
    }
    for name in ["new", "data"] {
        assert!(!fs::exists(folder.path(name)).expect("it can be looked for"), "{name} is written");
    }
}

/// A file written by Mosquitto 2.0.11 with three sessions and one retained message.
const STATE: &str = include_str!("../../../mosquitto/tests/golden/mosquitto-2.0.11.txt");

fn state_file(folder: &Folder) -> String {
    let digits = STATE.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    let bytes: Vec<u8> = digits.map(|byte| u8::from_str_radix(byte, 16).expect("digits")).collect();
    fs::write(folder.0.join("mosquitto.db"), bytes).expect("writes");
    folder.path("mosquitto.db")
}

#[test]
fn sessions_and_messages_of_mosquitto_are_served() {
    let folder = Folder::new("state");
    let (state, data) = (state_file(&folder), folder.path("data"));
    let stdout_text = run(&["import", "mosquitto", "--data", &data, &state]).expect(0).text();
    for expected in [" 3 sessions\n", " 5 queued messages\n", " 3 messages in flight\n", " 1 retained"] {
        assert!(stdout_text.contains(expected), "{expected}: {stdout_text}");
    }
    assert!(!stdout_text.contains("without an exact counterpart"), "{stdout_text}");
    run(&["data", "check", "--data", &data]).expect(0);
    let broker = Broker::with(&[&format!("data.path={data}")]);
    let arguments = ["-i", "old", "-c", "a/#", "-q", "2", "-v", "-C", "3", "-W", "20"];
    let got = broker.subscribe_to_end(&arguments).expect(0).text();
    assert_eq!(got, "a/0 0\na/2 2\na/held held\n");
    let arguments = ["r", "-q", "1", "--retained-only", "-C", "1", "-W", "20"];
    assert_eq!(broker.subscribe_to_end(&arguments).expect(0).text(), "retained\n");
    // Check the directory again after the broker has written to it.
    drop(broker);
    run(&["data", "check", "--data", &data]).expect(0);
}

#[test]
fn a_configuration_names_the_state_to_import() {
    let folder = Folder::new("both");
    state_file(&folder);
    let here = folder.0.display().to_string();
    let conf =
        folder.write("mosquitto.conf", &format!("persistence true\npersistence_location {here}/\nmax_keepalive 600\n"));
    let data = folder.path("data");
    let stdout_text = run(&["import", "mosquitto", "--dir", &here, "--data", &data, &conf]).expect(0).text();
    assert!(stdout_text.contains(" 3 sessions\n") && !stdout_text.contains("are not imported"), "{stdout_text}");
    let text = fs::read_to_string(folder.path("tautwire.toml")).expect("reads");
    assert!(text.contains(&format!("[data]\npath = \"{data}\"")), "{text}");
    run(&["config", "check", "--config", &folder.path("tautwire.toml")]).expect(0);
}

#[test]
fn a_state_that_cannot_be_imported_leaves_nothing() {
    let folder = Folder::new("refused");
    let (state, data) = (state_file(&folder), folder.path("data"));
    let refused = |arguments: &[&str], why: &str| {
        let said = run(&[&["import", "mosquitto"], arguments].concat()).expect(1).stderr;
        assert!(said.contains(why), "{why}: {said}");
    };
    refused(&[&state], "use --data DIR");
    refused(&[], "write a mosquitto.conf");
    let conf = folder.write("mosquitto.conf", "persistence false\n");
    refused(&["--data", &data, &conf], "no mosquitto.db is given, and the configuration names none");
    let bytes = fs::read(&state).expect("reads");
    fs::write(&state, &bytes[..bytes.len() - 1]).expect("writes");
    refused(&["--data", &data, &state], "is truncated in the chunk at byte 704; ");
    fs::write(&state, b"SQLite format 3\0").expect("writes");
    refused(&["--data", &data, &state], "is an SQLite database");
    let names: Vec<_> =
        fs::read_dir(&folder.0).expect("reads").map(|entry| entry.expect("reads").file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    fs::write(&state, &bytes).expect("writes");
    fs::create_dir(&data).expect("makes");
    fs::write(folder.0.join("data/other"), "").expect("writes");
    refused(&["--data", &data, &state], "not empty; use --data with a new directory");
}
