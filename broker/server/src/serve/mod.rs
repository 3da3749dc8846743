//! Running the broker.

mod settings;

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tautwire_reactor::Broker;

use crate::config::Config;

/// The default port of MQTT, which clients need not be told.
const MQTT_PORT: u16 = 1883;

/// Runs the broker until it is told to stop by SIGINT or SIGTERM. The line `listening on mqtt://ADDRESS:PORT` on standard
/// output says that it is ready, one for each address.
pub(crate) fn run(config: Config) -> ExitCode {
    // From here on a signal ends the broker in order.
    let mut signals = match Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        Ok(signals) => signals,
        Err(error) => {
            log::error!("signals cannot be watched: {error}");
            return ExitCode::FAILURE;
        }
    };
    let threads = match config.threads {
        0 => thread::available_parallelism().map_or(1, |count| count.get()),
        count => count,
    };
    let (engine, retained) = settings::of(&config);
    let broker = match Broker::start(engine, retained, &config.listen, threads) {
        Ok(broker) => broker,
        Err(error) => {
            log::error!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if announce(broker.addresses()).is_err() {
        log::warn!("standard output is closed: nobody was told where the broker listens");
    }
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        log::warn!("SIGHUP: the configuration is read at start only; restart the broker to change it");
    }
    log::info!("stopping");
    broker.stop();
    ExitCode::SUCCESS
}

fn announce(addresses: &[SocketAddr]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for address in addresses {
        writeln!(out, "listening on mqtt://{address}")?;
    }
    if let Some(address) = addresses.first() {
        let port = match address.port() {
            MQTT_PORT => String::new(),
            port => format!(" -p {port}"),
        };
        writeln!(out, "try, in two other terminals:")?;
        writeln!(out, "  tautwire sub{port} 'demo/#'")?;
        writeln!(out, "  tautwire pub{port} demo/hello hi")?;
        writeln!(out, "  mosquitto_pub{port} -t demo/hello -m hi")?;
    }
    out.flush()
}
