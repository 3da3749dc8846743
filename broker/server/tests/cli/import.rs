//! `tautwire import`.

use std::fs;
use std::path::PathBuf;

use crate::process::run;

/// A folder of one test, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tautwire-import-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("writes");
        path.display().to_string()
    }

    fn path(&self, name: &str) -> String {
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
fn a_configuration_of_mosquitto_becomes_one_that_means_the_same() {
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
    let told = run(&["import", "--dir", &folder.0.display().to_string(), &conf]).expect(0).text();
    for expected in [
        ":7: persistence_location",
        ":8: autosave_interval 1800: needless",
        ":17: log_dest",
        ":18: no_such_option 1: is not known",
        ":19: connection other: there are no bridges",
        ":20: address other.example.org: there are no bridges",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let (file, rules) = (folder.path("tautwire.toml"), folder.path("access.toml"));
    run(&["config", "check", "--config", &file]).expect(0);
    run(&["acl", "check", "--file", &rules]).expect(0);
    let text = fs::read_to_string(&file).expect("reads");
    for expected in [
        "address = \"mqtt://127.0.0.1:1884\"\nconnections = 100\nauth.anonymous = false\n",
        "address = \"ws://0.0.0.0:8080\"\nmount_point = \"up/\"\n",
        "max_session_expiry_s = 1209600",
        "session_queue_messages = 5000",
        "in_flight_per_client = 20",
        "[data]\npath = \"auto\"",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    run(&["acl", "explain", "--file", &rules, "--user", "dave", "c", "publish", "home/x"]).expect(0);
    run(&["acl", "explain", "--file", &rules, "--user", "dave", "c", "publish", "away/x"]).expect(3);
    let again = run(&["import", "--dir", &folder.0.display().to_string(), &conf]).expect(1);
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    run(&["import", "--force", "--dir", &folder.0.display().to_string(), &conf]).expect(0);
}

#[test]
fn without_a_listener_mosquitto_serves_this_machine_alone() {
    let folder = Folder::new("local");
    let conf = folder.write("mosquitto.conf", "max_keepalive 600\n");
    run(&["import", "--dir", &folder.0.display().to_string(), &conf]).expect(0);
    let text = fs::read_to_string(folder.path("tautwire.toml")).expect("reads");
    assert!(text.contains("address = \"mqtt://127.0.0.1:1883\"\nauth.anonymous = true\n"), "{text}");
    run(&["config", "check", "--config", &folder.path("tautwire.toml")]).expect(0);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let gone = run(&["import", "no-such.conf"]).expect(1);
    assert!(gone.stderr.contains("no-such.conf cannot be read"), "{}", gone.stderr);
}

/// A part of a configuration would not mean the same.
#[test]
fn a_file_that_is_too_large_is_refused_and_not_cut_off() {
    let folder = Folder::new("large");
    let file = folder.write("mosquitto.conf", "allow_anonymous true\n");
    let opened = fs::OpenOptions::new().write(true).open(&file).expect("it is there");
    opened.set_len((16 << 20) + 1).expect("a file may have a hole");
    let refused = run(&["import", "--dir", &folder.0.display().to_string(), &file]).expect(1);
    assert!(refused.stderr.contains("is larger than 16777216 bytes, the most that is read"), "{}", refused.stderr);
}
