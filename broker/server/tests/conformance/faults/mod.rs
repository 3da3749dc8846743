//! Fault injection: full and failing disks, foreign directories, clock jumps, and kills.
//!
//! The faults are real: a small file system of the test's own, and system calls that fail under `strace`. If these are not available, a
//! test prints one line and ends; with `TAUTWIRE_REQUIRED=1` that is a failure.

mod again;
mod beside;
mod clock;
mod failing;
mod full;
mod killed;
mod levels;
mod places;
mod small_disk;
mod strace;
mod upgrade;

use std::io::Write as _;
use std::process::{Command, Output};
use std::thread;

use crate::support::{AtLeastOnce, Broker, Client, Folder, TOKEN, V5, admin, program, reconnect, wait_until};

/// Reports that a test cannot run.
pub(crate) fn skipped(why: &str) {
    assert!(std::env::var_os("TAUTWIRE_REQUIRED").is_none(), "{why}");
    let name = thread::current().name().unwrap_or_default().to_owned();
    // Bypasses the capture of the test harness.
    let _ = writeln!(std::io::stderr(), "skipped {name}: {why}");
}

pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;

    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The settings of a broker with its state in `data` and an admin API whose token is in `folder`.
fn settings(folder: &Folder, data: &str, more: &[&str]) -> Vec<String> {
    folder.write("token", TOKEN);
    let token = format!("admin.token_file={}", folder.path().join("token").display());
    let own =
        [format!("data.path={data}"), token, "admin.listen=127.0.0.1:0".to_owned(), "sys.interval_s=0".to_owned()];
    own.into_iter().chain(more.iter().map(|setting| (*setting).to_owned())).collect()
}

fn start_by(wrapper: &[String], settings: &[String]) -> Broker {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    Broker::with_wrapper(wrapper, &[], &settings)
}

fn refused_by(wrapper: &[String], settings: &[String]) -> String {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    one_line(&Broker::refused_by(wrapper, &[], &settings))
}

/// The one line with the reason why a broker does not start.
fn one_line(stderr: &str) -> String {
    let errors: Vec<&str> = stderr.lines().filter(|line| line.contains(" ERROR ")).collect();
    assert_eq!(errors.len(), 1, "{stderr}");
    errors[0].to_owned()
}

fn start(settings: &[String]) -> Broker {
    start_by(&["env".to_owned()], settings)
}

fn metric(broker: &Broker, name: &str) -> u64 {
    admin(broker.admin_address(), "GET", "/metrics", "").expect(200).number(name)
}

fn health(broker: &Broker) -> (u16, String) {
    let get = |path| admin(broker.admin_address(), "GET", path, "");
    let answer = get("/health");
    // Clients are not sent to a broker with a failed disk, but its process need not be restarted.
    assert_eq!(get("/health/ready").status, answer.status);
    get("/health/live").expect(200);
    (answer.status, answer.body.trim().to_owned())
}

/// Runs `tautwire` under another program.
fn run_by(wrapper: &[String], arguments: &[&str]) -> Output {
    let words: Vec<String> = wrapper.iter().cloned().chain([program()]).collect();
    Command::new(&words[0]).args(&words[1..]).args(arguments).output().expect("the program starts")
}

/// The message of a failed command.
#[track_caller]
fn refusal(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Creates a session that queues everything on `kept/#`.
fn create_offline_session(broker: &Broker) {
    let mut subscriber = broker.connecting(V5, "subscriber").persistent().open();
    subscriber.subscribe("kept/#", AtLeastOnce);
    subscriber.disconnect();
    // Its disconnect has been processed when it reconnects.
    reconnect(broker, V5, "subscriber").disconnect();
}

/// A payload that starts with its number.
fn payload(number: usize, bytes: usize) -> Vec<u8> {
    let mut payload = format!("{number}:").into_bytes();
    payload.resize(bytes, b'x');
    payload
}

/// Publishes messages with consecutive numbers from `first` until one is refused. Returns its number, and the reason.
fn publish_until_refused(publisher: &mut Client, first: usize, bytes: usize) -> (usize, u8) {
    for number in first..first + 100_000 {
        let reason = publisher.publish("kept/x", AtLeastOnce, &payload(number, bytes));
        if reason != 0 {
            return (number, reason);
        }
    }
    panic!("nothing was refused");
}

/// Publishes these messages, all of which are accepted.
fn publish(broker: &Broker, numbers: std::ops::Range<usize>, bytes: usize) {
    let mut publisher = broker.connect(V5, "publisher");
    for number in numbers {
        assert_eq!(publisher.publish("kept/x", AtLeastOnce, &payload(number, bytes)), 0, "message {number}");
    }
}

/// Reconnects the subscriber, which receives these messages in order, and no others.
#[track_caller]
fn expect_stored(broker: &Broker, numbers: impl IntoIterator<Item = usize>) {
    let mut subscriber = reconnect(broker, V5, "subscriber");
    for number in numbers {
        let message = subscriber.receive();
        assert!(
            message.text().starts_with(&format!("{number}:")),
            "{number}: {}",
            &message.text()[..10.min(message.text().len())]
        );
    }
    subscriber.expect_nothing();
}

/// Checks that everything that needs no disk works.
fn expect_live(broker: &Broker) {
    let mut watcher = broker.connect(V5, "watcher");
    watcher.subscribe("live/#", crate::support::AtMostOnce);
    let mut publisher = broker.connect(V5, "live-publisher");
    publisher.publish("live/x", crate::support::AtMostOnce, b"on");
    assert_eq!(watcher.receive().text(), "on");
    assert_eq!(publisher.publish("live/x", AtLeastOnce, b"and on"), 0);
    assert_eq!(watcher.receive().text(), "and on");
}
