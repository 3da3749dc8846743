//! Telemetry export.

use std::{slice, thread};

use tautwire_protocol::Property;

use super::{After, Before, NO, ReloadTest, Row, YES, connect_result, try_with, yes_if};
use crate::support::{AtLeastOnce, OutgoingPublish, V5};

/// Export metrics as often as possible.
macro_rules! often {
    ($endpoint:literal) => {
        concat!("telemetry.endpoint = \"", $endpoint, "\"\ntelemetry.metrics_interval_s = 1\n{}\n")
    };
}

const METRICS: &str = "post /v1/metrics ";

pub(super) const ROWS: &[Row] = &[
    Row {
        keys: &["telemetry.endpoint"],
        file: "telemetry.metrics_interval_s = 1\n{}\n",
        off: "",
        on: "telemetry.endpoint = \"SERVICE\"",
        see: After(|scene| collects(scene, METRICS)),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["telemetry.metrics"],
        file: often!("SERVICE"),
        off: "telemetry.metrics = false",
        on: "",
        see: After(|scene| collects(scene, METRICS)),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["telemetry.metrics_interval_s"],
        file: "telemetry.endpoint = \"SERVICE\"\n{}\n",
        off: "",
        on: "telemetry.metrics_interval_s = 1",
        see: After(|scene| collects(scene, METRICS)),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["telemetry.logs"],
        file: often!("SERVICE"),
        off: "telemetry.logs = false",
        on: "",
        see: After(|scene| {
            settle(scene);
            // A log line.
            assert_eq!(connect_result(&scene.broker.connecting(V5, "nobody").property(super::files::METHOD)), "0x8c");
            yes_if(scene.service.collects("post /v1/logs ", scene.patience(YES)))
        }),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["telemetry.traces"],
        file: often!("SERVICE"),
        off: "",
        on: "telemetry.traces = true",
        see: Before(|scene, mut client| {
            settle(scene);
            let parent =
                Property::UserProperty("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
            client.deliver(&OutgoingPublish::new("t", AtLeastOnce, b"").property(parent));
            yes_if(scene.service.collects("post /v1/traces ", scene.patience(YES)))
        }),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["telemetry.trace_sample_ratio"],
        file: concat!(often!("SERVICE"), "telemetry.traces = true\n"),
        off: "",
        on: "telemetry.trace_sample_ratio = 1",
        see: Before(|scene, mut client| {
            settle(scene);
            client.publish("t", AtLeastOnce, b"");
            yes_if(scene.service.collects("post /v1/traces ", scene.patience(YES)))
        }),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["telemetry.trace_topics"],
        file: concat!(often!("SERVICE"), "telemetry.traces = true\ntelemetry.trace_sample_ratio = 1\n"),
        off: "telemetry.trace_topics = false",
        on: "",
        see: Before(|scene, mut client| {
            settle(scene);
            client.publish("a/topic", AtLeastOnce, b"");
            yes_if(scene.service.collects("{\"stringValue\":\"a/topic\"}", scene.patience(YES)))
        }),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["telemetry.headers_file"],
        file: often!("SERVICE"),
        off: "",
        on: "telemetry.headers_file = \"headers\"",
        see: After(|scene| collects(scene, "\nx-from: the-broker")),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["telemetry.ca"],
        file: often!("SECURE"),
        off: "telemetry.ca = \"other-ca.pem\"",
        on: "telemetry.ca = \"all-ca.pem\"",
        see: After(|scene| collects(scene, METRICS)),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["telemetry.service_name"],
        file: often!("SERVICE"),
        off: "",
        on: "telemetry.service_name = \"plant-7\"",
        see: After(|scene| collects(scene, "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"plant-7\"}}")),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["telemetry.attributes"],
        file: often!("SERVICE"),
        off: "",
        on: "telemetry.attributes = [\"a.b=c\"]",
        see: After(|scene| collects(scene, "{\"key\":\"a.b\",\"value\":{\"stringValue\":\"c\"}}")),
        without: NO,
        with: YES,
    },
];

#[test]
fn telemetry_settings_can_change() {
    // One thread exports, whatever the number of shards. Each row waits long for something that must not be sent, so the rows run in
    // parallel.
    thread::scope(|scope| {
        for row in ROWS {
            scope.spawn(move || try_with(2, slice::from_ref(row), &[]));
        }
    });
}

/// Whether a request arrives that contains this text.
fn collects(scene: &ReloadTest, text: &str) -> String {
    settle(scene);
    yes_if(scene.service.collects(text, scene.patience(YES)))
}

/// Requests in transit before the reload may still arrive.
fn settle(scene: &ReloadTest) {
    if scene.expected.get() == NO {
        scene.service.collects("nothing of this kind", super::SILENCE);
    }
    scene.service.clear_collected();
}
