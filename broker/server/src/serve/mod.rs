//! Running the broker.

mod settings;

use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tautwire_reactor::{Broker, StartError};

use crate::config::Config;
use crate::config::listen::{Address, MQTT_PORT};

/// Runs the broker until it is told to stop by SIGINT or SIGTERM. The line `listening on mqtt://ADDRESS:PORT`, or
/// `listening on ws://ADDRESS:PORT/PATH`, on standard output says that it is ready, one for each address.
pub(crate) fn run(mut config: Config) -> ExitCode {
    // From here on a signal ends the broker in order.
    let mut signals = match Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        Ok(signals) => signals,
        Err(error) => {
            log::error!("signals cannot be watched: {error}");
            return ExitCode::FAILURE;
        }
    };
    let broker = match start(&mut config) {
        Ok(broker) => broker,
        Err(error) => {
            log::error!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let addresses: Vec<Address> =
        config.listen.addresses().iter().zip(broker.addresses()).map(|(address, bound)| address.at(*bound)).collect();
    if announce(&addresses).is_err() {
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

/// Starts the broker, without the WebSocket of the default where another program has its port.
fn start(config: &mut Config) -> Result<Broker, StartError> {
    let threads = match config.threads {
        0 => thread::available_parallelism().map_or(1, |count| count.get()),
        count => count,
    };
    loop {
        let (engine, retained) = settings::of(config);
        match Broker::start(engine, retained, &settings::listens(config), threads) {
            Err(StartError::Listen(address, error))
                if error.kind() == io::ErrorKind::AddrInUse && config.listen.give_up(address) =>
            {
                log::warn!(
                    "no WebSocket: the port of {address} is in use; choose another one with `listen` or --listen"
                );
            }
            result => return result,
        }
    }
}

fn announce(addresses: &[Address]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for address in addresses {
        writeln!(out, "listening on {address}")?;
    }
    let tcp = addresses.iter().find(|address| matches!(address, Address::Tcp(_)));
    if let Some(address) = tcp {
        let port = match address.socket().port() {
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
