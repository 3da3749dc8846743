//! Credentials that are requested for each connection, against a server that records them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use tautwire_client::{Client, Credentials, Error, ProtocolVersion, blocking};
use tautwire_protocol::{DecodeOptions, Packet, decode};

use crate::support::{PATIENCE, any_port, options, soon};

/// User name and password.
type Said = (Option<String>, Option<Vec<u8>>);

/// Accepts each client, reports its credentials, and closes the connection.
fn server() -> (SocketAddr, Receiver<Said>) {
    let listener = TcpListener::bind(any_port()).expect("a port");
    let address = listener.local_addr().expect("bound");
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (mut bytes, mut piece) = (Vec::new(), [0; 1024]);
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                bytes.extend_from_slice(&piece[..count]);
                let Ok((Packet::Connect(connect), _)) = decode(&bytes, &DecodeOptions::new(ProtocolVersion::V5)) else {
                    continue;
                };
                let said = (connect.user_name.map(str::to_owned), connect.password.map(<[u8]>::to_vec));
                let is_over = tell.send(said).is_err() || stream.write_all(&[0x20, 3, 0, 0, 0]).is_err();
                if is_over {
                    return;
                }
                break;
            }
        }
    });
    (address, told)
}

#[test]
fn each_connection_requests_credentials_on_threads() {
    let (address, told) = server();
    let asked = AtomicUsize::new(0);
    let options = options(address).user_name("static").password("static").credentials(move || {
        let count = asked.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(Credentials::user_name("ann").password(format!("token-{count}"))))
    });
    let _client = blocking::Client::connect(options).expect("accepted");
    for count in 0..3 {
        let said = told.recv_timeout(PATIENCE).expect("it reconnects");
        assert_eq!(said, (Some("ann".to_owned()), Some(format!("token-{count}").into_bytes())));
    }
}

#[tokio::test]
async fn each_connection_requests_credentials_on_tokio() {
    let (address, told) = server();
    let options = options(address).credentials(|| async {
        tokio::task::yield_now().await;
        Ok(Credentials::token("token"))
    });
    let client = soon(Client::connect(options)).await.expect("accepted");
    tokio::task::spawn_blocking(move || {
        for _ in 0..2 {
            assert_eq!(told.recv_timeout(PATIENCE).expect("it reconnects"), (None, Some(b"token".to_vec())));
        }
    })
    .await
    .expect("no panic");
    drop(client);
}

fn panics() -> Credentials {
    panic!("the function panics, as it should")
}

#[tokio::test]
async fn failed_credentials_fail_the_attempt_without_secrets() {
    let (address, _told) = server();
    let failing = move || options(address).credentials(|| async { Err("secret".into()) });
    let panicking = || options(address).credentials(|| async { Ok(panics()) });
    let mut errors = vec![
        soon(Client::connect(failing())).await.expect_err("no credentials"),
        soon(Client::connect(panicking())).await.expect_err("no credentials"),
    ];
    let blocking = move || blocking::Client::connect(failing()).expect_err("no credentials");
    errors.push(tokio::task::spawn_blocking(blocking).await.expect("no panic"));
    for error in &errors {
        assert_eq!(error.code(), "callback_failed");
        assert!(!error.is_permanent() && !format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    let cause = std::error::Error::source(&errors[0]).map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("secret"));
    let never =
        options(address).credentials(std::future::pending).connect_timeout(std::time::Duration::from_millis(20));
    let late = soon(Client::connect(never)).await.expect_err("no credentials in time");
    assert!(matches!(late, Error::ConnectTimeout { .. }), "{late}");
}
