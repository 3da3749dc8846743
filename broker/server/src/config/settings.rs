//! Every key of the configuration, with its meaning, type, default, range and unit.

use tautwire_engine::{ProtocolVersions, SlowConsumer};
use tautwire_identity::UnreachablePolicy;
use tautwire_protocol::QoS;
use tautwire_tls::{CipherSuites, ClientCertificates, MinimumVersion};
use tautwire_websocket::AllowedOrigin;

use super::ack_levels::{AckListeners, AckTopics, CommonAck};
use super::admin_roles::AdminRoles;
use super::auth::{Algorithms, AnonymousClients, CertificateNames, FailureRules, PasswordCostText, Text, Texts};
use super::bridge_config::BridgeConfig;
use super::certificate_rules::CertificateRuleList;
use super::cluster::ClusterSync;
use super::data_path::DataPath;
use super::listen::Listen;
use super::listener_config::ListenerConfig;
use super::metered_topics::MeteredTopics;
use super::protocol::ClientIdPrefix;
use super::registry::settings;
use super::slow_consumer::{SlowConsumerTopics, SlowConsumerUsers};
use super::telemetry::{Attributes, Endpoint, Ratio};
use super::tls::FilePaths;
use super::value::{AdminListen, FilePath, LogFormat, TopicPrefix};

settings! {
    /// The effective configuration of a broker.
    Config {
        /// Addresses and ports to serve MQTT on: plain TCP by default, TLS with `mqtts://`, WebSocket with `ws://`, WebSocket over TLS with
        /// `wss://`, and a Unix socket with `unix:/PATH`. With port 0 the kernel chooses the port. The path of a WebSocket address defaults
        /// to `/mqtt`. `[::]:1883` also serves IPv4, unless the system sets `net.ipv6.bindv6only`. The default is reachable from this
        /// machine only; configure `auth` before you listen on a public address. If the port of the default WebSocket address is taken, the
        /// broker starts without it; a configured address must be free. If there are `[[listener]]` tables, there is no default.
        listen: Listen = Listen::default();
        /// Number of reactor threads; each serves a share of the clients. 0 means the number of cores minus one, and at least one. 64 at
        /// most.
        threads: usize = 0, in 0..=64;
        /// The user that the broker [switches to](operating/running.md#started-as-root) once it listens, if it was started as root: a name
        /// in `/etc/passwd`, or numbers as `UID:GID`. Empty means that the broker keeps its user.
        user: Text = Text::default();
        /// Interval at which the broker checks whether the configuration, or a file that it names (certificates, users, rules, contracts
        /// and others), has changed; if so, it [reloads](operating/reload.md). A change is applied once two checks in a row have found the
        /// same content. 0 turns this off.
        file_watch_interval_s: u64 = 0, in 0..=86_400;
        tables listener: ListenerConfig;
        tables bridge: BridgeConfig;
    }

    /// Capabilities and limits of the protocol. MQTT 5.0 clients get them in CONNACK; the same limits apply to MQTT 3.1.1 clients.
    mqtt: MqttConfig {
        /// Unacknowledged QoS 1 and QoS 2 messages accepted from one client (Receive Maximum, MQTT 5.0 section 3.2.2.3.3).
        receive_maximum: u16 = 1024, in 1..=65_535, unit "messages";
        /// Largest packet accepted from a client, including the fixed header (MQTT 5.0 section 3.2.2.3.6). A larger packet ends the
        /// connection with Packet too large (0x95) before memory is allocated for it.
        maximum_packet_size: u32 = 16_777_216, in 64..=268_435_460, unit "bytes";
        /// Topic aliases that a client may use towards the broker (MQTT 5.0 section 3.2.2.3.8). 0 means none.
        topic_alias_maximum: u16 = 64, in 0..=65_535, unit "aliases";
        /// Longest keep alive. A client that requests a longer one, or none, gets this one (Server Keep Alive, MQTT 5.0 section
        /// 3.2.2.3.14). 0 means no limit.
        max_keep_alive_s: u16 = 0, in 0..=65_535;
        /// Highest QoS served (Maximum QoS, MQTT 5.0 section 3.2.2.3.4).
        max_qos: QoS = QoS::ExactlyOnce;
        /// Whether retained messages are supported (MQTT 5.0 section 3.2.2.3.5).
        retain_available: bool = true;
        /// Whether topic filters may contain `+` and `#` (MQTT 5.0 section 3.2.2.3.11).
        wildcard_subscription_available: bool = true;
        /// Whether shared subscriptions (`$share/…`) are supported (MQTT 5.0 section 3.2.2.3.13).
        shared_subscription_available: bool = true;
        /// If a member of a shared subscription acknowledges nothing for this time, its QoS 1 messages are redispatched to other members,
        /// at the latest after one and a half times this time. The member gets no further messages until it acknowledges one. A message
        /// that the member is still working on is then processed twice, so set more than the longest processing time. 0 means never. Not
        /// used in a cluster.
        shared_ack_timeout_s: u32 = 300, in 0..=86_400;
        /// Whether subscription identifiers are supported (MQTT 5.0 section 3.2.2.3.12).
        subscription_identifier_available: bool = true;
        /// Prefix of the Response Information for clients that request it; the client identifier is appended (MQTT 5.0 section 3.2.2.3.15).
        /// It names the part of the topic tree in which a client may expect responses.
        response_information: TopicPrefix = TopicPrefix::default();
        /// Longest time that a session outlives its connection. A client that requests more gets this value (MQTT 5.0 section 3.2.2.3.2).
        /// 4294967295 means no limit.
        max_session_expiry_s: u32 = u32::MAX, in 0..=4_294_967_295;
        /// The protocol versions that are accepted. A client with another version is refused with Unsupported Protocol Version (0x84; in
        /// 3.1 and 3.1.1 return code 1).
        protocol_versions: ProtocolVersions = ProtocolVersions::ALL;
        /// Whether a client may send an empty client identifier and have the broker assign one. If not, it is refused with Client
        /// Identifier not valid (0x85; in 3.1.1 return code 2).
        allow_empty_client_id: bool = true;
        /// Prefix of assigned client identifiers. 16 hexadecimal digits follow.
        assigned_client_id_prefix: ClientIdPrefix = ClientIdPrefix::default();
        /// Time from accepting a connection to its complete CONNECT packet. After it, the connection is closed.
        connect_timeout_s: u32 = 10, in 1..=3_600;
    }

    /// MQTT over WebSocket (MQTT 5.0 section 6), with the subprotocol `mqtt`.
    websocket: WebSocketConfig {
        /// Origins of web pages that may connect, such as `https://example.org` or `http://10.0.0.7:3000`; `*` for all, `null` for files
        /// and sandboxed frames. Always allowed are pages from this machine (`localhost`, 127.0.0.0/8, `[::1]`), pages from the IP address
        /// that the request was sent to, and programs other than browsers (no Origin field).
        allowed_origins: Vec<AllowedOrigin> = Vec::new();
    }

    /// TLS, for addresses that begin with `mqtts://` or `wss://`. All files are PEM; they are read at start and on SIGHUP, and connected
    /// clients stay connected.
    tls: TlsConfig {
        /// The certificate of the broker, followed by the intermediate certificates. Of several files, a client gets the first one that
        /// contains the requested name (SNI), or else the first file.
        certificate: FilePaths = FilePaths::default();
        /// The private key of the certificate: one for each file in `tls.certificate`, in the same order. It must not be encrypted.
        key: FilePaths = FilePaths::default();
        /// Whether clients present certificates: `none`; `optional`, clients without one may connect, too; `required`.
        client_certificates: ClientCertificates = ClientCertificates::None;
        /// The certificate authorities that issue client certificates.
        client_ca: FilePaths = FilePaths::default();
        /// Certificate revocation lists (CRL). If there are any, there must be one for each authority. An expired list causes all
        /// certificates of its authority to be refused.
        crl: FilePaths = FilePaths::default();
        /// The lowest TLS version that is accepted.
        minimum_version: MinimumVersion = MinimumVersion::Tls12;
        /// The cipher suites that are offered, most preferred first. Empty means all of them, and the client's preference decides. Each has
        /// forward secrecy and authenticated encryption.
        cipher_suites: CipherSuites = CipherSuites::default();
    }

    /// Who may connect; see [authentication](concepts/authentication.md). A listener tries these in order, and the first that knows the
    /// client decides: its certificate, a token, the password file, the hook, whether anonymous clients are accepted.
    auth: AuthConfig {
        /// Whether clients without credentials are accepted. `auto` accepts them on listeners that only this machine can reach and that
        /// have no proxies, if nothing else identifies clients or client certificates are optional. If nothing else is configured, user
        /// names and passwords are ignored.
        anonymous: AnonymousClients = AnonymousClients::Auto;
        /// The file with [users and their passwords](operating/users.md). `tautwire user` writes it; password files of mosquitto work as
        /// they are. It is read at start and on SIGHUP; clients whose user was removed are disconnected. Empty means none.
        password_file: FilePath = FilePath::default();
        /// Whether passwords and tokens are accepted over unencrypted connections from other machines.
        plaintext_passwords: bool = false;
        /// How the common name (CN) of a client certificate identifies the client, if `tls.client_certificates` requests one: `user`, as
        /// the user; `user_and_client_id`, as the user and the client identifier, which replaces the one that the client sends; `none`,
        /// not at all.
        certificate_identity: CertificateNames = CertificateNames::User;
        /// Replaces `auth.certificate_identity`: [rules](concepts/authentication.md#certificates) that map certificates to users, for example `[{
        /// issuer = "Works CA", uri = "urn:dev:*", user = "{*}", client_id = "{cn}-{serial}" }]`. The first rule that matches applies; a
        /// client whose certificate matches none is refused. A client identifier from a rule replaces the one that the client sends. Empty
        /// means that `auth.certificate_identity` applies.
        certificate_rules: CertificateRuleList = CertificateRuleList::default();
        /// The keys that verify tokens (a JWT in the password): a file with a JWKS or with public keys in PEM.
        jwt_key_file: FilePath = FilePath::default();
        /// The URL of a JWKS. It is fetched when a token arrives, and refreshed from time to time; while the URL is unreachable, the last
        /// keys stay valid. `https://`, or `http://` on this machine.
        jwks_url: Text = Text::default();
        /// The file with the secret for HS256, HS384 and HS512.
        jwt_secret_file: FilePath = FilePath::default();
        /// Accepted signature algorithms of tokens. Empty means all that fit the keys.
        jwt_algorithms: Algorithms = Algorithms::default();
        /// Accepted issuers of tokens (`iss`). Empty means any issuer that has a key.
        jwt_issuers: Texts = Texts::default();
        /// Accepted audiences of tokens (`aud`). Empty means that only tokens without an audience are accepted.
        jwt_audiences: Texts = Texts::default();
        /// Allowed clock difference to the issuers of tokens.
        jwt_leeway_s: u64 = 30, in 0..=300;
        /// The claim with the user. A dot selects a member of an object.
        jwt_user_claim: Text = Text("sub".to_owned());
        /// The claim with the client identifier, which replaces the one that the client sends. Empty means that the client chooses.
        jwt_client_id_claim: Text = Text::default();
        /// The claim with the [roles](concepts/access-rules.md). Empty means none.
        jwt_roles_claim: Text = Text::default();
        /// The URL of an [authentication hook](reference/auth-hook.openapi.json): an HTTP service that authenticates clients. `https://`,
        /// or `http://` on this machine. Put secrets in `auth.hook_authorization_file`: operators can see the URL.
        hook_url: Text = Text::default();
        /// The file with the value of the `Authorization` field in requests to the hook.
        hook_authorization_file: FilePath = FilePath::default();
        /// Timeout of a request to the hook.
        hook_timeout_ms: u64 = 2_000, in 50..=60_000;
        /// Concurrent requests to the hook. Further clients wait, up to `limits.authentications`.
        hook_concurrency: usize = 16, in 1..=256;
        /// How long an acceptance by the hook is cached. 0 means not at all.
        hook_allow_cache_s: u64 = 60, in 0..=86_400;
        /// How long a refusal by the hook is cached. 0 means not at all.
        hook_deny_cache_s: u64 = 5, in 0..=86_400;
        /// After this many consecutive failures, the hook is not called for `auth.hook_retry_s`.
        hook_failure_threshold: u32 = 5, in 1..=1_000;
        /// How long the hook is not called after repeated failures. Then the request of one client tests whether it works again.
        hook_retry_s: u64 = 10, in 1..=3_600;
        /// What happens to clients while the hook is unreachable: `deny`, they are refused; `ignore`, the next authentication method
        /// decides.
        hook_unreachable: UnreachablePolicy = UnreachablePolicy::Refuse;
        /// The certificate authorities for the hook and for `auth.jwks_url`. Empty means those of the system.
        https_ca: FilePaths = FilePaths::default();
        /// Bans for repeated authentication failures, for example `10 by address in 60 ban 600`. A [ban](concepts/authentication.md#bans)
        /// also disconnects connected clients.
        ban_rules: FailureRules = FailureRules::default();
        /// Threads that compute password hashes; see [how fast users can log in](operating/users.md#how-fast-users-can-log-in). As many
        /// threads verify signatures. 0 means half the number of cores, at least one and at most eight.
        threads: usize = 0, in 0..=64;
        /// Verified passwords in the cache, which is in memory and stores keyed hashes: a client that reconnects needs no new hash. A
        /// restart or a reload clears it. 0 means none.
        password_cache_entries: usize = 100_000, in 0..=10_000_000;
        /// The cost of new password hashes, for `tautwire user add --config` and `user passwd --config`: `low`, `default`, `high`, or
        /// memory in KiB, iterations and lanes of Argon2id, such as `m=19456,t=2,p=1`. [Which
        /// one](operating/users.md#how-fast-users-can-log-in).
        password_cost: PasswordCostText = PasswordCostText::default();
    }

    /// Access rules: who may publish and subscribe to what.
    acl: AclConfig {
        /// The file with the [access rules](concepts/access-rules.md). It is read at start and on SIGHUP; if it contains an error, none of
        /// it is applied. Empty means that everybody may do everything.
        file: FilePath = FilePath::default();
        /// Whether a retained message is withheld from new subscribers if its publisher is no longer allowed to publish it. To check this,
        /// the broker stores the listener, the user, the client identifier and the roles of the publisher with each retained message from
        /// then on, also on disk; older messages are not checked. Claims are not stored: a message that is only allowed by a rule on a
        /// claim is withheld.
        check_retained_publisher: bool = false;
    }

    /// The audit log.
    audit: AuditConfig {
        /// The [audit log](operating/running.md#audit-log): who connected, who was refused or denied what, and what operators did, one JSON
        /// object on each line. It is reopened at each [reload](operating/reload.md), so you can rotate it. Empty means none.
        file: FilePath = FilePath::default();
    }

    /// Persistence: the state that survives a restart.
    data: DataConfig {
        /// The directory for sessions, their messages and retained messages, so that they survive a crash of the broker or the machine.
        /// Acknowledgements are sent once the data is on disk. The directory is created if it does not exist; only one broker can use it at
        /// a time. `auto` is the state directory of the systemd service (`/var/lib/tautwire`), or else of the user
        /// (`$XDG_STATE_HOME/tautwire`, or `~/.local/state/tautwire`). Empty means that everything is in memory only.
        path: DataPath = DataPath::default();
        /// What acknowledgements of persistent data wait for: `quorum`, most servers of the cluster have it, and it survives the loss of a
        /// machine; `disk`, it survives a power failure; `os`, the operating system has it, and it survives the end of the broker process;
        /// `memory`, nothing. The data is written in any case. `auto` is `quorum` in a
        /// [cluster](operating/cluster.md#what-acknowledgements-wait-for) and otherwise `disk`; without a cluster there is no `quorum`. In
        /// a cluster, `os` and `disk` wait for the quorum as well, and a level applies to messages only. See [what
        /// survives](operating/running.md#what-survives).
        ack: CommonAck = CommonAck::Auto;
        /// The same for acknowledgements of messages (PUBACK, PUBREC), by topic, for example `telemetry/# = memory`. The first matching
        /// filter applies.
        ack_topics: AckTopics = AckTopics::default();
        /// The same for all acknowledgements to clients of a listener, by its address as written in `listen`, for example `127.0.0.1:1884 =
        /// os`. `data.ack_topics` and the `ack` of a `[[listener]]` table take precedence.
        ack_listeners: AckListeners = AckListeners::default();
    }

    /// Several brokers as one [cluster on NATS JetStream](operating/cluster.md), which stores the persistent state; `data.path` then
    /// contains only the identity of this node. Files are read at start and when they change.
    cluster: ClusterConfig {
        /// The NATS servers, each as `nats://HOST:PORT` or `tls://HOST:PORT`, as a list or in one string with commas. One reachable server
        /// is enough; it names the others. Do not put user names or passwords here. Empty means that the broker is not in a cluster.
        servers: Texts = Texts::default();
        /// The name of this node for operators. Empty means the host name.
        name: Text = Text::default();
        /// The address of this node for clients that other nodes redirect: the Server Reference of MQTT 5.0 (section 4.11), for example
        /// `broker-1.example.org:1883`. Empty means none.
        server_reference: Text = Text::default();
        /// The file with the JWT and the NKey of this node for the NATS servers, as `nsc` writes it (`.creds`). Set at most one of
        /// `credentials_file`, `nkey_file`, `password_file` and `token_file`.
        credentials_file: FilePath = FilePath::default();
        /// The file with the seed of an NKey.
        nkey_file: FilePath = FilePath::default();
        /// The user name for `cluster.password_file`.
        user: Text = Text::default();
        /// The file with a password.
        password_file: FilePath = FilePath::default();
        /// The file with a token.
        token_file: FilePath = FilePath::default();
        /// Whether TLS is required, even if the servers do not require it.
        tls: bool = false;
        /// The certificate authorities of the NATS servers. Empty means those of the system.
        ca: FilePath = FilePath::default();
        /// The client certificate of this node for the NATS servers.
        certificate: FilePath = FilePath::default();
        /// The private key of `cluster.certificate`.
        key: FilePath = FilePath::default();
        /// Number of servers that store each message. Most of them, or all, must have it before an acknowledgement is sent. Fewer than 3 do
        /// not survive the loss of one.
        replicas: u16 = 3, in 1..=5, unit "servers";
        /// How the broker knows that the servers sync to disk before they confirm (`sync_interval: always`); without that, a power failure
        /// may lose acknowledged data. `verify`: `cluster.monitoring_addresses` report it; `trust`: you guarantee it; `relaxed`: they do not, and
        /// you accept the risk.
        sync: ClusterSync = ClusterSync::Verify;
        /// The monitoring addresses of all servers, each as `HOST:PORT`.
        monitoring_addresses: Texts = Texts::default();
        /// Retention time of messages in the log for offline sessions. It applies to new streams; change existing ones with `nats stream
        /// edit`.
        log_max_age_s: u64 = 604_800, in 60..=315_360_000;
        /// Maximum size of each of the 16 partitions of the log. It applies to new streams only.
        log_max_bytes: u64 = 1_073_741_824, in 1_048_576..=1_125_899_906_842_624;
    }

    /// Limit on the memory of the process.
    memory: MemoryConfig {
        /// Memory limit of the process in bytes; at least 64 MiB to be useful. `limits.memory_bytes` is capped at half of it, and without
        /// `data.path` `limits.retained_bytes` at a quarter. 0 means three quarters of the memory of the machine or of the control group of
        /// the process.
        limit: u64 = 0, in 0..=1_152_921_504_606_846_976, unit "bytes";
    }

    /// Limit on persistent state on disk.
    disk: DiskConfig {
        /// Limit of the state in `data.path` in bytes; at least 64 MiB. When it is reached, publishers whose QoS 1 or QoS 2 message must be
        /// stored are refused with Quota exceeded (0x97) or, with MQTT 3.1.1, disconnected; such QoS 0 messages with RETAIN are dropped;
        /// new persistent sessions and their subscriptions are refused. Messages that need not be stored are still delivered. 0 means about
        /// nine tenths of the sum of the state at start and the free space of the file system at that time.
        limit: u64 = 0, in 0..=1_152_921_504_606_846_976, unit "bytes";
    }

    /// Contracts for payloads, by topic.
    contracts: ContractsConfig {
        /// The directory with `contracts.toml`, `.proto` files and JSON Schemas. It is read at start and at each
        /// [reload](operating/reload.md); if it contains an error, none of it is applied. Empty means no contracts.
        path: FilePath = FilePath::default();
        /// Whether clients can discover the contracts, by retained messages below `$SYS/contracts/` and on request. If not, there are no
        /// such messages, and requests are refused like any message to a topic below `$SYS`.
        discovery: bool = true;
    }

    /// Additional metrics.
    metrics: MetricsConfig {
        /// Topic filters for which messages are counted: published, delivered and dropped, for example `telemetry/#`. A message counts for
        /// each filter that matches its topic. See [topics](operating/metrics.md#by-topic-filter).
        topics: MeteredTopics = MeteredTopics::default();
    }

    /// The HTTP API for operators: health, metrics, administration at run time.
    admin: AdminConfig {
        /// Address and port of the API. A port without an address means 127.0.0.1; port 0 lets the kernel choose. Empty turns the API off.
        /// With `https://` it is [served over TLS](operating/administration.md#from-other-machines). Otherwise it is plain HTTP, and the
        /// address must be local unless `admin.plain_http` is set.
        listen: AdminListen = AdminListen::default();
        /// The certificate of the API if `admin.listen` begins with `https://`, in the form of `tls.certificate`. Empty means
        /// `tls.certificate` with `tls.key`. `tls.minimum_version` and `tls.cipher_suites` apply as well.
        certificate: FilePaths = FilePaths::default();
        /// The private key of `admin.certificate`, one for each file.
        key: FilePaths = FilePaths::default();
        /// Whether plain HTTP is served on a public address. Tokens and passwords are then sent unencrypted. Use it on isolated networks,
        /// such as that of a pod, and behind a proxy on another machine that terminates TLS.
        plain_http: bool = false;
        /// The file with an administrator token for requests (`Authorization: Bearer …`): one line of 16 to 1,024 visible characters
        /// without spaces. The token allows everything. The file is read at start and at each [reload](operating/reload.md). If
        /// `admin.listen` is set, this, `admin.tokens_file` or `admin.roles` is required; there is no default token.
        token_file: FilePath = FilePath::default();
        /// The file with [named tokens and their roles](operating/administration.md#tokens), written by `tautwire token`. It contains
        /// digests only. It is read at start and at each reload.
        tokens_file: FilePath = FilePath::default();
        /// Users of `auth.password_file` that may log in to the admin API and the dashboard, each with its
        /// [role](operating/administration.md#roles): `ann = operate`, or `ann = operate payloads` if the user may see payloads, too.
        roles: AdminRoles = AdminRoles::default();
        /// Maximum number of login sessions. When it is reached, a new login ends the session that was idle for the longest time.
        sessions: usize = 64, in 1..=10_000;
        /// Idle timeout of a login session.
        session_idle_timeout_s: u32 = 1_800, in 60..=86_400;
        /// Maximum lifetime of a login session.
        session_max_age_s: u32 = 43_200, in 60..=2_592_000;
    }

    /// Limits on what clients may use.
    limits: LimitsConfig {
        /// Open network connections. Further ones are closed on accept.
        connections: usize = 100_000, in 1..=100_000_000;
        /// Open network connections from one IPv4 address or one IPv6 /64 network. Further ones are closed on accept. Behind a proxy in
        /// `proxy.trusted_networks`, the client addresses that the proxy reports count. 0 means no limit.
        connections_per_address: usize = 0, in 0..=100_000_000;
        /// New connections per second, averaged. Further ones are closed on accept, before TLS. 0 means no limit.
        connect_rate: u32 = 0, in 0..=1_000_000, unit "connections";
        /// New connections accepted at once after a quiet time. 0 means as many as one second allows.
        connect_burst: u32 = 0, in 0..=1_000_000, unit "connections";
        /// New connections per second from one address, counted as in `limits.connections_per_address`. 0 means no limit.
        connect_rate_per_address: u32 = 0, in 0..=1_000_000, unit "connections";
        /// New connections accepted at once from one address. 0 means as many as one second allows.
        connect_burst_per_address: u32 = 0, in 0..=1_000_000, unit "connections";
        /// Concurrent TLS handshakes on each thread. A further connection replaces one whose client has been silent for a second; if there
        /// is none, it is closed on accept, before anything is computed for it. Handshakes get one millisecond of each turn, other clients
        /// the rest.
        tls_handshakes: usize = 4_096, in 1..=1_000_000;
        /// Clients that may wait for authentication. Further ones are refused with Server busy (0x89). The wait counts against no timeout
        /// while the queue advances.
        authentications: usize = 100_000, in 1..=1_000_000;
        /// Sessions, connected or not. A client that needs a new one is refused with Quota exceeded (0x97).
        sessions: usize = 1_000_000, in 1..=1_000_000_000;
        /// Longest client identifier. A longer one is refused with Client Identifier not valid (0x85). The standard requires servers to
        /// accept at least 23 bytes.
        client_id_bytes: usize = 1_024, in 23..=65_535;
        /// Disconnects of one client identifier within `limits.flapping_window_s` that count as flapping: the connection was taken over,
        /// lost, or closed by the broker. A flapping client is refused with Connection rate exceeded (0x9F) for `limits.flapping_block_s`; an
        /// open connection stays open. Disconnects by DISCONNECT do not count. 0 turns this off.
        flapping_disconnects: u32 = 60, in 0..=1_000_000, unit "connections";
        /// The time window in which disconnects are counted, from the first one.
        flapping_window_s: u32 = 60, in 1..=86_400;
        /// How long a flapping client is refused.
        flapping_block_s: u32 = 60, in 1..=86_400;
        /// Longest topic name or topic filter. A longer one is refused as invalid (0x90, 0x8F).
        topic_bytes: usize = 65_535, in 1..=65_535;
        /// Levels of a topic name or topic filter; `a/b/c` has three. One with more is refused as invalid (0x90, 0x8F).
        topic_levels: usize = 128, in 1..=65_536;
        /// Subscriptions of one session. Further ones are refused with Quota exceeded (0x97).
        subscriptions_per_session: usize = 100_000, in 1..=100_000_000;
        /// Topic filters in one SUBSCRIBE or UNSUBSCRIBE packet. More of them end the connection with Quota exceeded (0x97).
        subscriptions_per_packet: usize = 10_000, in 1..=1_000_000;
        /// QoS 1 and QoS 2 messages sent to one client and not yet acknowledged. The client's own Receive Maximum applies if it is lower.
        in_flight_per_client: u16 = 1_024, in 1..=65_535, unit "messages";
        /// Bytes of the messages in flight to one client, including topics, properties and the broker's bookkeeping. The next message is
        /// sent while the sum is below the limit, so a larger message is sent alone. 0 means no limit.
        in_flight_bytes_per_client: usize = 0, in 0..=1_099_511_627_776;
        /// Largest payload of a message that a client publishes. A message with a larger one is not delivered: PUBACK or PUBREC returns
        /// Implementation specific error (0x83); with QoS 0 or MQTT 3.1.1 the message is dropped as if it had been accepted. A CONNECT with
        /// a larger will is refused (0x95). `mqtt.maximum_packet_size`, in contrast, ends the connection. 0 means no limit.
        payload_bytes: usize = 0, in 0..=268_435_455;
        /// QoS 1 and QoS 2 messages queued for one session. When the queue is full, `limits.slow_consumer` decides. 0 means no limit other
        /// than the one in bytes; in a cluster it means 10,000, and the rest waits in the log.
        session_queue_messages: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of the messages of one session, queued or in flight. When the queue is full, `limits.slow_consumer` decides. With
        /// `data.path`, 0 means 1 GiB, or a sixteenth of `disk.limit` or of the file system, whichever is less; in a cluster, 64 MiB. With
        /// 0, a queue is also full when its session uses as much memory as one session may: `limits.memory_bytes_per_client`, and above a sixteenth of
        /// `limits.memory_bytes` at most what is left for others. Messages on disk count there with the size of their records, about 150
        /// bytes. With another value, a session that uses as much memory pauses publishers instead, whatever `limits.slow_consumer` says.
        session_queue_bytes: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// Bytes of QoS 1 and QoS 2 messages queued for one shared subscription because no member can take them. When the queue is full, a
        /// publisher is refused with Quota exceeded (0x97); reading from an MQTT 3.1.1 publisher pauses until there is space. Not used in a
        /// cluster, where the messages wait in the log.
        shared_queue_bytes: usize = 268_435_456, in 1_024..=1_099_511_627_776;
        /// What happens to a message for a session whose queue is full. `drop_new` drops the new message for this session, `drop_old` the
        /// oldest queued one; both are counted, logged, and reported to the client when it connects. `disconnect` drops the new message and
        /// ends the connection with Quota exceeded (0x97). `refuse` delivers the message to nobody and refuses it with Quota exceeded
        /// (0x97); an MQTT 3.1.1 publisher, which cannot be notified, is paused. `pause_publisher` pauses the publisher. Publishers
        /// continue when the queue is half empty. In a cluster, QoS 1 and QoS 2 messages wait in the log, and this applies only to the
        /// others.
        slow_consumer: SlowConsumer = SlowConsumer::DropNew;
        /// The same for messages to topics that match a filter, for example `orders/# = refuse`. The first matching filter applies.
        slow_consumer_topics: SlowConsumerTopics = SlowConsumerTopics::default();
        /// The same for sessions of a user, for example `billing = pause_publisher`, if no rule for topics matches. After a restart, the
        /// user of an offline client is unknown until it connects.
        slow_consumer_users: SlowConsumerUsers = SlowConsumerUsers::default();
        /// A session counts as stale if its client has been offline for this time and messages are queued for it: it is logged and
        /// counted (`sessions_stale`), and `tautwire doctor` lists it. It does not end. 0 means never.
        stale_session_s: u32 = 604_800, in 0..=4_294_967_295, unit "seconds";
        /// PUBLISH packets that one client may send per second, averaged. Reading from a faster client pauses; nothing is dropped, but
        /// everything that it sent after a delayed message, including PINGREQ, waits as well. A client that reconnects keeps its remaining
        /// allowance. 0 means no limit.
        publish_messages_per_s: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// PUBLISH packets that one client may send at once after a quiet time. A value below ten milliseconds' worth makes the rate hard
        /// to reach. 0 means as many as one second allows.
        publish_burst_messages: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of PUBLISH packets, including fixed headers, that one client may send per second, averaged. It is enforced like
        /// `limits.publish_messages_per_s`. 0 means no limit.
        publish_bytes_per_s: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// Bytes of PUBLISH packets that one client may send at once after a quiet time. A larger packet waits until as many bytes are
        /// allowed, and those behind it wait longer. 0 means as many as one second allows.
        publish_burst_bytes: usize = 0, in 0..=1_099_511_627_776;
        /// Pending output of one connection. Beyond it, QoS 0 messages are dropped and counted, and QoS 1 and QoS 2 messages wait in the
        /// session's queue.
        connection_output_bytes: usize = 4_194_304, in 1_024..=1_099_511_627_776;
        /// Memory that all clients together may use: messages, queues, output, incomplete packets, wills, filters, sessions, connections.
        /// Retained messages have their own limit. When it is reached, QoS 1 and QoS 2 messages are refused with Quota exceeded (0x97) or,
        /// with MQTT 3.1.1, reading from the publisher pauses; QoS 0 is dropped and counted; new connections, wills and filters are
        /// refused.
        memory_bytes: usize = 1_073_741_824, in 1_048_576..=1_099_511_627_776;
        /// Memory that one client may use, whatever other clients use. A client can also never use more than is left free for the others.
        /// The number of receivers of a message does not matter here: the message counts for each receiver.
        memory_bytes_per_client: usize = 268_435_456, in 65_536..=1_099_511_627_776;
        /// Messages that stay in memory if there is a `data.path`; at most an eighth of `limits.memory_bytes`. Beyond it, messages for
        /// offline or slow clients, and retained messages, are spilled to files in the data directory and read back before they are sent.
        spill_threshold_bytes: usize = 25_165_824, in 65_536..=1_099_511_627_776;
        /// Maximum size of the spill files. Messages that do not fit stay in memory.
        spill_bytes: usize = 17_179_869_184, in 1_048_576..=281_474_976_710_656;
        /// Number of retained messages. A message for another topic is refused with Quota exceeded (0x97).
        retained_messages: usize = 1_000_000, in 0..=1_000_000_000;
        /// Bytes of all retained messages, including topics. A message beyond it is refused with Quota exceeded (0x97).
        retained_bytes: usize = 1_073_741_824, in 0..=1_099_511_627_776;
        /// Retained messages of one client: those that it was the last to set, whether it is connected or not. A message for another topic
        /// is refused with Quota exceeded (0x97). Messages retained before the broker started belong to no client until they are set again.
        /// 0 means no limit other than that of all clients together.
        retained_messages_per_client: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of the retained messages of one client, including topics. A message beyond it is refused with Quota exceeded (0x97). 0
        /// means no limit other than that of all clients together.
        retained_bytes_per_client: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// Subscriptions of all sessions of one user. Further ones are refused with Quota exceeded (0x97). Only authenticated users count;
        /// clients without one have only the limits of a client. 0 means no limit.
        user_subscriptions: usize = 0, in 0..=1_000_000_000, unit "subscriptions";
        /// QoS 1 and QoS 2 messages sent to the clients of one user and not yet acknowledged. Beyond it, each client has one in flight at a
        /// time. 0 means no limit.
        user_in_flight: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// QoS 1 and QoS 2 messages queued for all sessions of one user. When the limit is reached, `limits.slow_consumer` decides for the
        /// session that would get another one. 0 means no limit.
        user_queue_messages: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of the messages of all sessions of one user, queued or in flight. When the limit is reached, `limits.slow_consumer`
        /// decides likewise. 0 means no limit.
        user_queue_bytes: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// PUBLISH packets that the clients of one user together may send per second. It is enforced like `limits.publish_messages_per_s`.
        /// 0 means no limit.
        user_publish_messages_per_s: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// PUBLISH packets that the clients of one user may send at once after a quiet time. 0 means as many as one second allows.
        user_publish_burst_messages: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of PUBLISH packets, including fixed headers, that the clients of one user together may send per second. 0 means no limit.
        user_publish_bytes_per_s: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// Bytes of PUBLISH packets that the clients of one user may send at once after a quiet time. 0 means as many as one second allows.
        user_publish_burst_bytes: usize = 0, in 0..=1_099_511_627_776;
        /// Retained messages of one user: those that its clients were the last to set. A message for another topic is refused with Quota
        /// exceeded (0x97). If this or `limits.user_retained_bytes` is set, the retained messages of a user do not count for its clients as
        /// well. 0 means no limit.
        user_retained_messages: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of the retained messages of one user, including topics. A message beyond it is refused with Quota exceeded (0x97). 0 means
        /// no limit.
        user_retained_bytes: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// Largest payload of a message that is transcoded to another format. A subscriber that would get a larger one is notified of the
        /// error instead. A thread does nothing else while it transcodes a payload, so a large one delays other clients.
        transcoded_bytes: usize = 2_097_152, in 1_024..=268_435_455;
        /// Batches queued from one reactor thread to another. When the queue is full, QoS 0 messages are dropped and counted, and reading
        /// from publishers of QoS 1 and QoS 2 pauses until there is space.
        shard_queue_batches: usize = 64, in 2..=65_536;
        /// Largest payload of a WebSocket frame from a client. A larger one ends the connection with Packet too large (0x95) and close code
        /// 1009. No memory is allocated for a frame: `mqtt.maximum_packet_size` limits what a client can make the broker store.
        websocket_frame_bytes: u64 = 33_554_432, in 125..=1_099_511_627_776;
        /// Largest payload of a WebSocket message from a client, all its frames together. A larger one ends the connection in the same way.
        websocket_message_bytes: u64 = 67_108_864, in 125..=1_099_511_627_776;
        /// Time within which a packet must be complete once it has begun. After it, the connection is closed. It is also the longest time
        /// that a message of an MQTT 3.1.1 client waits for memory.
        incomplete_packet_timeout_s: u32 = 30, in 1..=86_400;
        /// Time after which a connection with pending output is closed if its client reads nothing. 0 means no timeout.
        write_stall_timeout_s: u32 = 120, in 0..=86_400;
    }

    /// The `$SYS` topics.
    sys: SysConfig {
        /// Interval between updates of the `$SYS` topics. 0 turns them off.
        interval_s: u32 = 10, in 0..=86_400;
    }

    /// Metrics, log records and traces for a collector of [OpenTelemetry](operating/telemetry.md), by OTLP over HTTP.
    telemetry: TelemetryConfig {
        /// The URL of the collector, for example `http://127.0.0.1:4318`; `/v1/metrics`, `/v1/logs` and `/v1/traces` are appended. Empty
        /// means that nothing is sent.
        endpoint: Endpoint = Endpoint::default();
        /// The file with additional header fields of the requests, one `NAME: VALUE` on each line, such as `Authorization: Bearer …`. It is
        /// read at start and at each [reload](operating/reload.md). It requires `https://`, or a collector on this machine.
        headers_file: FilePath = FilePath::default();
        /// The certificate authorities of the collector. Empty means those of the system.
        ca: FilePaths = FilePaths::default();
        /// Whether [metrics](operating/metrics.md) are sent.
        metrics: bool = true;
        /// Interval between exports of metrics.
        metrics_interval_s: u32 = 60, in 1..=3_600;
        /// Whether the lines of the log at `log.level` are sent.
        logs: bool = true;
        /// Whether [traces](operating/telemetry.md#traces) are sent, for messages whose publisher sets the user property `traceparent` with
        /// the sampled flag.
        traces: bool = false;
        /// The fraction of messages without `traceparent` that are traced as well.
        trace_sample_ratio: Ratio = Ratio::default();
        /// Whether traces include topic names.
        trace_topics: bool = true;
        /// The name of the broker in telemetry (`service.name`).
        service_name: Text = Text("tautwire".to_owned());
        /// Further resource attributes of the broker, for example `["deployment.environment.name=production"]`.
        attributes: Attributes = Attributes::default();
    }

    /// The log, written to standard error.
    log: LogConfig {
        /// Lowest severity that is written.
        level: log::Level = log::Level::Info;
        /// `text` for people, `json` for one JSON object per line.
        format: LogFormat = LogFormat::Text;
        /// Lines that one place in the code, or one kind of refusal, may write within `log.rate_limit_interval_s`; `debug` lines are not
        /// limited. Further ones are counted in `log_lines_suppressed`, and the count is logged. 0 means no limit.
        rate_limit_burst: u32 = 20, in 0..=1_000_000, unit "lines";
        /// The time window of `log.rate_limit_burst`.
        rate_limit_interval_s: u32 = 10, in 1..=86_400;
    }
}

impl ClusterConfig {
    /// The NATS servers as written: one string may name several.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.0.iter().map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Whether the broker is part of a cluster.
    pub(crate) fn has_servers(&self) -> bool {
        self.servers().next().is_some()
    }
}
