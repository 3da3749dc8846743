//! Taps: live streams of published messages.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use crate::contracts::support::{World, messagepack};
use crate::support::http::{Answer, post};
use crate::support::{AtLeastOnce, AtMostOnce, Broker, EXPECT_TIMEOUT, ExactlyOnce, TOKEN, V5, admin};

/// An open tap.
struct Tap(BufReader<TcpStream>);

impl Tap {
    #[track_caller]
    fn open(broker: &Broker, query: &str) -> Tap {
        let mut stream = TcpStream::connect(broker.admin_address()).expect("the admin API accepts connections");
        stream.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("a positive time is a valid timeout");
        let request = format!("GET /v1/tap?{query} HTTP/1.1\r\nHost: admin\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("the request is sent");
        let mut tap = Tap(BufReader::new(stream));
        assert_eq!(tap.line(), "HTTP/1.1 200 OK");
        // The first comment signals that the tap is open.
        while tap.line() != ": open" {}
        assert_eq!(tap.line(), "");
        tap
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line comes in time");
        assert!(line.ends_with('\n'), "the tap has ended");
        line.trim_end().to_owned()
    }

    /// The next event with its data.
    #[track_caller]
    fn event(&mut self) -> (String, String) {
        loop {
            let line = self.line();
            if let Some(name) = line.strip_prefix("event: ") {
                let data = self.line();
                assert_eq!(self.line(), "");
                return (name.to_owned(), data.strip_prefix("data: ").expect("data follows").to_owned());
            }
        }
    }

    #[track_caller]
    fn message(&mut self) -> String {
        let (name, data) = self.event();
        assert_eq!(name, "message", "{data}");
        data
    }
}

fn without_time(data: &str) -> &str {
    data.split_once(',').map_or("", |(_, rest)| rest)
}

#[test]
fn each_published_message_is_shown_once() {
    for threads in [1, 2] {
        let world = World::new(threads);
        let mut tap = Tap::open(&world.broker, "filter=sensors/%23");
        let mut all = Tap::open(&world.broker, "");
        // Subscribers on every thread: none of their copies is shown.
        let mut subscribers: Vec<_> = (0..6)
            .map(|number| {
                let mut client = world.connect(V5, &format!("s{number}"));
                client.subscribe("#", AtMostOnce);
                client
            })
            .collect();
        for (number, qos) in [AtMostOnce, AtLeastOnce, ExactlyOnce].into_iter().enumerate() {
            let mut publisher = world.connect(V5, &format!("p{number}"));
            let topic = format!("free/{number}");
            publisher.publish(&topic, qos, b"some text");
            subscribers.iter_mut().for_each(|subscriber| assert_eq!(subscriber.receive().topic(), topic));
            let shown = all.message();
            let expected = format!(
                "\"topic\":\"{topic}\",\"qos\":{},\"retain\":false,\"client_id\":\"p{number}\",\"payload_bytes\":9,\
                 \"text\":\"some text\",\"contract\":null}}",
                qos.as_u8()
            );
            assert_eq!(without_time(&shown), expected);
        }
        let reading = messagepack("d1", 20.5);
        post(world.broker.admin_address(), "/messages/sensors/d1/reading?retain=true", "", &reading).expect(200);
        for tap in [&mut tap, &mut all] {
            let shown = tap.message();
            let expected = format!(
                "\"topic\":\"sensors/d1/reading\",\"qos\":0,\"retain\":true,\"client_id\":null,\"payload_bytes\":{},\
                 \"decoded\":{{\"deviceId\":\"d1\",\"celsius\":20.5}},\"contract\":\"reading\"}}",
                reading.len()
            );
            assert_eq!(without_time(&shown), expected);
        }
        // A message that violates its contract is not published.
        post(world.broker.admin_address(), "/messages/strict/a", "", b"{}").expect(422);
        post(world.broker.admin_address(), "/messages/free/bytes", "", b"\xff").expect(200);
        assert!(all.message().contains("\"payload_base64\":\"/w==\""));
        let long = "é".repeat(5_000);
        post(world.broker.admin_address(), "/messages/free/long", "", format!("x{long}").as_bytes()).expect(200);
        let shown = all.message();
        assert!(
            shown.contains("\"payload_bytes\":10001") && shown.ends_with("\"contract\":null,\"truncated\":true}"),
            "{shown}"
        );
        assert!((4_096..4_500).contains(&shown.len()), "{}", shown.len());
    }
}

#[test]
fn messages_beyond_the_rate_are_counted_and_taps_are_limited() {
    let world = World::new(2);
    let ask = |query: &str| -> Answer { admin(world.broker.admin_address(), "GET", &format!("/v1/tap?{query}"), "") };
    let mut tap = Tap::open(&world.broker, "filter=a&rate=1");
    let began = Instant::now();
    let mut publisher = world.connect(V5, "p");
    for _ in 0..50 {
        publisher.publish("a", AtLeastOnce, b"x");
    }
    let (mut shown, mut skipped) = (0, 0);
    while shown + skipped < 50 {
        match tap.event() {
            (name, _) if name == "message" => shown += 1,
            (_, data) => {
                let count = data.strip_prefix("{\"count\":").and_then(|rest| rest.strip_suffix('}'));
                skipped += count.and_then(|count| count.parse::<u64>().ok()).expect("a count");
            }
        }
    }
    assert!(shown >= 1 && shown <= 2 + began.elapsed().as_secs(), "{shown} messages were shown");
    assert_eq!(world.count("admin_tap_messages_skipped"), skipped);

    let others: Vec<Tap> = (0..3).map(|_| Tap::open(&world.broker, "filter=b")).collect();
    assert!(ask("filter=b").expect(503).body.contains("\"busy\""));
    assert_eq!((world.count("admin_taps"), world.count("admin_taps_refused")), (4, 1));
    drop((tap, others));
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while world.count("admin_taps") > 0 {
        assert!(Instant::now() < deadline, "taps stay open");
    }
    Tap::open(&world.broker, "filter=b");
    for wrong in ["rate=0", "rate=501", "filter=a%23", "filter=$share/g/a", "colour=red"] {
        ask(wrong).expect(400);
    }
    admin(world.broker.admin_address(), "POST", "/v1/tap", "").expect(405);
}
