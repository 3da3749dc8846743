//! `rumqttd PORT`: the broker of the rumqtt project on 127.0.0.1 and this port, MQTT 3.1.1. Its own program does not build
//! with its own lock file.

use std::error::Error;

/// Its default configuration, with one listener and without console, bridge and logging.
fn configuration(port: u16) -> String {
    format!(
        "id = 0
        [router]
        id = 0
        max_connections = 100000
        max_outgoing_packet_count = 200
        max_segment_size = 104857600
        max_segment_count = 10
        [v4.1]
        name = \"v4-1\"
        listen = \"127.0.0.1:{port}\"
        next_connection_delay_ms = 0
        [v4.1.connections]
        connection_timeout_ms = 60000
        max_payload_size = 16777216
        max_inflight_count = 1000
        dynamic_filters = true
        "
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let argument = std::env::args().nth(1).ok_or("usage: rumqttd PORT")?;
    if argument == "--version" {
        println!("rumqttd 0.20.0");
        return Ok(());
    }
    let source = config::File::from_str(&configuration(argument.parse()?), config::FileFormat::Toml);
    let settings: rumqttd::Config = config::Config::builder().add_source(source).build()?.try_deserialize()?;
    Ok(rumqttd::Broker::new(settings).start()?)
}
