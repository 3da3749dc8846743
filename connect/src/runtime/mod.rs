//! Runs sinks: from the session in the broker to the target.

mod identity;
mod record;
mod session;
mod worker;

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) use identity::{IDENTITIES_MAX, Identity, StoredIdentities};
pub(crate) use record::Record;
pub(crate) use worker::Mode;

use crate::config::Config;
use crate::http;
use crate::metrics::SinkMetrics;
use crate::sinks::Sink;
use crate::text::counted;
use worker::Worker;

/// Checks the targets against the configuration, without changing anything. Returns a report.
///
/// # Errors
/// The first difference that a run would not repair.
pub(crate) async fn check(config: &Config, offline: bool) -> Result<String, String> {
    let mut report = String::new();
    for sink in &config.sinks {
        let changes =
            if offline { Vec::new() } else { Sink::new(sink)?.check().await.map_err(|error| error.to_string())? };
        report.push_str(&format!("sink {}: ok\n", sink.name));
        for change in changes {
            report.push_str(&format!("  run will execute: {change}\n"));
        }
    }
    report.push_str(&format!("{} checked\n", counted(config.sinks.len(), "sink")));
    Ok(report)
}

/// Runs all sinks until one fails for good, a signal arrives, or, with [`Mode::Once`], all have ended.
///
/// # Errors
/// The error of a sink that retrying cannot repair.
pub(crate) async fn run(config: Config, mode: Mode) -> Result<(), String> {
    let (stop, stopped) = watch::channel(false);
    let metrics: Vec<_> = config.sinks.iter().map(|sink| Arc::new(SinkMetrics::new(&sink.name))).collect();
    if let Some(listen) = config.http.listen {
        let address = http::serve(listen, metrics.clone()).await?;
        log::info!(address:% = address; "serving metrics and health");
    }
    let mut workers = JoinSet::new();
    for (sink, metrics) in config.sinks.into_iter().zip(metrics) {
        let worker = Worker::new(sink, metrics, mode, stopped.clone())?;
        let broker = config.broker.clone();
        workers.spawn(worker.run(broker));
    }
    let cannot = |error| format!("signals cannot be handled: {error} [runtime]");
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut outcome = Ok(());
    loop {
        tokio::select! {
            ended = workers.join_next() => match ended {
                None => return outcome,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => {
                    log::error!("{error}");
                    outcome = outcome.and(Err(error));
                    let _ = stop.send(true);
                }
                Some(Err(error)) => {
                    outcome = outcome.and(Err(format!("a connector has ended unexpectedly: {error} [runtime]")));
                    let _ = stop.send(true);
                }
            },
            _ = terminate.recv() => { let _ = stop.send(true); }
            _ = interrupt.recv() => { let _ = stop.send(true); }
        }
    }
}
