//! Listing, reading and removing retained messages.

use std::thread;
use std::time::Instant;

use crate::contracts::support::{World as Contracts, protobuf};
use crate::reload::World;
use crate::support::http::{Answer, post};
use crate::support::{AtLeastOnce, Broker, EXPECT_TIMEOUT, Folder, TOKEN, admin, every_case};

fn ask(broker: &Broker, method: &str, path: &str) -> Answer {
    admin(broker.admin_address(), method, path, "")
}

fn retain(broker: &Broker, topic: &str, payload: &[u8]) {
    post(broker.admin_address(), &format!("/messages/{topic}?retain=true&qos=1"), "", payload).expect(200);
}

/// All values of a member, in order.
fn texts(body: &str, name: &str) -> Vec<String> {
    let member = format!("\"{name}\":\"");
    body.split(&member).skip(1).map(|part| part.split('"').next().unwrap_or_default().to_owned()).collect()
}

/// The topics on all pages.
fn all_pages(broker: &Broker, query: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let page = ask(broker, "GET", &format!("/v1/retained?limit=4&{query}{after}")).expect(200);
        found.extend(texts(&page.body, "topic"));
        match texts(&page.body, "next").pop() {
            Some(next) => after = format!("&after={next}"),
            None => return found,
        }
    }
}

#[test]
fn messages_are_listed_page_by_page_in_topic_order() {
    for threads in [1, 2] {
        let world = World::new(threads, "[sys]\ninterval_s = 3600\n", &[]);
        let topics: Vec<String> = (0..15).map(|number| format!("r/{number:02}/x")).collect();
        for topic in topics.iter().rev() {
            retain(&world.broker, topic, topic.as_bytes());
        }
        retain(&world.broker, "other", b"");
        assert_eq!(all_pages(&world.broker, ""), topics);
        assert_eq!(all_pages(&world.broker, "filter=r/%2B/x"), topics);
        assert_eq!(all_pages(&world.broker, "filter=r/07/%23"), ["r/07/x"]);
        assert_eq!(all_pages(&world.broker, "filter=none"), Vec::<String>::new());
        assert!(all_pages(&world.broker, "filter=$SYS/%23").iter().any(|topic| topic == "$SYS/broker/version"));
        let page = ask(&world.broker, "GET", "/v1/retained?limit=1&filter=r/03/x").expect(200);
        assert_eq!(
            page.body,
            "{\"matched\":1,\"messages\":[{\"topic\":\"r/03/x\",\"qos\":1,\"payload_bytes\":6,\"expires_ms\":null,\
             \"content_type\":null,\"contract\":null}],\"next\":\"r/03/x\"}\n"
        );
        for wrong in ["limit=0", "limit=1001", "filter=a%23", "filter=$share/g/a", "filter=", "colour=red"] {
            ask(&world.broker, "GET", &format!("/v1/retained?{wrong}")).expect(400);
        }
        ask(&world.broker, "POST", "/v1/retained").expect(405);
    }
}

#[test]
fn one_message_is_shown_in_its_format() {
    let world = Contracts::new(2);
    let address = world.broker.admin_address();
    let reading = protobuf("d1", 20.5);
    post(address, "/messages/sensors/d1/reading?retain=true", "Content-Type: application/x-protobuf\r\n", &reading)
        .expect(200);
    let shown = ask(&world.broker, "GET", "/v1/retained/sensors/d1/reading").expect(200).body;
    for part in [
        "\"content_type\":\"application/x-protobuf\"",
        "\"contract\":\"reading\"",
        "\"payload_base64\":\"CgJkMREAAAAAAIA0QA==\"",
        "\"decoded\":{\"deviceId\":\"d1\",\"celsius\":20.5}",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    retain(&world.broker, "free/text", "é\"".as_bytes());
    retain(&world.broker, "free/bytes", b"\xff\0");
    let shown = ask(&world.broker, "GET", "/v1/retained/free/text").expect(200).body;
    assert!(shown.ends_with("\"payload_base64\":\"w6ki\",\"text\":\"é\\\"\"}\n"), "{shown}");
    let shown = ask(&world.broker, "GET", "/v1/retained/free%2Fbytes").expect(200).body;
    assert!(shown.ends_with("\"payload_base64\":\"/wA=\"}\n"), "{shown}");
    ask(&world.broker, "GET", "/v1/retained/free").expect(404);
    ask(&world.broker, "GET", "/v1/retained/free/%2B").expect(400);
    ask(&world.broker, "DELETE", "/v1/retained/free").expect(405);
}

#[test]
fn messages_matching_a_filter_are_removed_and_subscribers_notified() {
    every_case(|case| {
        let world = World::new(case.threads, "", &[]);
        for number in 0..100 {
            retain(&world.broker, &format!("r/{number}"), b"x");
        }
        retain(&world.broker, "kept", b"x");
        let mut subscribers: Vec<_> = (0..4)
            .map(|number| {
                let mut client = world.broker.connect(case.version, &format!("s{number}"));
                client.subscribe("r/7", AtLeastOnce);
                assert_eq!(client.receive().text(), "x");
                client
            })
            .collect();
        let answer = ask(&world.broker, "DELETE", "/v1/retained?filter=r/%23").expect(200);
        assert_eq!(answer.body, "{\"deleted\":100,\"refused\":0,\"more\":false}\n");
        for subscriber in &mut subscribers {
            let message = subscriber.receive();
            assert_eq!((message.topic(), message.text(), message.retain()), ("r/7", "", false));
        }
        assert_eq!(all_pages(&world.broker, ""), ["kept"]);
        assert_eq!(ask(&world.broker, "DELETE", "/v1/retained?filter=r/%23").expect(200).number("deleted"), 0);
        for wrong in ["", "filter=a%23", "filter=a&limit=3"] {
            ask(&world.broker, "DELETE", &format!("/v1/retained?{wrong}")).expect(400);
        }
        ask(&world.broker, "DELETE", "/v1/retained?filter=$SYS/%23").expect(403);
        assert!(!all_pages(&world.broker, "filter=$SYS/%23").is_empty());
    });
}

#[test]
fn removed_retained_messages_stay_removed_after_a_kill() {
    for threads in [1, 2] {
        let folder = Folder::new(&[("token", TOKEN)]);
        let start = || {
            let path = format!("data.path={}", folder.path().join("data").display());
            let token = format!("admin.token_file={}", folder.path().join("token").display());
            let own = ["admin.listen=127.0.0.1:0", "sys.interval_s=0", "limits.memory_bytes=2097152"];
            let all = [&own[..], &["limits.spill_threshold_bytes=65536", &path, &token]].concat();
            Broker::with(threads, &all)
        };
        let mut broker = start();
        for number in 0..200 {
            let payload = format!("{number:04}").repeat(1_024);
            retain(&broker, &format!("big/{number:03}"), payload.as_bytes());
        }
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        while admin(broker.admin_address(), "GET", "/metrics", "").expect(200).number("spilled_messages") < 100 {
            assert!(Instant::now() < deadline, "nothing is spilled to disk");
            thread::yield_now();
        }
        let list = ask(&broker, "GET", "/v1/retained?limit=1000").expect(200);
        assert_eq!(list.number("matched"), 200);
        let known = list.body.matches("\"payload_bytes\":4096").count();
        assert_eq!(known + list.body.matches("\"payload_bytes\":null").count(), 200, "{}", list.body);
        assert!(known < 200, "unknown for messages on disk");
        for number in (0..200).step_by(7) {
            let shown = ask(&broker, "GET", &format!("/v1/retained/big/{number:03}")).expect(200).body;
            assert!(shown.contains(&format!("\"text\":\"{number:04}{number:04}")), "{}", &shown[..200]);
        }
        assert_eq!(ask(&broker, "DELETE", "/v1/retained?filter=small/%23").expect(200).number("deleted"), 0);
        assert_eq!(ask(&broker, "DELETE", "/v1/retained?filter=big/%23").expect(200).number("deleted"), 200);
        retain(&broker, "last", b"x");
        broker.signal("KILL");
        drop(broker);
        broker = start();
        assert_eq!(all_pages(&broker, ""), ["last"]);
    }
}

#[test]
fn the_topic_tree_is_listed_level_by_level() {
    for threads in [1, 2] {
        let world = World::new(threads, "", &[]);
        for topic in ["power", "power/3/kwh", "power/3/kw", "power/12", "water/1", "%2Fslash"] {
            retain(&world.broker, topic, b"x");
        }
        let levels = |query: &str| ask(&world.broker, "GET", &format!("/v1/topics?{query}")).expect(200).body;
        assert_eq!(
            levels("parent=power"),
            "{\"levels\":[{\"level\":\"12\",\"topic\":\"power/12\",\"retained\":true,\"descendants\":0},\
             {\"level\":\"3\",\"topic\":\"power/3\",\"retained\":false,\"descendants\":2}],\"next\":null}\n"
        );
        let first = levels("");
        assert_eq!(texts(&first, "level"), ["", "$SYS", "power", "water"]);
        assert!(
            first.contains("{\"level\":\"power\",\"topic\":\"power\",\"retained\":true,\"descendants\":3}"),
            "{first}"
        );
        assert_eq!(texts(&levels("parent="), "topic"), ["/slash"]);
        assert_eq!(texts(&levels("limit=1&after=$SYS"), "next"), ["power"]);
        assert_eq!(levels("parent=nothing/here"), "{\"levels\":[],\"next\":null}\n");
        for wrong in ["parent=%23", "limit=0", "what=1"] {
            ask(&world.broker, "GET", &format!("/v1/topics?{wrong}")).expect(400);
        }
        ask(&world.broker, "DELETE", "/v1/topics").expect(405);
    }
}
