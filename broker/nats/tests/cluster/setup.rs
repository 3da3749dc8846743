//! Tests the requirements before a node joins.

use tautwire_nats::{ConnectionStatus, EndReason, Error, Settings, Syncing};

use crate::node::{BrokerEvent, Node, settings, settings_of};
use crate::servers::{Config, Servers, program};

/// Returns why a node does not join.
fn refusal(settings: Settings) -> Error {
    Node::begin(settings, None).told.wait_for("it is refused", |told| {
        told.iter().find_map(|told| match told {
            BrokerEvent::EndReason(EndReason::Refused(error)) => Some(error.clone()),
            _ => None,
        })
    })
}

#[test]
fn servers_that_confirm_too_early_are_refused_unless_allowed() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 1, &Config { syncs_always: false, ..Config::default() });
    let mut settings = settings(&servers);
    settings.storage.replicas = 1;
    let error = refusal(settings.clone()).to_string();
    assert!(
        error.starts_with("NATS server server-0 confirms before it has written to disk; set `sync_interval: always`"),
        "{error}"
    );
    settings.storage.syncing = Syncing::Monitored(Vec::new());
    assert_eq!(refusal(settings.clone()).code(), "cluster_unsynced");
    settings.storage.syncing = Syncing::Weaker;
    drop(Node::start(settings, None));
}

#[test]
fn weaker_streams_are_reported_exactly() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    let mut one = settings(&servers);
    one.storage.replicas = 1;
    drop(Node::start(one, None));
    // Created with one replica on purpose. Without that setting, they do not suffice.
    let error = refusal(settings(&servers)).to_string();
    assert!(
        error.contains("has unsuitable settings: num_replicas is 1 and must be 3; change them with")
            && error.contains("or lower cluster.replicas"),
        "{error}"
    );
}

#[test]
fn a_missing_seed_is_not_regenerated() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 1, &Config::default());
    let mut settings = settings(&servers);
    settings.storage.replicas = 1;
    drop(Node::start(settings.clone(), None));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let Settings { access, node_name, times, limits, .. } = &settings;
        let (counters, connected) = Default::default();
        let client = tautwire_nats::connect(access, node_name, times, limits, &counters, &connected).await;
        let purge = client.expect("a connection").request("$JS.API.STREAM.PURGE.KV_tw_config", Vec::new().into()).await;
        purge.expect("an answer");
    });
    assert_eq!(refusal(settings), Error::SeedLost);
}

#[test]
fn a_node_waits_for_servers_and_reports_it() {
    let Some(program) = program() else { return };
    let mut servers = Servers::start(&program, 1, &Config::default());
    servers.kill(0);
    let mut settings = settings_of(&servers.addresses(), servers.monitoring());
    settings.storage.replicas = 1;
    let node = Node::begin(settings, None);
    node.told.wait_for("it waits", |told| {
        let waits = |told: &BrokerEvent| {
            matches!(told, BrokerEvent::ConnectionStatus(ConnectionStatus::Waiting(Error::Connection { .. })))
        };
        told.iter().any(waits).then_some(())
    });
    servers.restart(0);
    node.told.wait_for("it serves", |told| {
        told.contains(&BrokerEvent::Decision(tautwire_cluster::Decision::Resumed)).then_some(())
    });
}

#[test]
fn a_node_reports_the_loss_and_return_of_its_servers() {
    let Some(program) = program() else { return };
    let mut servers = Servers::start(&program, 1, &Config::default());
    let mut settings = settings_of(&servers.addresses(), servers.monitoring());
    settings.storage.replicas = 1;
    let node = Node::start(settings, None);
    let statuses = |told: &[BrokerEvent]| -> Vec<ConnectionStatus> {
        let status = |told: &BrokerEvent| match told {
            BrokerEvent::ConnectionStatus(status) => Some(status.clone()),
            _ => None,
        };
        told.iter().filter_map(status).collect()
    };
    let is_lost = |status: &ConnectionStatus| matches!(status, ConnectionStatus::Waiting(Error::Connection { .. }));
    servers.kill(0);
    node.told.wait_for("the loss", |told| statuses(told).iter().any(is_lost).then_some(()));
    servers.restart(0);
    node.told.wait_for("the return", |told| {
        let statuses = statuses(told);
        let lost = statuses.iter().position(is_lost)?;
        statuses[lost..].contains(&ConnectionStatus::Ready).then_some(())
    });
}
