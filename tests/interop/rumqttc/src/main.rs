//! Tests a broker with rumqttc: its `v4` client for MQTT 3.1.1, its `v5` client for MQTT 5.0.
//! Run as `HOST PORT [CASE…]` or `--list`.

mod both_versions;
mod connection;
mod harness;
mod peer;
mod secure;
mod v3;
mod v5;
mod v5_only;

use std::process::ExitCode;

use connection::Version;
use harness::Case;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let cases = all_cases();
    if arguments == ["--list"] {
        for (name, ..) in &cases {
            println!("{name}");
        }
        return ExitCode::SUCCESS;
    }
    let [host, port, chosen @ ..] = arguments.as_slice() else {
        eprintln!("usage: tautwire-interop-rumqttc HOST PORT [CASE…] | --list");
        return ExitCode::from(2);
    };
    let Ok(port) = port.parse() else {
        eprintln!("not a port: {port}");
        return ExitCode::from(2);
    };
    if let Some(unknown) = chosen.iter().find(|wanted| !cases.iter().any(|(name, ..)| name == *wanted)) {
        eprintln!("unknown case: {unknown}");
        return ExitCode::from(2);
    }
    let mut status = ExitCode::SUCCESS;
    for (name, version, case) in cases {
        if !chosen.is_empty() && !chosen.contains(&name) {
            continue;
        }
        match harness::attempt(host, port, version, case).await {
            Ok(()) => println!("ok {name}"),
            Err(failure) => {
                println!("FAIL {name}: {failure}");
                status = ExitCode::FAILURE;
            }
        }
    }
    status
}

fn all_cases() -> Vec<(String, Version, Case)> {
    let mut cases = Vec::new();
    for (prefix, version) in [("v3", Version::V3), ("v5", Version::V5)] {
        for (name, case) in both_versions::CASES {
            cases.push((format!("{prefix}_{name}"), version, *case));
        }
    }
    for (name, case) in v5_only::CASES {
        cases.push((format!("v5_{name}"), Version::V5, *case));
    }
    cases
}
