//! The libraries, used as their documentation shows.

mod mqtt_protocol_core;
mod mqttbytes;
mod rumqttc;
mod tautwire;

use crate::workload;
use tautwire_bench_timing::Contender;

pub const TAUTWIRE: &str = "tautwire";
pub const TAUTWIRE_OWNED: &str = "tautwire (owned)";

/// Returns every library in every case.
pub fn contenders() -> Vec<Contender> {
    let cases = [
        Case { name: "publish_qos1_64b", bytes: workload::publish_qos1() },
        Case { name: "publish_properties", bytes: workload::publish_properties() },
        Case { name: "puback", bytes: workload::puback() },
        Case { name: "connect_properties", bytes: workload::connect_properties() },
    ];
    let mut contenders = Vec::new();
    for case in cases {
        for add in [tautwire::add, mqttbytes::add, rumqttc::add, mqtt_protocol_core::add] {
            add(&case, &mut contenders);
        }
    }
    contenders.sort_by_key(|contender| contender.case);
    contenders
}

/// A batch of packets of one kind.
pub struct Case {
    pub name: &'static str,
    pub bytes: Vec<u8>,
}

impl Case {
    fn decoding(&self, library: &'static str, call: impl FnMut() + 'static) -> Contender {
        self.contender(format!("decode_{}", self.name), library, call)
    }

    fn encoding(&self, library: &'static str, call: impl FnMut() + 'static) -> Contender {
        self.contender(format!("encode_{}", self.name), library, call)
    }

    fn contender(&self, case: String, library: &'static str, call: impl FnMut() + 'static) -> Contender {
        Contender { case: case.leak(), library, operations: workload::BATCH, call: Box::new(call) }
    }
}
