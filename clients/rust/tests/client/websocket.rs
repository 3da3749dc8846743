//! WebSocket against the listener of the broker.

use tautwire_client::{Client, Error, Options, Publication, QoS, Subscribe, blocking};
use tautwire_reactor::ListenerConfig;
use tautwire_session::AckLevel;
use tautwire_websocket::{FrameLimits, Origins, Path, WebSocketConfig};

use crate::support::{PATIENCE, Running, any_port, soon};

fn broker() -> Running {
    let rules = WebSocketConfig {
        path: Path::new("/mqtt").expect("a path"),
        origins: Origins::new(Vec::new()),
        limits: FrameLimits { frame_bytes: 1 << 20, message_bytes: 1 << 20 },
    };
    Running::listening(ListenerConfig {
        websocket: Some(rules),
        ..ListenerConfig::plain(any_port(), AckLevel::default())
    })
}

fn options(broker: &Running, path: &str) -> Options {
    Options::new(&format!("ws://{}{path}", broker.address())).expect("an address").reconnect(None)
}

#[test]
fn messages_pass_in_frames_on_threads() {
    let broker = broker();
    let client = blocking::Client::connect(options(&broker, "")).expect("let in");
    let mut stream = client.subscribe(Subscribe::to("t").qos(QoS::ExactlyOnce)).expect("granted");
    for size in [0, 1, 125, 126, 65_535, 65_536, 300_000] {
        let payload: Vec<u8> = (0..size).map(|at| at as u8).collect();
        client
            .publish(Publication::new("t", &payload).qos(QoS::ExactlyOnce))
            .expect("taken")
            .wait()
            .expect("acknowledged");
        assert!(stream.next_timeout(PATIENCE).expect("arrives").payload() == payload, "{size} bytes");
    }
    client.disconnect().expect("ends cleanly");
}

#[tokio::test]
async fn messages_pass_in_frames_on_tokio() {
    let broker = broker();
    let client = Client::connect(options(&broker, "/mqtt")).await.expect("let in");
    let mut stream = client.subscribe("t").await.expect("granted");
    for number in 0..1000u32 {
        client.publish(Publication::new("t", &number.to_be_bytes())).await.expect("taken");
    }
    for number in 0..1000u32 {
        assert_eq!(soon(stream.next()).await.expect("arrives").payload(), number.to_be_bytes());
    }
    client.disconnect().await.expect("ends cleanly");
}

#[test]
fn a_path_without_mqtt_is_reported() {
    let broker = broker();
    let error = blocking::Client::connect(options(&broker, "/other")).expect_err("nothing there");
    assert!(matches!(&error, Error::WebSocketRefused(why) if why.contains("404")), "{error}");
}
