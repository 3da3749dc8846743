//! Requests and responders.

use std::time::Duration;

use tautwire_client::{
    Client, Error, ProtocolVersion, Publication, QoS, ReasonCode, Response, ResponseFailure, Subscribe, blocking,
};

use crate::support::{PATIENCE, Running, soon};

const QOS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

fn connect(broker: &Running) -> blocking::Client {
    blocking::Client::connect(broker.options()).expect("connects")
}

#[test]
fn responses_use_the_qos_of_their_requests_on_threads() {
    let broker = Running::start();
    let (asking, answering) = (connect(&broker), connect(&broker));
    let server = answering.clone();
    let responder = answering
        .respond("reverse/+", move |request| {
            // A handler may wait.
            server.publish(Publication::new("seen", "").qos(QoS::AtLeastOnce))?.wait()?;
            let reversed: Vec<u8> = request.payload().iter().rev().copied().collect();
            Ok(Response::new(reversed).content_type("text/plain").user_property("a", "b"))
        })
        .expect("granted");
    assert_eq!(responder.granted().collect::<Vec<_>>(), [("reverse/+", QoS::ExactlyOnce)]);
    let requester = asking.requester().expect("granted");
    assert!(requester.response_topic().starts_with("tautwire/response/"), "{}", requester.response_topic());
    for qos in QOS {
        let response = requester.request(Publication::new("reverse/1", "abc").qos(qos)).expect("answered");
        assert_eq!((response.payload(), response.qos()), (&b"cba"[..], qos));
        assert_eq!(response.properties().content_type(), Some("text/plain"));
        assert_eq!(response.properties().user_properties().collect::<Vec<_>>(), [("a", "b")]);
    }
    let response = requester.request(Publication::new("reverse/1", "abc")).expect("answered");
    assert_eq!(response.qos(), QoS::AtLeastOnce, "requests are at QoS 1 unless they say otherwise");
    responder.stop().expect("ended");
    assert!(matches!(requester.request(Publication::new("reverse/1", "abc")), Err(Error::NoResponder)));
}

#[tokio::test]
async fn responses_reach_their_requesters_on_tokio() {
    let broker = Running::start();
    let client = Client::connect(broker.options()).await.expect("connects");
    let double = |request: tautwire_client::Message| async move {
        let number: u32 = std::str::from_utf8(request.payload())?.parse()?;
        Ok((2 * number).to_string())
    };
    let responder = client.respond("double", double).await.expect("granted");
    let requester = client.requester_at("my/answers").await.expect("granted");
    assert_eq!(requester.response_topic(), "my/answers");
    let (one, other) = tokio::join!(
        soon(requester.request(Publication::new("double", "21"))),
        soon(requester.request(Publication::new("double", "4"))),
    );
    assert_eq!(one.expect("answered").payload(), b"42");
    assert_eq!(other.expect("answered").payload(), b"8");
    responder.stop().await.expect("ended");
    let nobody = soon(requester.request(Publication::new("double", "1"))).await;
    assert!(matches!(nobody, Err(Error::NoResponder)), "{nobody:?}");
    client.disconnect().await.expect("ends cleanly");
}

/// An error that wraps another.
#[derive(Debug)]
struct Wrapping(ResponseFailure);

impl std::fmt::Display for Wrapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("secret")
    }
}

impl std::error::Error for Wrapping {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Only text that is meant for the requester reaches it.
#[test]
fn a_failed_responder_reports_an_error_without_secrets() {
    let broker = Running::start();
    let client = connect(&broker);
    let _responder = client
        .respond("fail", |request| -> Result<Response, _> {
            match request.payload() {
                b"named" => Err(ResponseFailure::new("the tank is empty").into()),
                b"wrapped" => Err(Wrapping(ResponseFailure::new("the tank is empty")).into()),
                b"unnamed" => Err("secret".into()),
                b"large" => Ok(Response::default().content_type("x".repeat(70_000))),
                _ => panic!("the handler panics, as it should"),
            }
        })
        .expect("granted");
    let requester = client.requester().expect("granted");
    for (payload, expected) in [
        ("named", "the tank is empty"),
        ("wrapped", "the tank is empty"),
        ("unnamed", "the responder failed"),
        ("panics", "the responder failed"),
        ("large", "the responder failed"),
    ] {
        match requester.request(Publication::new("fail", payload)) {
            Err(Error::RequestFailed(sentence)) => assert_eq!(&*sentence, expected, "{payload}"),
            other => panic!("{payload}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_panicking_handler_on_tokio_is_a_failure() {
    let broker = Running::start();
    let client = Client::connect(broker.options()).await.expect("connects");
    let panics = |request: tautwire_client::Message| async move {
        assert!(request.payload() == b"good", "the handler panics, as it should");
        Ok("fine")
    };
    let _responder = client.respond("panics", panics).await.expect("granted");
    let requester = client.requester().await.expect("granted");
    let failed = soon(requester.request(Publication::new("panics", "bad"))).await;
    assert!(
        matches!(&failed, Err(Error::RequestFailed(sentence)) if &**sentence == "the responder failed"),
        "{failed:?}"
    );
    let fine = soon(requester.request(Publication::new("panics", "good"))).await.expect("the responder continues");
    assert_eq!(fine.payload(), b"fine");
}

/// At QoS 0 the server does not report that there are no subscribers.
#[test]
fn a_request_without_a_response_fails_at_once_or_times_out() {
    let broker = Running::start();
    let client = connect(&broker);
    let requester = client.requester().expect("granted");
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let nobody = requester.request(Publication::new("nobody", "x").qos(qos));
        assert!(matches!(nobody, Err(Error::NoResponder)), "{nobody:?}");
    }
    let requester = requester.timeout(Duration::from_millis(20));
    let nobody = requester.request(Publication::new("nobody", "x").qos(QoS::AtMostOnce));
    assert!(matches!(nobody, Err(Error::RequestTimeout)), "{nobody:?}");
}

#[test]
fn late_and_duplicate_responses_are_dropped_and_counted() {
    let broker = Running::start();
    let (asking, answering) = (connect(&broker), connect(&broker));
    let mut requests = answering.subscribe(Subscribe::to("twice").qos(QoS::AtLeastOnce)).expect("granted");
    let server = answering.clone();
    let worker = std::thread::spawn(move || {
        let request = requests.next_timeout(PATIENCE).expect("arrives");
        for _ in 0..2 {
            server.publish(request.reply("x").expect("a response topic")).expect("taken").wait().expect("acknowledged");
        }
        // Without a response topic there is no reply.
        let plain = requests.next_timeout(PATIENCE).expect("arrives");
        assert!(plain.reply("x").is_none());
    });
    let requester = asking.requester().expect("granted");
    requester.request(Publication::new("twice", "x")).expect("answered");
    asking.publish(Publication::new("twice", "x").qos(QoS::AtLeastOnce)).expect("taken").wait().expect("acknowledged");
    worker.join().expect("no panic");
    crate::support::eventually("the second is counted", || asking.counters().responses_dropped == 1);
}

#[test]
fn a_request_without_a_response_topic_is_handled_and_not_answered() {
    let broker = Running::start();
    let client = connect(&broker);
    let (tell, told) = std::sync::mpsc::channel();
    let _responder = client
        .respond("quiet", move |request| {
            tell.send(request.payload().to_vec())?;
            Ok(())
        })
        .expect("granted");
    let published = client.publish(Publication::new("quiet", "x").qos(QoS::AtLeastOnce)).expect("taken").wait();
    assert_eq!(published.expect("acknowledged").reason, ReasonCode::Success);
    assert_eq!(told.recv_timeout(PATIENCE).expect("handled"), b"x");
}

#[test]
fn a_dropped_responder_ends_its_subscription() {
    let broker = Running::start();
    let client = connect(&broker);
    drop(client.respond("gone", |_| Ok(())).expect("granted"));
    // A request that arrives before the end of the subscription is not answered.
    let requester = client.requester().expect("granted").timeout(Duration::from_millis(50));
    crate::support::eventually("it is gone", || {
        matches!(requester.request(Publication::new("gone", "x")), Err(Error::NoResponder))
    });
}

#[test]
fn requests_need_5_0() {
    let broker = Running::start();
    let old = blocking::Client::connect(broker.options().version(ProtocolVersion::V3_1_1)).expect("connects");
    assert_eq!(old.requester().expect_err("no response topics").code(), "not_supported");
    assert_eq!(old.respond("a", |_| Ok(())).expect_err("no response topics").code(), "not_supported");
}
