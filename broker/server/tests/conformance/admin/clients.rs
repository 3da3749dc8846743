//! Clients and what they hold.

use crate::reload::World;
use crate::support::http::Answer;
use crate::support::{AtLeastOnce, AtMostOnce, Client, ExactlyOnce, TOKEN, V3_1_1, V5, admin};

impl World {
    pub(super) fn get(&self, path: &str) -> Answer {
        admin(self.broker.admin_address(), "GET", path, "")
    }

    fn delete(&self, path: &str) -> Answer {
        admin(self.broker.admin_address(), "DELETE", path, "")
    }

    /// Disconnects a client, keeping its session with a subscription to `filter`.
    pub(super) fn leave(&self, client_id: &str, filter: &str) {
        let mut client = self.broker.connecting(V5, client_id).persistent().open();
        client.subscribe(filter, AtLeastOnce);
        client.disconnect();
    }
}

/// All values of a member, in order.
pub(super) fn texts(body: &str, name: &str) -> Vec<String> {
    let member = format!("\"{name}\":\"");
    body.split(&member).skip(1).map(|part| part.split('"').next().unwrap_or_default().to_owned()).collect()
}

/// The Client Identifiers on all pages.
fn all_pages(world: &World, query: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let page = world.get(&format!("/v1/clients?limit=4&{query}{after}")).expect(200);
        found.extend(texts(&page.body, "client_id"));
        match texts(&page.body, "next").pop() {
            Some(next) => after = format!("&after={next}"),
            None => return found,
        }
    }
}

#[test]
fn clients_are_listed_page_by_page_in_any_order() {
    for threads in [1, 2] {
        let world = World::new(threads, "", &[]);
        let mut connected: Vec<Client> = Vec::new();
        for number in 0..15 {
            let mut client = world.broker.connecting(V5, &format!("c{number:02}")).persistent().open();
            for filter in 0..number {
                client.subscribe(&filter.to_string(), AtMostOnce);
            }
            connected.push(client);
        }
        connected.truncate(10);
        world.await_sum(&["sessions_connected"], 10);
        let all: Vec<String> = (0..15).map(|number| format!("c{number:02}")).collect();
        let reversed: Vec<String> = all.iter().rev().cloned().collect();
        assert_eq!(all_pages(&world, ""), all);
        assert_eq!(all_pages(&world, "descending=true"), reversed);
        assert_eq!(all_pages(&world, "sort=subscriptions&descending=true"), reversed);
        assert_eq!(all_pages(&world, "connected=false"), all[10..]);
        assert_eq!(all_pages(&world, "connected=true&sort=user"), all[..10]);
        assert_eq!(all_pages(&world, "search=C1"), all[10..]);
        let listener = texts(&world.get("/v1/clients?limit=1&connected=true").body, "listener").remove(0);
        assert_eq!(all_pages(&world, &format!("listener={listener}")), all[..10]);
        assert_eq!(all_pages(&world, "listener=other"), Vec::<String>::new());
        let page = world.get("/v1/clients?limit=3&connected=true").expect(200);
        assert_eq!(page.number("matched"), 10);
        assert!(page.body.contains("\"address\":\"127.0.0.1:"), "{}", page.body);
        for wrong in ["limit=0", "limit=1001", "sort=age", "connected=1", "after=x", "colour=red", "limit=1&limit=2"] {
            world.get(&format!("/v1/clients?{wrong}")).expect(400);
        }
    }
}

#[test]
fn one_client_is_shown_with_its_subscriptions() {
    for threads in [1, 2] {
        let world = World::new(threads, "", &[]);
        let mut client = world.broker.connecting(V5, "a/b c").persistent().open();
        for number in 0..5 {
            client.subscribe(&format!("f{number}"), ExactlyOnce);
        }
        let shown = world.get("/v1/clients/a%2Fb%20c").expect(200);
        for part in ["\"client_id\":\"a/b c\"", "\"connected\":true", "\"protocol\":\"5.0\"", "\"resumed\":false"] {
            assert!(shown.body.contains(part), "{part}: {}", shown.body);
        }
        assert_eq!(shown.number("subscriptions"), 5);
        let (connected_ms, received_ms) = (shown.number("connected_ms"), shown.number("last_received_ms"));
        assert!(
            connected_ms > 0 && connected_ms <= received_ms && received_ms - connected_ms < 60_000,
            "{}",
            shown.body
        );
        let first = world.get("/v1/clients/a%2Fb%20c/subscriptions?limit=3").expect(200);
        assert_eq!(texts(&first.body, "filter"), ["f0", "f1", "f2"]);
        assert_eq!(texts(&first.body, "next"), ["f2"]);
        let rest = world.get("/v1/clients/a%2Fb%20c/subscriptions?after=f2").expect(200);
        assert_eq!(texts(&rest.body, "filter"), ["f3", "f4"]);
        for path in ["/v1/clients/nobody", "/v1/clients/nobody/subscriptions", "/v1/clients/nobody/what"] {
            world.get(path).expect(404);
        }
        admin(world.broker.admin_address(), "POST", "/v1/clients", "").expect(405);
        let asked = format!("GET /v1/clients HTTP/1.1\r\nAuthorization: Bearer {TOKEN}x\r\n\r\n");
        crate::support::http::exchange(world.broker.admin_address(), asked.as_bytes()).expect(401);
    }
}

#[test]
fn an_operator_disconnects_clients_and_ends_sessions() {
    for threads in [1, 2] {
        let world = World::new(threads, "", &[]);
        for (version, ends_session) in [(V5, false), (V5, true), (V3_1_1, false), (V3_1_1, true)] {
            let connecting = world.broker.connecting(version, "client").clean_start(false);
            let mut client = if version == V5 { connecting.session_expiry_s(60).open() } else { connecting.open() };
            client.subscribe("a", AtLeastOnce);
            let what = if ends_session { "session" } else { "connection" };
            world.delete(&format!("/v1/clients/client/{what}")).expect(204);
            if version == V5 {
                assert_eq!(client.expect_disconnect(), 0x98);
            } else {
                client.expect_closed();
            }
            world.delete("/v1/clients/client/connection").expect(404);
            let shown = world.get("/v1/clients/client");
            assert_eq!(shown.status, if ends_session { 404 } else { 200 });
        }
        // A session whose client is offline.
        world.leave("away", "a");
        world.delete("/v1/clients/away/session").expect(204);
        world.delete("/v1/clients/away/session").expect(404);
        assert_eq!(world.metric("subscriptions"), 0);
    }
}

#[test]
fn a_path_can_have_one_version_prefix() {
    let world = World::new(1, "", &[]);
    for path in ["/clients", "/bans", "/config", "/listeners", "/metrics", "/contracts"] {
        world.get(path).expect(200);
        world.get(&format!("/v1{path}")).expect(200);
        world.get(&format!("/v1/v1{path}")).expect(404);
    }
}
