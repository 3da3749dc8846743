//! `rmqtt PORT`: the broker of the rmqtt project on 127.0.0.1 and this port. Its own program includes plugins for clusters, storage
//! and HTTP, with their database crates.

use std::error::Error;
use std::num::NonZeroU16;

use rmqtt::context::ServerContext;
use rmqtt::net::Builder;
use rmqtt::server::MqttServer;

/// The default limits of the others, so that no broker drops messages.
const MAX_INFLIGHT: NonZeroU16 = NonZeroU16::new(1000).unwrap();
const MAX_QUEUED: usize = 100_000;
const MAX_PACKET_BYTES: u32 = 16 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let argument = std::env::args().nth(1).ok_or("usage: rmqtt PORT")?;
    if argument == "--version" {
        println!("rmqtt 0.24.0");
        return Ok(());
    }
    let port: u16 = argument.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(serve(port))?)
}

async fn serve(port: u16) -> rmqtt::Result<()> {
    let context = ServerContext::new().build().await;
    let listener = Builder::new()
        .name("tcp")
        .laddr(([127, 0, 0, 1], port).into())
        .nodelay(true)
        .max_inflight(MAX_INFLIGHT)
        .max_mqueue_len(MAX_QUEUED)
        .max_packet_size(MAX_PACKET_BYTES)
        .bind()?
        .tcp()?;
    MqttServer::new(context).listener(listener).build().run().await
}
