//! `tautwire pub` and `tautwire sub` against `tautwire serve`.

use crate::process::{Broker, Process, run};

const VERSIONS: [&str; 3] = ["5", "3.1.1", "3.1"];
const QOS: [&str; 3] = ["0", "1", "2"];

#[test]
fn a_message_arrives_with_every_version_and_qos() {
    let broker = Broker::start();
    for version in VERSIONS {
        for qos in QOS {
            let subscriber = broker.subscribe(&["-V", version, "-q", qos, "-C", "1", "-F", "%t %q %r %p", "demo/#"]);
            broker.publish(&["-V", version, "-q", qos, "demo/hello", "hi there"]).expect(0);
            assert_eq!(subscriber.end().expect(0).text(), format!("demo/hello {qos} 0 hi there\n"), "{version}");
        }
    }
}

#[test]
fn each_line_of_standard_input_is_a_message_in_order() {
    let broker = Broker::start();
    let lines: String = (0..1_000).map(|number| format!("line {number}\n")).collect();
    for qos in QOS {
        let subscriber = broker.subscribe(&["-q", qos, "-C", "1000", "lines"]);
        broker.publish_with_input(&["-q", qos, "-l", "lines"], lines.as_bytes()).expect(0);
        assert_eq!(subscriber.end().expect(0).text(), lines);
    }
}

#[test]
fn a_line_is_sent_at_once_and_not_at_the_end_of_input() {
    let broker = Broker::start();
    let mut subscriber = broker.subscribe_without_reader(&["live"]);
    let mut publisher = broker.start_publish(&["-l", "live"]);
    for line in ["one", "two"] {
        publisher.give(format!("{line}\n").as_bytes());
        assert_eq!(subscriber.output_line(), line);
    }
    publisher.end().expect(0);
}

#[test]
fn binary_payloads_of_files_and_standard_input_arrive_whole() {
    let broker = Broker::start();
    let payload: Vec<u8> = (0..2_000_000_u32).map(|number| (number * 7 / 3) as u8).collect();
    let path = std::env::temp_dir().join(format!("tautwire-payload-{}", std::process::id()));
    std::fs::write(&path, &payload).expect("writes");
    let subscriber = broker.subscribe(&["-N", "-q", "1", "-C", "2", "bytes"]);
    broker.publish(&["-q", "1", "bytes", "-f", &path.display().to_string()]).expect(0);
    broker.publish_with_input(&["-q", "1", "bytes", "-s"], &payload).expect(0);
    std::fs::remove_file(&path).expect("removes");
    let received = subscriber.end().expect(0).stdout;
    assert!(received == [payload.as_slice(), &payload].concat(), "{} bytes", received.len());
}

#[test]
fn a_message_can_be_repeated_with_a_topic_alias() {
    let broker = Broker::start();
    let subscriber = broker.subscribe(&["-C", "3", "-v", "again"]);
    let repeat = ["--repeat", "3", "--repeat-delay", "0.01", "--topic-alias", "5", "again", "x"];
    broker.publish(&repeat).expect(0);
    assert_eq!(subscriber.end().expect(0).text(), "again x\nagain x\nagain x\n");
    assert!(
        broker
            .publish(&["--topic-alias", "65535", "again", "x"])
            .expect(1)
            .stderr
            .contains("a topic alias above the server's Topic Alias Maximum")
    );
}

#[test]
fn retained_messages_are_stored_marked_and_cleared() {
    let broker = Broker::start();
    broker.publish(&["-r", "-q", "1", "kept/a", "old"]).expect(0);
    assert_eq!(broker.subscribe_to_end(&["-C", "1", "-F", "%r %p", "kept/#"]).expect(0).text(), "1 old\n");

    let fresh = broker.subscribe(&["-R", "-C", "1", "kept/#"]);
    broker.publish(&["kept/b", "new"]).expect(0);
    assert_eq!(fresh.end().expect(0).text(), "new\n");

    let only = broker.subscribe(&["--retained-only", "kept/#"]);
    broker.publish(&["kept/b", "new"]).expect(0);
    assert_eq!(only.end().expect(0).text(), "old\n");

    broker.publish(&["-r", "-n", "-q", "1", "kept/a"]).expect(0);
    let never = broker.subscribe(&["-C", "1", "kept/#"]);
    broker.publish(&["kept/c", "first"]).expect(0);
    assert_eq!(never.end().expect(0).text(), "first\n");
}

#[test]
fn properties_reach_the_subscriber_and_its_json() {
    let broker = Broker::start();
    let subscriber = broker.subscribe(&["--json", "-q", "1", "--subscription-identifier", "9", "-C", "1", "props"]);
    let message = [
        "-q",
        "1",
        "props",
        "{\"a\":1}",
        "--content-type",
        "application/json",
        "--payload-format",
        "utf8",
        "--response-topic",
        "answers",
        "--correlation-data",
        "42",
        "--user-property",
        "k=v",
        "-D",
        "publish",
        "user-property",
        "k",
        "w",
    ];
    broker.publish(&message).expect(0);
    let text = subscriber.end().expect(0).text();
    let expected = "\"properties\":{\"user-properties\":{\"k\":\"v\",\"k\":\"w\"},\"payload-format-indicator\":1,\
                    \"content-type\":\"application/json\",\"response-topic\":\"answers\",\"correlation-data\":\"42\",\
                    \"subscription-identifiers\":[9]},\"payload\":\"{\\\"a\\\":1}\"}\n";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn a_persistent_session_gets_messages_published_while_offline() {
    let broker = Broker::start();
    for version in ["5", "3.1.1"] {
        let session = ["-V", version, "-i", "keeper", "-c", "-q", "2"];
        broker.subscribe_to_end(&[&session[..], &["-E", "news"]].concat()).expect(0);
        broker.publish(&["-q", "2", "news", "one"]).expect(0);
        broker.publish(&["-q", "1", "news", "two"]).expect(0);
        let ended = broker.subscribe_to_end(&[&session[..], &["-d", "-C", "2", "news"]].concat()).expect(0);
        assert_eq!(ended.text(), "one\ntwo\n");
        assert!(ended.stderr.contains("session present: true"), "{}", ended.stderr);

        broker.subscribe_to_end(&[&session[..], &["-U", "news"]].concat()).expect(0);
        broker.publish(&["-q", "1", "news", "three"]).expect(0);
        let marker = broker.subscribe(&[&session[..], &["-C", "1", "marker"]].concat());
        broker.publish(&["-q", "1", "marker", "end"]).expect(0);
        assert_eq!(marker.end().expect(0).text(), "end\n", "acknowledged messages and the removed filter stay away");
        // A clean start ends the session for the next version.
        broker.subscribe_to_end(&["-V", version, "-i", "keeper", "-E", "x"]).expect(0);
    }
}

#[test]
fn the_will_is_published_for_a_killed_subscriber_not_an_interrupted_one() {
    let broker = Broker::start();
    let watcher = broker.subscribe(&["-C", "2", "-v", "wills/#"]);
    let will = |topic| ["--will-topic", topic, "--will-payload", "gone", "--will-qos", "1", "other"];
    let polite = broker.subscribe(&will("wills/polite"));
    polite.interrupt();
    polite.end().expect(0);
    let mut killed = broker.subscribe(&will("wills/killed"));
    killed.kill();
    assert_eq!(killed.end().code, None);
    broker.publish(&["wills/end", "."]).expect(0);
    let mut lines: Vec<_> = watcher.end().expect(0).text().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["wills/end .", "wills/killed gone"]);
}

#[test]
fn messages_on_a_filtered_out_topic_are_not_printed() {
    let broker = Broker::start();
    let subscriber = broker.subscribe(&["-C", "2", "-T", "a/+/secret", "-v", "a/#"]);
    for topic in ["a/b", "a/b/secret", "a/c"] {
        broker.publish(&[topic, "m"]).expect(0);
    }
    assert_eq!(subscriber.end().expect(0).text(), "a/b m\na/c m\n");
}

#[test]
fn a_subscriber_exits_with_27_after_its_timeout() {
    let broker = Broker::start();
    let ended = broker.subscribe_to_end(&["-W", "0.2", "nothing/comes"]).expect(27);
    assert_eq!((ended.text(), ended.stderr), (String::new(), String::new()));
}

#[test]
fn a_subscriber_with_a_closed_output_exits_cleanly() {
    let broker = Broker::start();
    let mut subscriber = broker.subscribe_without_reader(&["-q", "1", "flow"]);
    subscriber.close_output();
    broker.publish(&["-q", "1", "flow", "x"]).expect(0);
    subscriber.end().expect(0);
}

#[test]
fn an_unsupported_feature_of_the_broker_is_reported() {
    let broker =
        Broker::with(&["mqtt.shared_subscription_available=false", "mqtt.max_qos=1", "mqtt.retain_available=false"]);
    let shared = broker.subscribe_to_end(&["$share/g/a"]).expect(1);
    assert!(shared.stderr.contains("(shared subscriptions) [not_supported]"), "{}", shared.stderr);
    assert!(broker.publish(&["-q", "2", "a", "m"]).expect(1).stderr.contains("(QoS 2) [qos_not_supported]"));
    assert!(broker.publish(&["-r", "a", "m"]).expect(1).stderr.contains("[retain_not_supported]"));
    assert_eq!(broker.publish(&["--quiet", "-r", "a", "m"]).expect(1).stderr, "");
}

#[test]
fn a_publisher_that_loses_its_broker_exits_with_2() {
    let broker = Broker::start();
    let mut publisher = broker.start_publish(&["-d", "-q", "1", "-l", "a"]);
    publisher.wait_for("connected as");
    drop(broker);
    publisher.wait_for("connection lost");
    publisher.end().expect(2);
}

#[test]
fn an_unreachable_broker_exits_with_2() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("binds").local_addr().expect("an address").port();
    let ended = run(&["pub", "-h", "127.0.0.1", "-p", &free.to_string(), "a", "m"]).expect(2);
    assert!(ended.stderr.starts_with("tautwire: cannot connect to the server: "), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("(127.0.0.1:{free}: ")), "{}", ended.stderr);
}

#[test]
fn messages_pass_through_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("tautwire-cli-unix-{}", std::process::id()));
    let at = format!("unix:{}", path.display());
    let gone = run(&["pub", "-h", &at, "a", "x"]).expect(2);
    assert!(gone.stderr.contains(&at), "{}", gone.stderr);
    let mut broker = Process::start_without_reader(&["serve", "--memory", "--listen", &at]);
    assert_eq!(broker.output_line(), format!("listening on {at}"));
    for (option, address) in
        [("-h", at.clone()), ("--url", at.clone()), ("--url", format!("mqtt+{}", at.replacen(":", "://", 1)))]
    {
        let retained = ["pub", option, &address, "-r", "-q", "2", "t", address.as_str()];
        run(&retained).expect(0);
        let received = run(&["sub", option, &address, "-q", "1", "-C", "1", "t"]).expect(0);
        assert_eq!(received.text(), format!("{address}\n"));
    }
    broker.interrupt();
    broker.end().expect(0);
}
