use std::path::Path;

use super::registry;
use super::settings::{KEYS, SECTIONS};
use super::*;
use tautwire_engine::SlowConsumer;
use tautwire_protocol::QoS;

/// Parses `text` as `tautwire.toml`.
fn from_file(text: &str) -> Result<Config, Vec<String>> {
    let mut config = Config::default();
    let mut errors = Vec::new();
    source::apply_file(&mut config, Path::new("tautwire.toml"), text, &mut errors);
    if errors.is_empty() { Ok(config) } else { Err(errors.iter().map(ToString::to_string).collect()) }
}

fn from_options(arguments: &[&str]) -> Result<Config, Vec<String>> {
    let overrides: Result<Vec<_>, _> = arguments.iter().map(|argument| Override::from_argument(argument)).collect();
    overrides
        .map_err(|error| vec![error])
        .and_then(|overrides| Config::load(None, &overrides))
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn one_error(result: Result<Config, Vec<String>>) -> String {
    let errors = result.expect_err("a refusal");
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.into_iter().next().unwrap_or_default()
}

fn addresses(config: &Config) -> Vec<String> {
    config.listeners().iter().map(|listener| listener.address.to_string()).collect()
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(from_file(""), Ok(Config::default()));
    assert_eq!(from_file("# nothing\n[mqtt]\n"), Ok(Config::default()));
}

#[test]
fn the_default_listens_only_on_loopback_without_warnings() {
    let config = Config::default();
    assert_eq!(addresses(&config), ["mqtt://127.0.0.1:1883", "ws://127.0.0.1:8083/mqtt"]);
    assert!(config.warnings().is_empty());
}

#[test]
fn a_file_sets_keys_of_every_type() {
    let config = from_file(
        "listen = [\"127.0.0.1:0\", \"[::1]:1884\"]\nthreads = 0x2\n\
         [mqtt]\nmax_qos = 1\nretain_available = false\nmax_session_expiry_s = 4_294_967_295\n\
         [limits]\nslow_consumer = \"drop_old\"\n[log]\nlevel = \"debug\"\nformat = 'json'\n",
    )
    .expect("a good file");
    assert_eq!(addresses(&config), ["mqtt://127.0.0.1:0", "mqtt://[::1]:1884"]);
    assert_eq!(config.threads, 2);
    assert_eq!(config.mqtt.max_qos, QoS::AtLeastOnce);
    assert!(!config.mqtt.retain_available);
    assert_eq!(config.limits.slow_consumer, SlowConsumer::DropOld);
    assert_eq!(config.log.level, ::log::Level::Debug);
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn dotted_keys_and_inline_tables_are_tables() {
    assert_eq!(from_file("mqtt.max_qos = 0").expect("good").mqtt.max_qos, QoS::AtMostOnce);
    assert_eq!(from_file("sys = { interval_s = 3 }").expect("good").sys.interval_s, 3);
}

#[test]
fn an_unknown_key_is_refused_with_its_location_and_the_nearest() {
    assert_eq!(
        one_error(from_file("[mqtt]\n\nmax_qso = 1\n")),
        "tautwire.toml:3:1: there is no key mqtt.max_qso; did you mean mqtt.max_qos? [config_unknown_key]"
    );
    assert_eq!(
        one_error(from_file("max_qos = 1\n")),
        "tautwire.toml:1:1: there is no key max_qos; did you mean mqtt.max_qos? [config_unknown_key]"
    );
    assert_eq!(
        one_error(from_file("[limit]\nconnections = 1\n")),
        "tautwire.toml:1:2: there is no table [limit]; did you mean [limits]? [config_unknown_key]"
    );
    assert_eq!(
        one_error(from_options(&["limits.conections=5"])),
        "--set limits.conections: there is no key limits.conections; did you mean limits.connections? [config_unknown_key]"
    );
    assert_eq!(
        one_error(from_options(&["colour=red"])),
        "--set colour: there is no key colour; `tautwire config show` lists all keys [config_unknown_key]"
    );
}

#[test]
fn a_value_of_the_wrong_type_is_refused_with_its_location() {
    assert_eq!(
        one_error(from_file("[mqtt]\nreceive_maximum = \"many\"\n")),
        "tautwire.toml:2:19: mqtt.receive_maximum: expected whole number from 1 to 65535, found a string [config_wrong_type]"
    );
    assert_eq!(
        one_error(from_file("mqtt = 3\n")),
        "tautwire.toml:1:8: mqtt is a table; write [mqtt] on its own line and its keys below [config_wrong_type]"
    );
    assert!(one_error(from_file("threads = 1.5")).contains("found a fraction"));
    assert!(one_error(from_file("listen = [1883]")).contains("list of \"ADDRESS:PORT\""));
    assert!(
        one_error(from_options(&["mqtt.retain_available=1"])).contains("expected true or false, found a whole number")
    );
}

#[test]
fn a_value_out_of_range_is_refused_with_its_location() {
    assert_eq!(
        one_error(from_file("# é\nmqtt.receive_maximum = 0 # é\n")),
        "tautwire.toml:2:24: mqtt.receive_maximum: 0 is out of range; write a whole number from 1 to 65535 [config_out_of_range]"
    );
    assert!(one_error(from_options(&["mqtt.receive_maximum=65536"])).contains("65536 is out of range"));
    assert!(one_error(from_options(&["threads=-1"])).contains("-1 is out of range"));
    assert!(one_error(from_options(&["mqtt.max_qos=3"])).contains("3 is not a QoS; write 0, 1 or 2"));
    assert!(one_error(from_options(&["limits.slow_consumer=drop_ol"])).contains("did you mean \"drop_old\"?"));
    assert!(one_error(from_options(&["listen=localhost:1883"])).contains("host names are not looked up"));
    assert!(one_error(from_options(&["listen=[]"])).contains("the list is empty"));
    assert!(one_error(from_options(&["listen=127.0.0.1:1,127.0.0.1:1"])).contains("listed twice"));
}

#[test]
fn invalid_toml_is_refused_with_its_location() {
    let error = one_error(from_file("threads = 1\nlisten = [\n"));
    assert!(error.starts_with("tautwire.toml:"), "{error}");
    assert!(error.ends_with("[config_syntax]"), "{error}");
    assert!(one_error(from_file("threads = 1\nthreads = 2\n")).starts_with("tautwire.toml:2:1: not valid TOML: "));
}

#[test]
fn all_errors_are_reported_in_file_order() {
    let errors =
        from_file("threads = true\n[mqtt]\nzzzzzzzz = 1\nmax_qos = 9\n[log]\nlevel = \"loud\"\n").expect_err("refused");
    let lines: Vec<_> = errors.iter().map(|error| error.split(':').nth(1).unwrap_or_default().to_owned()).collect();
    assert_eq!(lines, ["1", "3", "4", "6"], "{errors:?}");
}

#[test]
fn the_command_line_overrides_the_file_and_later_options_earlier_ones() {
    let config =
        from_options(&["threads=2", "log.level=warn", "threads=3", "listen=127.0.0.1:7,[::1]:8"]).expect("good");
    assert_eq!(config.threads, 3);
    assert_eq!(config.log.level, ::log::Level::Warn);
    assert_eq!(addresses(&config), ["mqtt://127.0.0.1:7", "mqtt://[::1]:8"]);
    assert!(one_error(from_options(&["threads"])).contains("write --set KEY=VALUE"));
}

#[test]
fn a_missing_file_is_reported() {
    let errors = Config::load(Some(Path::new("no-such.toml")), &[]).expect_err("refused");
    assert!(errors[0].to_string().starts_with("no-such.toml: cannot be read: "), "{errors:?}");
}

#[test]
fn listening_beyond_loopback_is_a_warning() {
    let warns = |listen: &str| {
        let config = from_options(&[&format!("listen={listen}"), "auth.anonymous=true"]);
        config.expect("good").warnings().len()
    };
    assert_eq!(warns("0.0.0.0:1883"), 1);
    assert_eq!(warns("[::]:1883,192.0.2.1:1883,127.0.0.9:1883"), 2);
    assert_eq!(warns("[::1]:1883,[::ffff:127.0.0.1]:1883"), 0);
}

#[test]
fn the_protocol_precedes_the_address() {
    let config =
        from_options(&["listen=mqtt://127.0.0.1:1,ws://127.0.0.1:2/a/b,ws://[::1]:3,ws://127.0.0.1:0/"]).expect("good");
    assert_eq!(
        addresses(&config),
        ["mqtt://127.0.0.1:1", "ws://127.0.0.1:2/a/b", "ws://[::1]:3/mqtt", "ws://127.0.0.1:0/"]
    );
    assert!(one_error(from_options(&["listen=wss://127.0.0.1:1/mqtt"])).contains("tls.certificate"));
    assert!(one_error(from_options(&["listen=http://127.0.0.1:1"])).contains("does not begin with mqtt://, mqtts://"));
    assert!(one_error(from_options(&["listen=ws://127.0.0.1:1/a b"])).contains("an invalid path"));
    assert!(one_error(from_options(&["listen=ws://localhost:1/mqtt"])).contains("is not an IP address and port"));
    assert!(one_error(from_options(&["listen=127.0.0.1:1,ws://127.0.0.1:1"])).contains("listed twice"));
}

#[test]
fn only_the_default_websocket_listener_is_optional() {
    let default = Config::default().listen;
    let mut given = from_file(&to_toml(&Config::default())).expect("good").listen;
    assert_eq!(given, default);
    for address in default.addresses() {
        let socket = address.socket().expect("it is on the network");
        assert!(!given.give_up(socket), "{address}");
        let is_websocket = address.to_string().starts_with("ws://");
        assert_eq!(default.clone().give_up(socket), is_websocket, "{address}");
    }
}

#[test]
fn a_listener_table_has_a_name_and_its_own_rules() {
    let config = from_file(
        "listen = [\"127.0.0.1:1\"]\n[data]\nack_listeners = [\"127.0.0.1:1 = os\", \"[::1]:2 = os\"]\n\
         [tls]\ncertificate = \"all.pem\"\nkey = \"all.key\"\n\
         [[listener]]\nname = \"devices\"\naddress = \"mqtts://[::]:8883\"\nack = \"memory\"\nlimits.connections = 7\n\
         tls.certificate = \"own.pem\"\n[listener.tls]\nclient_certificates = \"required\"\n\
         [[listener]]\naddress = \"[::1]:2\"\n",
    );
    // The same table twice is not TOML.
    assert!(one_error(config).contains("config_syntax"));
    let config = from_file(
        "listen = [\"127.0.0.1:1\"]\n[data]\nack_listeners = [\"127.0.0.1:1 = os\", \"[::1]:2 = os\"]\n\
         [tls]\ncertificate = \"all.pem\"\nkey = \"all.key\"\n\
         [[listener]]\nname = \"devices\"\naddress = \"mqtts://[::]:8883\"\nack = \"memory\"\nlimits.connections = 7\n\
         [listener.tls]\ncertificate = \"own.pem\"\nclient_certificates = \"required\"\n\
         [[listener]]\naddress = \"[::1]:2\"\n[[listener]]\naddress = \"[::1]:0\"\n[[listener]]\naddress = \"[::1]:0\"\n",
    )
    .expect("good");
    let listeners = config.listeners();
    let names: Vec<_> = listeners.iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        ["mqtt://127.0.0.1:1", "devices", "mqtt://[::1]:2", "mqtt://[::1]:0", "mqtt://[::1]:0#2"],
        "the default name is the address"
    );
    let acks: Vec<_> = listeners.iter().map(|listener| listener.ack).collect();
    use tautwire_session::AckLevel::{Disk, Memory, Os};
    assert_eq!(acks, [Os, Memory, Os, Disk, Disk]);
    assert_eq!((listeners[0].connections, listeners[1].connections), (None, Some(7)));
    let tls = &listeners[1].tls;
    let paths = |paths: &super::tls::FilePaths| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    assert_eq!((paths(&tls.certificate), paths(&tls.key)), (vec!["own.pem".to_owned()], vec!["all.key".to_owned()]));
    assert_eq!(tls.client_certificates, tautwire_tls::ClientCertificates::Required);
    assert_eq!(listeners[2].tls, config.tls);
    assert_eq!(from_file(&to_toml(&config)), Ok(config));
}

#[test]
fn listener_table_errors_are_reported_with_their_location() {
    let wrong = |text: &str| one_error(from_file(text));
    assert_eq!(
        wrong("[[listener]]\naddress = \"127.0.0.1:1\"\nconections = 1\n"),
        "tautwire.toml:3:1: there is no key conections; `tautwire config show` lists all keys [config_unknown_key]"
    );
    assert_eq!(
        wrong("[[listener]]\naddress = \"127.0.0.1:1\"\nlimits.connections = 0\n"),
        "tautwire.toml:3:22: limits.connections: 0 is out of range; write a whole number from 1 to 100000000 [config_out_of_range]"
    );
    assert!(wrong("threads = 1\n[[listener]]\nname = \"a\"\n").starts_with("tautwire.toml:2:"));
    assert!(wrong("[[listener]]\nname = \"a\"\n").contains("needs the key address [config_missing]"));
    assert!(wrong("[[listener]]\naddress = \"here\"\n").contains("address: \"here\" is not an IP address and port"));
    assert!(wrong("[[listener]]\nname = \"a b\"\naddress = \"[::]:1\"\n").contains("is not a name"));
    assert!(wrong("[[listener]]\nname = \"admin\"\naddress = \"[::]:1\"\n").contains("the admin API"));
    assert!(wrong("[listener]\naddress = \"[::]:1\"\n").contains("write [[listener]] on its own line"));
    assert!(wrong("listener = [1]\n").contains("write [[listener]] on its own line"));
    assert!(wrong("[[listeners]]\naddress = \"[::]:1\"\n").contains("did you mean [[listener]]?"));
    assert!(wrong("[[listener]]\naddress = \"[::]:1\"\n[listener.tsl]\nkey = \"a\"\n").contains("did you mean [tls]?"));
}

#[test]
fn shared_users_apply_to_listeners_without_their_own_file() {
    let text = "[auth]\npassword_file = \"own\"\n[[listener]]\naddress = \"mqtt://127.0.0.1:0\"\n\
                [[listener]]\naddress = \"mqtt://127.0.0.1:1\"\nauth.password_file = \"separate\"\n\
                [[listener]]\naddress = \"mqtt://127.0.0.1:2\"\nauth.password_file = \"\"\n";
    let mut config = from_file(text).expect("good");
    config.listen.remove_default();
    let users = |shares| -> Vec<_> {
        let listeners = config.listeners_that_share(shares).into_iter();
        let file =
            |listener: &listener::Listener| listener.auth.password_file.get().map(|file| file.display().to_string());
        listeners.map(|listener| (listener.uses_shared_users, file(&listener), listener.allows_anonymous())).collect()
    };
    let own = |file: &str| (false, Some(file.to_owned()), false);
    let separate = [own("separate"), (false, None, true)];
    assert_eq!(users(false), [&[own("own")][..], &separate].concat());
    // Listeners with users require them, wherever they come from.
    assert_eq!(users(true), [&[(true, None, false)][..], &separate].concat());
}

#[test]
fn in_a_cluster_users_can_be_added_later() {
    let closed = "listen=mqtt://127.0.0.1:0";
    let refused = from_options(&[closed, "auth.anonymous=false"]).expect_err("no client can authenticate");
    assert!(refused[0].contains("no client can authenticate on"), "{refused:?}");
    let config = from_options(&[closed, "auth.anonymous=false", "cluster.servers=nats://a"]).expect("good");
    assert!(config.warnings().iter().any(|warning| warning.contains("unless the cluster shares users")));
}

#[test]
fn a_unix_socket_has_a_path_and_a_mode() {
    let config = from_file(
        "listen = [\"unix:/run/a\", \"unix:///run/b\"]\n[[listener]]\naddress = \"unix:/run/c\"\nmode = \"600\"\n",
    );
    let config = config.expect("good");
    assert_eq!(addresses(&config), ["unix:/run/a", "unix:/run/b", "unix:/run/c"]);
    let modes: Vec<_> = config.listeners().iter().map(|listener| listener.mode).collect();
    assert_eq!(modes, [0o660, 0o660, 0o600]);
    assert!(config.warnings().is_empty(), "only this machine can reach it");
    assert_eq!(from_file(&to_toml(&config)), Ok(config));
    for wrong in ["unix:a", "unix:", "unix://host/a"] {
        assert!(one_error(from_options(&[&format!("listen={wrong}")])).contains("has no absolute path"), "{wrong}");
    }
    assert!(one_error(from_options(&["listen=unix:/a,unix:/a"])).contains("/a is listed twice"));
    let mode = |mode: &str| from_file(&format!("[[listener]]\naddress = \"unix:/a\"\nmode = {mode}\n"));
    assert!(
        one_error(mode("\"888\"")).contains("is not a mode") && one_error(mode("660")).contains("found a whole number")
    );
}

#[test]
fn proxies_are_networks_of_a_listener() {
    let table = |trusted: &str| {
        from_file(&format!("[[listener]]\naddress = \"127.0.0.1:1\"\n[listener.proxy]\ntrusted_networks = {trusted}\n"))
    };
    let config = table("[\"10.0.0.0/8\", \"::1\"]").expect("good");
    let networks: Vec<String> = config.listener[0]
        .proxy
        .trusted_networks
        .iter()
        .flat_map(|networks| networks.get())
        .map(ToString::to_string)
        .collect();
    assert_eq!(networks, ["10.0.0.0/8", "::1/128"]);
    assert_eq!(from_file(&to_toml(&config)), Ok(config));
    assert!(one_error(table("[]")).contains("nobody could connect"));
    assert!(
        one_error(table("\"10.0.0.1/8\""))
            .contains("tautwire.toml:4:20: proxy.trusted_networks: \"10.0.0.1/8\" is not a network")
    );
    assert!(
        one_error(from_options(&["proxy.trusted_networks=::1"])).contains("there is no key proxy.trusted_networks")
    );
    let folder = Scratch::new("proxy");
    let file = folder.write(
        "tautwire.toml",
        "[[listener]]\naddress = \"unix:/a\"\nauth.anonymous = true\nproxy.trusted_networks = \"::1\"\n",
    );
    let error = Config::load(Some(&file), &[]).map_err(|errors| errors.iter().map(ToString::to_string).collect());
    assert!(one_error(error).contains("is a Unix socket"));
}

/// Clients behind a local proxy can come from anywhere, so the local address of the listener does not make them trusted.
#[test]
fn proxied_clients_are_not_local() {
    let folder = Scratch::new("by-proxy");
    let by_proxy = |auth: &str| {
        let text = format!("[[listener]]\naddress = \"127.0.0.1:1\"\nproxy.trusted_networks = \"127.0.0.1\"\n{auth}\n");
        let config = Config::load(Some(&folder.write("tautwire.toml", &text)), &[]);
        config.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let refused = one_error(by_proxy(""));
    assert!(refused.contains("no client can authenticate on") && refused.contains("client certificates"), "{refused}");
    let open = by_proxy("auth.anonymous = true").expect("it says so");
    assert!(open.listeners()[0].allows_anonymous());
    assert!(open.warnings().iter().any(|warning| warning.contains("is open to the network")), "{:?}", open.warnings());
    let certificates_only = by_proxy("auth.anonymous = false").expect("the proxy names holders of certificates");
    assert!(
        !certificates_only.listeners()[0].allows_anonymous() && certificates_only.listeners()[0].accepts_certificates()
    );
    let users = by_proxy("auth.password_file = \"users\"").expect("users are known");
    assert!(!users.listeners()[0].allows_anonymous() && !users.listeners()[0].allows_connected_anonymous());
    let nobody = one_error(by_proxy("auth.anonymous = false\nauth.certificate_identity = \"none\""));
    assert!(nobody.contains("no client can authenticate on"), "{nobody}");
}

#[test]
fn listeners_share_neither_name_nor_address() {
    let folder = Scratch::new("listeners");
    let load = |text: &str, options: &[&str]| {
        let file = folder.write("tautwire.toml", text);
        let options: Vec<_> = options.iter().map(|set| Override::from_argument(set).expect("KEY=VALUE")).collect();
        Config::load(Some(&file), &options).map_err(|errors| errors.iter().map(ToString::to_string).collect())
    };
    let table = |name: &str, address: &str| format!("[[listener]]\nname = \"{name}\"\naddress = \"{address}\"\n");
    let two = |first: &str, second: &str| format!("{first}{second}");
    let config = load(&two(&table("a", "127.0.0.1:1"), &table("b", "127.0.0.1:2")), &[]).expect("good");
    assert_eq!(addresses(&config), ["mqtt://127.0.0.1:1", "mqtt://127.0.0.1:2"], "the default does not count");
    assert!(
        one_error(load(&two(&table("a", "127.0.0.1:1"), &table("a", "127.0.0.1:2")), &[]))
            .contains("two listeners have the name \"a\"")
    );
    assert!(one_error(load(&two(&table("a", "[::1]:1"), &table("b", "ws://[::1]:1")), &[])).contains("listed twice"));
    let both = load(&table("a", "127.0.0.1:1"), &["listen=127.0.0.1:2"]).expect("good");
    assert_eq!(addresses(&both), ["mqtt://127.0.0.1:2", "mqtt://127.0.0.1:1"]);
    assert!(one_error(load(&table("a", "127.0.0.1:1"), &["listen=127.0.0.1:1"])).contains("listed twice"));
    let missing = one_error(load(&table("a", "wss://127.0.0.1:1"), &[]));
    assert!(missing.contains("a needs tls.certificate"), "{missing}");
    let only = [Override::from_option(LISTEN_OPTION, "listen", "127.0.0.1:3".to_owned())];
    let file = folder.write("tautwire.toml", &table("a", "127.0.0.1:1"));
    assert_eq!(addresses(&Config::load(Some(&file), &only).expect("good")), ["mqtt://127.0.0.1:3"]);
    let shown = to_toml(&load(&table("a", "127.0.0.1:1"), &[]).expect("good"));
    assert_eq!(addresses(&load(&shown, &[]).expect("the output is valid")), ["mqtt://127.0.0.1:1"]);
}

#[test]
fn paths_in_a_table_are_relative_to_the_file() {
    let folder = Scratch::new("listener-paths");
    let text = "[[listener]]\naddress = \"mqtts://127.0.0.1:1\"\ntls.certificate = \"a.pem\"\ntls.key = \"a.key\"\n";
    let config = Config::load(Some(&folder.write("tautwire.toml", text)), &[]).expect("good");
    let certificates = config.listeners()[0].tls.certificate.clone();
    assert_eq!(certificates.iter().collect::<Vec<_>>(), [folder.0.join("a.pem")]);
}

/// A folder that is removed when this is dropped.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("tautwire-config-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("makes a folder");
        Scratch(path)
    }

    fn write(&self, name: &str, text: &str) -> std::path::PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("writes");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn quotas_without_effect_in_a_cluster_are_reported() {
    let quotas = ["limits.retained_messages_per_client=10", "limits.user_retained_bytes=1000"];
    assert!(from_options(&quotas).expect("good").warnings().is_empty());
    let in_cluster = from_options(&[&quotas[..], &["cluster.servers=nats://a"]].concat()).expect("good");
    let warnings = in_cluster.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings.iter().all(|warning| warning.ends_with("[cluster_retained_quotas]")), "{warnings:?}");
}

#[test]
fn origins_have_no_paths() {
    let config = from_options(&["websocket.allowed_origins=https://example.org,null"]).expect("good");
    let origins: Vec<_> = config.websocket.allowed_origins.iter().map(|origin| origin.as_str()).collect();
    assert_eq!(origins, ["https://example.org", "null"]);
    assert!(config.warnings().is_empty());
    assert!(one_error(from_options(&["websocket.allowed_origins=example.org"])).contains("is not an origin"));
    assert_eq!(from_options(&["websocket.allowed_origins=*"]).expect("good").warnings().len(), 1);
    assert_eq!(from_options(&["limits.websocket_frame_bytes=1000"]).expect("good").warnings().len(), 1);
}

#[test]
fn paths_in_a_file_are_relative_to_it() {
    let folder = std::env::temp_dir().join(format!("tautwire-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("makes a folder");
    let file = folder.join("tautwire.toml");
    std::fs::write(&file, "[contracts]\npath = \"here\"\n[admin]\ntoken_file = \"/there/token\"\n").expect("writes");
    let config = Config::load(Some(&file), &[]).expect("reads");
    assert_eq!(config.contracts.path.get(), Some(folder.join("here").as_path()));
    assert_eq!(config.admin.token_file.get(), Some(Path::new("/there/token")));
    let given = [Override::from_argument("contracts.path=given").expect("reads")];
    let config = Config::load(Some(&file), &given).expect("reads");
    let here = std::env::current_dir().expect("there is one");
    assert_eq!(config.contracts.path.get(), Some(here.join("given").as_path()));
    std::fs::remove_dir_all(&folder).expect("removes");
}

#[test]
fn the_admin_api_is_local_by_default_and_always_needs_a_token() {
    let listen = |value: &str| {
        let token = "admin.token_file=token";
        from_options(&[&format!("admin.listen={value}"), token])
            .map(|config| config.admin.listen.0.map(|to| to.to_string()))
    };
    assert_eq!(listen("9183"), Ok(Some("http://127.0.0.1:9183".to_owned())));
    assert_eq!(listen("'9183'"), Ok(Some("http://127.0.0.1:9183".to_owned())));
    assert_eq!(listen("[::1]:9183"), Ok(Some("http://[::1]:9183".to_owned())));
    assert_eq!(listen("http://127.0.0.1:9183/"), Ok(Some("http://127.0.0.1:9183".to_owned())));
    assert_eq!(listen(""), Ok(None));
    assert!(listen("localhost:9183").is_err() && listen("65536").is_err() && listen("true").is_err());
    let alone = one_error(from_options(&["admin.listen=9183"]));
    assert_eq!(
        alone,
        "admin.listen: needs admin.token_file, admin.tokens_file or admin.roles: the API always requires authentication [config_missing]"
    );
    let open = |more: &[&str]| from_options(&[&["admin.token_file=token"], more].concat());
    let refused = one_error(open(&["admin.listen=0.0.0.0:9183"]));
    assert!(refused.contains("write https://0.0.0.0:9183") && refused.contains("admin.plain_http"), "{refused}");
    let allowed = open(&["admin.listen=0.0.0.0:9183", "admin.plain_http=true"]).expect("reads");
    assert!(allowed.warnings().iter().any(|warning| warning.contains("tokens and passwords are sent unencrypted")));
    let bare = one_error(open(&["admin.listen=https://0.0.0.0:9183"]));
    assert!(bare.starts_with("admin.listen: https://0.0.0.0:9183 needs admin.certificate"), "{bare}");
    let is_tls = open(&["admin.listen=https://0.0.0.0:9183", "tls.certificate=c", "tls.key=k"]).expect("reads");
    assert_eq!(is_tls.warnings(), [""; 0]);
    let half = one_error(open(&["admin.listen=https://9183", "admin.certificate=c", "tls.certificate=c", "tls.key=k"]));
    assert!(half.starts_with("admin.key: 0 keys"), "{half}");
}

#[test]
fn printed_configuration_reads_back_the_same() {
    assert_eq!(from_file(&to_toml(&Config::default())), Ok(Config::default()));
    let other = from_options(&[
        "listen=0.0.0.0:0,ws://127.0.0.1:1/a",
        "auth.anonymous=true",
        "auth.jwt_algorithms=ES256,EdDSA",
        "auth.jwt_audiences=a,b",
        "auth.ban_rules=10 failures by address in 60 ban 600",
        "auth.hook_unreachable=ignore",
        "websocket.allowed_origins=https://example.org,*",
        "threads=7",
        "mqtt.max_qos=0",
        "mqtt.retain_available=false",
        "limits.slow_consumer=disconnect",
        "limits.retained_bytes=1",
        "log.format=json",
        "log.level=error",
    ])
    .expect("good");
    assert_eq!(from_file(&to_toml(&other)), Ok(other));
}

#[test]
fn every_key_is_documented_and_its_default_is_in_range() {
    let defaults = Config::default();
    for key in KEYS {
        assert!(key.doc.ends_with('.'), "{}: {}", key.name, key.doc);
        assert!(!key.doc.contains("  "), "{}: {}", key.name, key.doc);
        let set = format!("{}={}", key.name, (key.show)(&defaults));
        assert_eq!(from_options(&[&set]).as_ref(), Ok(&defaults), "{set}");
        if let Some(section) = key.section() {
            assert!(SECTIONS.iter().any(|known| known.name == section));
        }
        assert!(registry::find(KEYS, key.name).is_some());
    }
    let none = listener_config::ListenerConfig::default();
    for key in listener_config::KEYS {
        assert!(key.doc.ends_with('.') && !key.doc.contains("  "), "{}: {}", key.name, key.doc);
        assert_eq!((key.show)(&none), "", "{} has no default", key.name);
    }
}

#[test]
fn both_ends_of_every_range_are_accepted_and_values_beyond_are_refused() {
    for key in KEYS {
        let Some(range) = &key.range else { continue };
        for inside in [range.start(), range.end()] {
            let set = format!("{}={inside}", key.name);
            assert!(from_options(&[&set]).is_ok(), "{set}");
        }
        let beyond = format!("{}={}", key.name, range.end() + 1);
        assert!(from_options(&[&beyond]).is_err(), "{beyond}");
    }
}

#[test]
fn the_committed_reference_page_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == to_markdown(),
        "docs/configuration.md is out of date; write it with: cargo run -p tautwire-server -- config doc > docs/configuration.md"
    );
}
