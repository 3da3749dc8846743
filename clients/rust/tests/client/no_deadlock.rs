//! Handlers cannot block the client, and nothing leaks.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tautwire_client::{Client, Overflow, Publication, QoS, Subscribe, blocking};

use crate::support::{PATIENCE, Running, eventually, soon};

/// Each message is answered by five more, each awaited in the loop that reads a stream of capacity 1.
#[test]
fn a_handler_can_publish_subscribe_and_wait_on_threads() {
    let broker = Running::start();
    let client = blocking::Client::connect(broker.options()).expect("connects");
    let stream = client.subscribe(Subscribe::to("in").qos(QoS::AtMostOnce).capacity(1)).expect("granted");
    let mut out = client.subscribe(Subscribe::to("out").qos(QoS::ExactlyOnce)).expect("granted");
    let flood = blocking::Client::connect(broker.options()).expect("connects");
    for _ in 0..6 {
        flood.publish(Publication::new("in", "x")).expect("taken");
    }
    for _message in stream.take(6) {
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            client.publish(Publication::new("out", "x").qos(qos)).expect("taken").wait().expect("acknowledged");
        }
        let other = client.subscribe("other").expect("granted");
        other.unsubscribe().expect("ended");
    }
    for _ in 0..18 {
        out.next_timeout(PATIENCE).expect("arrives");
    }
}

#[tokio::test]
async fn a_handler_can_publish_subscribe_and_wait_on_one_tokio_thread() {
    let broker = Running::start();
    let client = Client::connect(broker.options()).await.expect("connects");
    let mut stream = client.subscribe(Subscribe::to("in").qos(QoS::AtLeastOnce).capacity(1)).await.expect("granted");
    let mut handles = Vec::new();
    for _ in 0..50 {
        handles.push(client.publish(Publication::new("in", "x").qos(QoS::AtLeastOnce)).await.expect("taken"));
    }
    for _ in 0..50 {
        soon(stream.next()).await.expect("arrives");
        let handle = client.publish(Publication::new("out", "x").qos(QoS::ExactlyOnce)).await.expect("taken");
        soon(handle).await.expect("acknowledged");
        client.subscribe("other").await.expect("granted").unsubscribe().await.expect("ended");
    }
    for handle in handles {
        soon(handle).await.expect("acknowledged");
    }
}

#[test]
fn an_unread_stream_does_not_block_acknowledgements_of_others() {
    let broker = Running::start();
    let client = blocking::Client::connect(broker.options().keep_alive(Duration::from_secs(1))).expect("connects");
    let _idle = client.subscribe(Subscribe::to("flood").capacity(1)).expect("granted");
    for _ in 0..100 {
        client.publish(Publication::new("flood", "x")).expect("taken");
        client.publish(Publication::new("t", "x").qos(QoS::AtLeastOnce)).expect("taken").wait().expect("acknowledged");
    }
    assert!(client.counters().dropped_full > 0, "more than eight times the capacity came while answers were due");
}

#[test]
fn a_full_stream_slows_the_server_and_loses_nothing() {
    let broker = Running::start();
    let client = blocking::Client::connect(broker.options()).expect("connects");
    let mut stream = client.subscribe(Subscribe::to("t").capacity(10)).expect("granted");
    let publisher = blocking::Client::connect(broker.options()).expect("connects");
    for number in 0..500u32 {
        publisher.publish(Publication::new("t", &number.to_be_bytes())).expect("taken");
        if number % 5 == 0 {
            publisher
                .publish(Publication::new("x", "").qos(QoS::AtLeastOnce))
                .expect("taken")
                .wait()
                .expect("acknowledged");
        }
    }
    eventually("reading stops", || client.counters().reading_held_up > 0);
    for number in 0..500u32 {
        assert_eq!(stream.next_timeout(PATIENCE).expect("arrives").payload(), number.to_be_bytes());
    }
    assert_eq!(client.counters().dropped_full, 0);
}

#[test]
fn a_stream_can_drop_instead_of_waiting() {
    let broker = Running::start();
    for (overflow, kept) in [(Overflow::DropNewest, 0..3u32), (Overflow::DropOldest, 7..10)] {
        let client = blocking::Client::connect(broker.options()).expect("connects");
        let mut stream = client.subscribe(Subscribe::to("t").capacity(3).overflow(overflow)).expect("granted");
        for number in 0..10u32 {
            client.publish(Publication::new("t", &number.to_be_bytes())).expect("taken");
        }
        eventually("all have arrived", || client.counters().machine.received == 10);
        for number in kept {
            assert_eq!(stream.next_timeout(PATIENCE).expect("kept").payload(), number.to_be_bytes(), "{overflow:?}");
        }
        assert_eq!(client.counters().dropped_full, 7);
    }
}

#[test]
fn a_server_that_does_not_read_does_not_block_closing() {
    let listener = std::net::TcpListener::bind(crate::support::any_port()).expect("a port");
    let address = listener.local_addr().expect("bound");
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client connects");
        stream.write_all(&[0x20, 3, 0, 0, 0]).expect("CONNACK");
        // Keeps the connection open until the test ends.
        let _ = is_done.recv();
    });
    let patience = Duration::from_millis(100);
    let client =
        blocking::Client::connect(crate::support::options(address).disconnect_timeout(patience)).expect("let in");
    let large = vec![0; 100_000];
    // The buffers of the sockets are unknown; those of the client are bounded.
    let taken = (0..1000).take_while(|_| client.try_publish(Publication::new("t", &large)).is_ok()).count();
    let mut bounded = taken < 1000;
    while !bounded {
        bounded = client.try_publish(Publication::new("t", &large)).is_err();
    }
    let waiting = client.clone();
    let waiter = std::thread::spawn(move || while waiting.publish(Publication::new("t", &vec![0; 100_000])).is_ok() {});
    let _ = client.disconnect();
    waiter.join().expect("publishing fails when the client is closed");
    drop(done);
    server.join().expect("no panic");
}

#[test]
fn many_threads_share_one_client() {
    let broker = Running::start();
    let client = blocking::Client::connect(broker.options()).expect("connects");
    let stream = client.subscribe(Subscribe::to("t/+").qos(QoS::AtLeastOnce)).expect("granted");
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = taken.clone();
    let taking = std::thread::spawn(move || {
        for _message in stream.take(4000) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let client = client.clone();
            scope.spawn(move || {
                for number in 0..1000u32 {
                    let topic = format!("t/{thread}");
                    let handle = client
                        .publish(Publication::new(&topic, &number.to_be_bytes()).qos(QoS::AtLeastOnce))
                        .expect("taken");
                    if number % 100 == 0 {
                        handle.wait().expect("acknowledged");
                    }
                }
            });
        }
    });
    taking.join().expect("no panic");
    assert_eq!(taken.load(Ordering::Relaxed), 4000);
}

#[test]
fn the_thread_ends_with_the_last_handle() {
    let broker = Running::start();
    let before = threads();
    for _ in 0..10 {
        let client = blocking::Client::connect(broker.options()).expect("connects");
        let stream = client.subscribe("t").expect("granted");
        drop(client);
        drop(stream);
    }
    // Other tests of this process have threads of the same name.
    eventually("no thread is left", || threads() <= before);
}

fn threads() -> usize {
    let tasks =
        std::fs::read_dir("/proc/self/task").map(|tasks| tasks.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let name = |task: &std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.iter().filter(|task| name(task).trim() == "tautwire-client").count()
}

#[tokio::test]
async fn a_cancelled_publish_sends_nothing() {
    let broker = Running::start();
    let mut limits = tautwire_client::Limits::default();
    limits.queue_messages = 1;
    let nobody = std::net::TcpListener::bind(crate::support::any_port()).expect("a port");
    let client = Client::start(crate::support::options(nobody.local_addr().expect("bound")).limits(limits));
    client.publish(Publication::new("t", "1")).await.expect("taken");
    let waits = tokio::time::timeout(Duration::from_millis(5), client.publish(Publication::new("t", "2"))).await;
    assert!(waits.is_err());
    assert_eq!(client.counters().machine.published, 1);
    drop(broker);
}
