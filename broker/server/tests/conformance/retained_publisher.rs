//! `acl.check_retained_publisher`: a retained message is withheld if its publisher may no longer publish it.

use std::time::Instant;

use tautwire_protocol::Property;

use crate::support::{
    AtLeastOnce, Broker, EXPECT_TIMEOUT, Folder, OutgoingPublish, TOKEN, V3_1_1, V5, WillMessage, admin, options,
};

/// `device` may publish below `plant/`, and `other` below `plant/other/`; everybody may read.
const RULES: &str = r##"
[[role]]
name = "device"
rules = [{ allow = "publish", topics = "plant/#" }]
[[role]]
name = "other"
rules = [{ allow = "publish", topics = "plant/other/#" }]
[[role]]
name = "reader"
rules = [{ allow = "subscribe", topics = "#" }]
[[assign]]
client_id = "device"
roles = "device"
[[assign]]
client_id = "other"
roles = "other"
[[assign]]
everyone = true
roles = "reader"
"##;

struct World {
    broker: Broker,
    folder: Folder,
}

impl World {
    fn new(threads: usize, check: bool) -> World {
        let folder = Folder::new(&[("access.toml", RULES), ("token", TOKEN)]);
        World { broker: started(&folder, threads, check), folder }
    }

    fn reload(&self, rules: &str) {
        self.folder.write("access.toml", rules);
        admin(self.broker.admin_address(), "POST", "/config/reload", "").expect(200);
    }

    fn count(&self, name: &str) -> u64 {
        admin(self.broker.admin_address(), "GET", "/metrics", "").number(name)
    }

    /// The topics of the retained messages that a new subscriber receives.
    fn retained(&self) -> Vec<String> {
        let mut client = self.broker.connect(V5, "new");
        client.subscribe("plant/#", AtLeastOnce);
        client.subscribe("none", AtLeastOnce);
        let mut topics = Vec::new();
        client.ping();
        while let Some(message) = client.pending_message() {
            assert!(message.user_properties().iter().all(|(name, _)| name == "own"), "{:?}", message.user_properties());
            topics.push(message.topic().to_owned());
        }
        topics.sort();
        topics
    }
}

fn started(folder: &Folder, threads: usize, check: bool) -> Broker {
    let at = |name: &str| folder.path().join(name).display().to_string();
    let settings = [
        format!("acl.file={}", at("access.toml")),
        format!("acl.check_retained_publisher={check}"),
        format!("admin.token_file={}", at("token")),
        format!("data.path={}", at("data")),
        "admin.listen=127.0.0.1:0".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    Broker::with(threads, &settings)
}

/// Without the permission of `device`.
fn revoked() -> String {
    RULES.replace("client_id = \"device\"", "client_id = \"somebody\"")
}

/// Two retained messages, and a retained will; existing subscribers receive them without the publisher property.
fn publish_all(world: &World) {
    let mut live = [world.broker.connect(V5, "live"), world.broker.connect(V3_1_1, "old")];
    for client in &mut live {
        client.subscribe_as("plant/#", options(AtLeastOnce));
    }
    let mut expect = |topic: &str| {
        for client in &mut live {
            let message = client.receive();
            assert_eq!(message.topic(), topic);
            assert!(message.user_properties().iter().all(|(name, _)| name == "own"), "{:?}", message.user_properties());
        }
    };
    let will = WillMessage::new("plant/will", b"gone").retained();
    let mut device = world.broker.connecting(V5, "device").will(will).open();
    let own =
        OutgoingPublish::new("plant/a", AtLeastOnce, b"a").retained().property(Property::UserProperty("own", "1"));
    assert_eq!(device.deliver(&own), 0);
    expect("plant/a");
    let mut other = world.broker.connect(V5, "other");
    // It cannot claim to be another publisher.
    let forged = Property::UserProperty("tautwire-publisher", "0:6:device-:");
    let claimed = OutgoingPublish::new("plant/other/b", AtLeastOnce, b"b").retained().property(forged);
    assert_eq!(other.deliver(&claimed), 0);
    expect("plant/other/b");
    device.cut();
    expect("plant/will");
}

#[test]
fn retained_messages_of_publishers_without_permission_are_withheld() {
    for threads in [1, 2] {
        let world = World::new(threads, true);
        publish_all(&world);
        let all = ["plant/a", "plant/other/b", "plant/will"];
        assert_eq!(world.retained(), all);
        assert_eq!(world.count("retained_withheld"), 0);
        world.reload(&revoked());
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        while world.count("retained_withheld") == 0 {
            assert!(Instant::now() < deadline, "nothing is withheld");
            world.retained();
        }
        assert_eq!(world.retained(), ["plant/other/b"]);
        world.reload(&RULES.replace("\"plant/other/#\"", "\"plant/else/#\""));
        let withheld = world.count("retained_withheld");
        while world.retained() != ["plant/a", "plant/will"] {
            assert!(Instant::now() < deadline, "a message allowed again is still withheld: {:?}", world.retained());
        }
        assert!(world.count("retained_withheld") > withheld);
    }
}

/// The publisher is stored with the message, so a restart changes nothing.
#[test]
fn retained_messages_are_withheld_after_a_restart() {
    let mut world = World::new(1, true);
    publish_all(&world);
    world.folder.write("access.toml", &revoked());
    let World { broker, folder } = world;
    broker.end();
    world = World { broker: started(&folder, 1, true), folder };
    assert_eq!(world.retained(), ["plant/other/b"]);
    assert_eq!(world.count("retained_withheld"), 2);
}

/// Without the setting no publisher is stored, and nothing is withheld.
#[test]
fn without_the_setting_all_retained_messages_are_sent() {
    let world = World::new(1, false);
    let mut device = world.broker.connect(V5, "device");
    assert_eq!(device.deliver(&OutgoingPublish::new("plant/a", AtLeastOnce, b"a").retained()), 0x10);
    world.reload(&revoked());
    assert_eq!(world.retained(), ["plant/a"]);
    let World { broker, folder } = world;
    broker.end();
    // A message stored without a publisher cannot be checked.
    let world = World { broker: started(&folder, 1, true), folder };
    assert_eq!(world.retained(), ["plant/a"]);
}
