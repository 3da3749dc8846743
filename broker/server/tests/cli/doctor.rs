//! Tests of `tautwire doctor`.

use crate::contracts::Folder;
use crate::process::{Ended, run};

fn doctor(arguments: &[&str]) -> Ended {
    run(&[&["doctor"], arguments].concat())
}

fn line<'a>(ended: &'a str, what: &str) -> &'a str {
    ended.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what}: {ended}"))
}

#[test]
fn doctor_reports_passed_and_failed_checks_with_advice() {
    let folder = Folder::new(&[]);
    let data = format!("data.path={}", folder.path("data"));
    // The exit code depends on the machine.
    let text = doctor(&["--set", &data]).text();
    for what in ["descriptors", "backlog", "memory", "clock", "a sync in "] {
        line(&text, what);
    }
    let ended = doctor(&["--set", &data, "--threads", "64", "--set", "limits.connections=1000000"]).expect(3);
    assert!(line(&ended.text(), "threads").starts_with("warning"), "{}", ended.text());
    let json = doctor(&["--memory", "--threads", "64", "--json"]).expect(3).text();
    assert!(json.contains("{\"check\":\"threads\",\"status\":\"warning\","), "{json}");
    assert!(json.contains("all data is in memory"), "{json}");
    assert_eq!(std::fs::read_dir(folder.path("")).expect("a folder").count(), 0, "nothing is left");
}

/// Fixes that are not settings are shell commands.
#[test]
fn printed_advice_can_be_pasted() {
    let folder = Folder::new(&[("the token", "0123456789abcdef")]);
    let settings = [
        format!("data.path={}", folder.path("the data")),
        format!("admin.token_file={}", folder.path("the token")),
        "admin.listen=127.0.0.1:0".to_owned(),
        "limits.connections=100000000".to_owned(),
        "limits.websocket_frame_bytes=1000".to_owned(),
    ];
    let token = std::path::Path::new(&settings[1]["admin.token_file=".len()..]).to_owned();
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("it is ours");
    let arguments: Vec<&str> =
        settings.iter().flat_map(|setting| ["--set", setting]).chain(["--threads", "64"]).collect();
    let text = doctor(&arguments).expect(3).text();
    let fixes: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&" ".repeat(22))).collect();
    assert!(fixes.contains(&"set limits.websocket_frame_bytes = 16777216"), "{text}");
    for fix in fixes.iter().filter(|fix| !fix.starts_with("set ") && !fix.starts_with("write ")) {
        let shell = std::process::Command::new("sh").args(["-n", "-c", fix]).status().expect("there is a shell");
        assert!(shell.success() && !fix.contains("USER"), "{fix}");
    }
    let chmod = fixes.iter().find(|fix| fix.starts_with("chmod")).unwrap_or_else(|| panic!("{text}"));
    assert!(std::process::Command::new("sh").args(["-c", chmod]).status().expect("there is a shell").success());
    assert!(!doctor(&arguments).expect(3).text().contains("chmod"));
    // Each fix is reported once.
    assert_eq!(text.matches("chmod").count(), text.matches("every user of this machine").count());
}

#[test]
fn expiring_certificates_and_readable_keys_are_reported() {
    let folder = Folder::new(&[]);
    run(&["cert", "--dir", &folder.path("tls"), "--days", "3", "here.example"]).expect(0);
    let (certificate, key) = (folder.path("tls/server.pem"), folder.path("tls/server.key"));
    let (set_certificate, set_key) = (format!("tls.certificate={certificate}"), format!("tls.key={key}"));
    let is_tls = ["--memory", "--listen", "mqtts://127.0.0.1:0", "--set", &set_certificate, "--set", &set_key];
    let text = doctor(&is_tls).expect(3).text();
    let found = line(&text, "here.example");
    assert!(found.starts_with("warning") && found.contains("more days"), "{found}");
    assert!(!text.contains("every user of this machine can read"), "{text}");

    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    let text = doctor(&is_tls).expect(3).text();
    assert!(text.contains(&format!("chmod o= {key}")), "{text}");

    // The files of the admin API are checked, too; group access is fine, as in packages.
    let token = folder.path("token");
    std::fs::write(&token, "0123456789abcdef").expect("writes");
    let mode = |path: &str, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    let set =
        [format!("admin.certificate={certificate}"), format!("admin.key={key}"), format!("admin.token_file={token}")];
    let [set_certificate, set_key, set_token] = set.each_ref().map(String::as_str);
    let admin =
        ["--memory", "--set", "admin.listen=https://0", "--set", set_certificate, "--set", set_key, "--set", set_token];
    mode(&token, 0o640);
    let text = doctor(&admin).expect(3).text();
    assert!(text.contains(&format!("chmod o= {key}")) && line(&text, "here.example").contains("more days"), "{text}");
    assert!(!text.contains(&format!("chmod o= {token}")), "{text}");
    mode(&token, 0o644);
    let text = doctor(&admin).expect(3).text();
    assert!(text.contains(&format!("chmod o= {token}")), "{text}");
}

#[test]
fn an_unwritable_directory_and_an_invalid_configuration_are_reported() {
    let ended = doctor(&["--set", "data.path=/proc/tautwire"]).expect(3);
    assert!(line(&ended.text(), "cannot be written").starts_with("failed"), "{}", ended.text());
    let ended = doctor(&["--listen", "mqtts://127.0.0.1:0", "--set", "tls.certificate=/no/such/file"]).expect(1);
    assert!(ended.stderr.contains("tautwire: "), "{}", ended.stderr);
}
