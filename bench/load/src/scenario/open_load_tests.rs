//! Load at a fixed rate with a minimal broker that can pause, drop and repeat.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::*;
use crate::broker::Broker;
use crate::mqtt::{Frame, Frames, ProtocolVersion};
use crate::system::Placement;

/// What the broker does with the message of a number.
#[derive(Clone, Copy)]
enum Fault {
    None,
    Pause { at: u64, lasting: Duration },
    Drop { at: u64 },
    Repeat { at: u64 },
    Damage { at: u64 },
}

/// Serves one client that publishes to itself.
fn broker(trick: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        stream.set_nodelay(true).expect("a socket option");
        // Ends with the client's connection.
        let _ = serve(stream, trick);
    });
    address
}

fn serve(mut stream: TcpStream, trick: Fault) -> std::io::Result<()> {
    let (mut input, mut chunk, mut number) = (Vec::new(), [0; 65_536], 0);
    loop {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        input.extend_from_slice(&chunk[..read]);
        let (mut output, mut frames) = (Vec::new(), Frames::of(&input));
        while let Ok(Some(frame)) = frames.next_frame() {
            answer(frame, trick, &mut number, &mut output);
        }
        let rest = frames.rest().to_vec();
        input = rest;
        stream.write_all(&output)?;
    }
}

fn answer(frame: Frame<'_>, trick: Fault, number: &mut u64, output: &mut Vec<u8>) {
    match frame.first_byte >> 4 {
        1 => output.extend([0x20, 2, 0, 0]),
        8 => output.extend([0x90, 3, frame.body[0], frame.body[1], 0]),
        3 => {
            let packet = [&[frame.first_byte, frame.body.len() as u8][..], frame.body].concat();
            let is_at = |at: u64| at == *number;
            match trick {
                Fault::Pause { at, lasting } if is_at(at) => thread::sleep(lasting),
                Fault::Repeat { at } if is_at(at) => output.extend(&packet),
                _ => {}
            }
            let whole = output.len()..output.len() + packet.len();
            match trick {
                Fault::Drop { at } if is_at(at) => {}
                _ => output.extend(packet),
            }
            if let Fault::Damage { at } = trick
                && is_at(at)
            {
                output[whole.end - 1] ^= 1;
            }
            *number += 1;
        }
        _ => {}
    }
}

fn plan(wiring: Wiring, publishers: usize) -> OpenLoadPlan {
    OpenLoadPlan {
        wiring,
        publishers,
        rate_per_s: 1000.0,
        qos: QosLevel::default(),
        payload: PayloadKind::Plain,
        payload_bytes: 32,
        name: "x",
    }
}

fn run(trick: Fault) -> (OpenLoadOutcome, Account) {
    // The wait for missing messages at the end takes its full time.
    let stall_timer =
        if matches!(trick, Fault::Drop { .. }) { Duration::from_millis(300) } else { Duration::from_secs(20) };
    let broker = Broker::within(broker(trick));
    let placement = Placement::default();
    let context = Context { broker: &broker, version: ProtocolVersion::V3_1_1, placement: &placement, run: 7 };
    let mut load = OpenLoad::open(plan(Wiring::Ring, 1), &context).expect("a client");
    load.stall_timer = stall_timer;
    let outcome = load.run_for(Duration::from_millis(500), 1).expect("a run");
    (outcome, load.account())
}

#[test]
fn every_due_message_is_sent_and_counted() {
    let (outcome, account) = run(Fault::None);
    assert!(account.is_exact(), "{account:?}");
    assert_eq!((account.published, outcome.latencies().count()), (outcome.deliveries, outcome.deliveries));
    // In half a second at 1,000 a second, however busy the machine is.
    assert_eq!(account.published, 500);
}

#[test]
fn a_pause_delays_every_message_due_during_it() {
    let (outcome, account) = run(Fault::Pause { at: 100, lasting: Duration::from_millis(200) });
    assert!(account.is_exact(), "{account:?}");
    // At 1,000 a second, 100 messages are due in its first half, and wait for 100 ms or more. Closed loop would see one.
    let late = outcome.latencies().written();
    let waited: u64 =
        late.values_ns.iter().zip(&late.counts).filter(|(ns, _)| **ns >= 98_000_000).map(|(_, count)| count).sum();
    assert!(waited >= 95, "{waited}");
}

#[test]
fn losses_duplicates_and_damage_are_distinguished() {
    let (_, dropped) = run(Fault::Drop { at: 50 });
    assert_eq!((dropped.lost, dropped.duplicated, dropped.corrupted, dropped.is_exact()), (1, 0, 0, false));
    let (_, repeated) = run(Fault::Repeat { at: 50 });
    assert_eq!((repeated.lost, repeated.duplicated, repeated.corrupted, repeated.is_exact()), (0, 1, 0, false));
    let (_, damaged) = run(Fault::Damage { at: 50 });
    assert_eq!((damaged.lost, damaged.duplicated, damaged.corrupted, damaged.is_exact()), (1, 0, 1, false));
}

#[test]
fn in_a_ring_each_client_receives_from_the_previous_one() {
    let received: Vec<_> = (0..3).map(|index| plan(Wiring::Ring, 3).publisher_of(index)).collect();
    assert_eq!(received, [Some(2), Some(0), Some(1)]);
    assert_eq!(plan(Wiring::Ring, 1).publisher_of(0), Some(0));
}

#[test]
fn in_pairs_the_second_half_receives_from_the_first() {
    let received: Vec<_> = (0..4).map(|index| plan(Wiring::Pairs, 2).publisher_of(index)).collect();
    assert_eq!(received, [None, None, Some(0), Some(1)]);
}

fn outcome(latencies_us: &[u64], lags_us: &[u64]) -> OpenLoadOutcome {
    let of = |values: &[u64]| {
        let mut histogram = Histogram::default();
        values.iter().for_each(|us| histogram.record(us * 1000));
        histogram
    };
    OpenLoadOutcome {
        windows: vec![of(latencies_us)],
        lag: of(lags_us),
        deliveries: latencies_us.len() as u64,
        elapsed: Duration::from_secs(1),
    }
}

#[test]
fn only_latencies_dominated_by_late_sending_are_invalid() {
    assert!(outcome(&[2500], &[2000]).lateness().is_some());
    assert!(outcome(&[50_000], &[2000]).lateness().is_none());
    assert!(outcome(&[500], &[400]).lateness().is_none());
    let mut measurement = Measurement::default();
    measurement.set("bytes_per_connection", 1.0);
    outcome(&[2500], &[2000]).describe("", &mut measurement);
    assert!(!measurement.metrics.contains_key("p99_us"));
    assert!(measurement.metrics.contains_key("send_lag_p99_us"));
    assert!(measurement.metrics.contains_key("bytes_per_connection"));
}

#[test]
fn a_median_is_valid_if_few_messages_were_sent_late() {
    let of = |latencies: &[u64], lags: &[u64]| {
        let mut measurement = Measurement::default();
        outcome(latencies, lags).describe("", &mut measurement);
        (measurement.metrics.contains_key("p50_us"), measurement.metrics.contains_key("p99_us"))
    };
    assert_eq!(of(&[100, 100, 100, 2500], &[10, 10, 10, 2000]), (true, false));
    assert_eq!(of(&[100, 100, 100, 2500], &[90, 90, 90, 2000]), (false, false));
}
