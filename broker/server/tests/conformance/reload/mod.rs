//! Reloads of the configuration: applied as a whole, or not at all.

mod admin;
pub(crate) mod bans;
mod files;
mod limits;
mod listeners;
mod live;
mod load;
mod one_step;

use std::time::Instant;

use crate::support::http::Answer;
use crate::support::{Broker, EXPECT_TIMEOUT, Folder, TOKEN, admin};

/// A broker with a configuration file that changes.
pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) folder: Folder,
    threads: usize,
}

impl World {
    /// With these lines in its file, and these settings on its command line.
    pub(crate) fn new(threads: usize, file: &str, settings: &[&str]) -> World {
        let folder = Folder::new(&[("token", TOKEN)]);
        World::within(folder, threads, file, settings)
    }

    /// The same, in a folder with other files.
    pub(crate) fn within(folder: Folder, threads: usize, file: &str, settings: &[&str]) -> World {
        folder.write("token", TOKEN);
        let token = format!("admin.token_file={}", folder.path().join("token").display());
        let own = ["admin.listen=127.0.0.1:0", &token];
        let settings: Vec<&str> = own.into_iter().chain(settings.iter().copied()).collect();
        let broker = Broker::with_listeners(threads, &folder, file, &settings);
        World { broker, folder, threads }
    }

    /// A running broker, and the folder with its token.
    pub(crate) fn of(broker: Broker, folder: Folder) -> World {
        World { broker, folder, threads: 1 }
    }

    /// Rewrites the file and reloads it.
    pub(crate) fn reload(&self, file: &str) -> Answer {
        Broker::write_file(self.threads, &self.folder, file);
        self.reload_again()
    }

    /// Reloads the file.
    pub(crate) fn reload_again(&self) -> Answer {
        admin(self.broker.admin_address(), "POST", "/config/reload", "")
    }

    pub(crate) fn metric(&self, name: &str) -> u64 {
        admin(self.broker.admin_address(), "GET", "/metrics", "").expect(200).number(name)
    }

    /// Waits until the sum of these metrics is `value`: another thread may still have to process acknowledged messages.
    #[track_caller]
    pub(crate) fn await_sum(&self, names: &[&str], value: u64) {
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        loop {
            let sum: u64 = names.iter().map(|name| self.metric(name)).sum();
            if sum == value {
                return;
            }
            assert!(Instant::now() < deadline, "{names:?} are {sum}, not {value}");
        }
    }

    /// The running configuration.
    pub(crate) fn config(&self) -> String {
        admin(self.broker.admin_address(), "GET", "/config", "").expect(200).body
    }
}

/// The keys in a list of a response.
pub(crate) fn keys(answer: &Answer, list: &str) -> Vec<String> {
    let (_, rest) = answer.body.split_once(&format!("\"{list}\":[")).unwrap_or_else(|| panic!("{}", answer.body));
    let (inside, _) = rest.split_once(']').expect("the list ends");
    inside.split(',').map(|key| key.trim_matches('"').to_owned()).filter(|key| !key.is_empty()).collect()
}

#[test]
fn an_error_changes_nothing_and_effects_are_reported() {
    let world = World::new(2, "[limits]\ntopic_levels = 9\n", &[]);
    let before = world.config();
    assert!(before.contains("topic_levels = 9\n"), "{before}");
    let wrong = world.reload("[limits]\ntopic_levels = 5\n[mqtt]\nmax_qos = 7\n").expect(422);
    assert!(wrong.body.contains("tautwire.toml:6"), "{}", wrong.body);
    assert_eq!(world.config(), before);
    let mut client = world.broker.connect(crate::support::V5, "c");
    assert_eq!(client.publish("a/b/c/d/e/f", crate::support::AtLeastOnce, b""), 0x10);

    let file = "[limits]\ntopic_levels = 5\nshard_queue_batches = 7\n[mqtt]\nmax_keep_alive_s = 60\n";
    let right = world.reload(file).expect(200);
    assert_eq!(keys(&right, "applied"), ["limits.topic_levels"]);
    assert_eq!(keys(&right, "applied_to_new_connections"), ["mqtt.max_keep_alive_s"]);
    assert_eq!(keys(&right, "pending_restart"), ["limits.shard_queue_batches"]);
    // The reported configuration is in effect.
    let after = world.config();
    assert!(after.contains("topic_levels = 5\n") && after.contains("shard_queue_batches = 64\n"), "{after}");
    let again = world.reload_again().expect(200);
    assert_eq!(keys(&again, "applied").len(), 0);
    assert_eq!(keys(&again, "pending_restart"), ["limits.shard_queue_batches"], "still pending");
}

/// A key that needs a restart is reported by diff, by the reload, and until the restart; the running broker keeps the old value.
#[test]
fn keys_that_need_a_restart_are_reported() {
    let world = World::new(1, "", &[]);
    let before = world.config();
    let needed = ["threads", "user", "limits.spill_bytes", "limits.shard_queue_batches"];
    let file = "user = \"4711:4711\"\n[limits]\nspill_bytes = 1073741824\nshard_queue_batches = 7\n";
    Broker::write_file(3, &world.folder, file);
    for (method, path) in [("GET", "/config/diff"), ("POST", "/config/reload"), ("POST", "/config/reload")] {
        let answer = admin(world.broker.admin_address(), method, path, "").expect(200);
        let mut named = keys(&answer, "pending_restart");
        named.sort_by_key(|key| needed.iter().position(|needed| needed == key));
        assert_eq!(named, needed, "{method} {path}");
        assert_eq!(keys(&answer, "applied").len(), 0);
        assert_eq!(world.config(), before);
    }
}
