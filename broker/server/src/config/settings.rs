//! Every key of the configuration: its meaning, type, default, range and unit, said once.

use tautwire_engine::{ProtocolVersions, SlowConsumer};
use tautwire_identity::Unreachable;
use tautwire_protocol::QoS;
use tautwire_tls::{CipherSuites, ClientCertificates, MinimumVersion};
use tautwire_websocket::AllowedOrigin;

use super::acks::{AckListeners, AckTopics, CommonAck};
use super::admin_roles::AdminRoles;
use super::auth::{Algorithms, AnonymousClients, CertificateNames, FailureRules, PasswordCostText, Text, Texts};
use super::certificate_rules::CertificateRuleList;
use super::cluster::ClusterSync;
use super::data_path::DataPath;
use super::listen::Listen;
use super::listener::ListenerConfig;
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
        /// Addresses and ports on which MQTT is served: over TCP, with `mqtts://` over TLS, with `ws://` over WebSocket, and with
        /// `wss://` over both; with `unix:/PATH` at a Unix socket. Port 0 lets the kernel choose; a WebSocket address without a path has `/mqtt`. `[::]:1883` serves
        /// IPv4 as well, unless the system has `net.ipv6.bindv6only`. The default serves this machine only; for an address that
        /// others can reach, say in `auth` who may come. Where the port of the default's WebSocket is taken, the broker
        /// goes on without it; an address that was asked for must be free. Where there are tables `[[listener]]`, nothing is
        /// listened on by default.
        listen: Listen = Listen::default();
        /// Reactor threads, each with its own share of the clients. 0 means one less than
        /// there are cores, at least one; 64 at most.
        threads: usize = 0, in 0..=64;
        /// Whom the broker [becomes](operating/running.md#started-as-root) once it listens, where it has been started as root: a name of
        /// `/etc/passwd`, or numbers as `UID:GID`. Empty means that it stays who it is.
        user: Text = Text::default();
        /// Every so many seconds the broker looks whether the configuration or a file that it names (certificates, users, rules,
        /// contracts and others) has changed, and if so [reloads](operating/reload.md). A change is taken once it has stayed the
        /// same from one look to the next. 0 means never.
        watch_files_s: u64 = 0, in 0..=86_400;
        tables listener: ListenerConfig;
    }

    /// What the server offers and accepts in the protocol.
    /// MQTT 5.0 clients are told in CONNACK; MQTT 3.1.1 clients are held to the same.
    mqtt: MqttConfig {
        /// QoS 1 and QoS 2 messages accepted unacknowledged from one client
        /// (Receive Maximum, MQTT 5.0 section 3.2.2.3.3).
        receive_maximum: u16 = 1024, in 1..=65_535, unit "messages";
        /// Largest packet accepted from a client, fixed header included (MQTT 5.0 section 3.2.2.3.6).
        /// A larger one ends the connection with Packet too large (0x95) before anything is reserved for it.
        maximum_packet_size: u32 = 16_777_216, in 64..=268_435_460, unit "bytes";
        /// Topic aliases a client may use towards the server (MQTT 5.0 section 3.2.2.3.8). 0 means none.
        topic_alias_maximum: u16 = 64, in 0..=65_535, unit "aliases";
        /// Longest keep alive allowed to clients. A client that asks for more, or for none, is given this one
        /// (Server Keep Alive, MQTT 5.0 section 3.2.2.3.14). 0 means no cap.
        max_keep_alive_s: u16 = 0, in 0..=65_535;
        /// Highest QoS served (Maximum QoS, MQTT 5.0 section 3.2.2.3.4).
        max_qos: QoS = QoS::ExactlyOnce;
        /// Whether retained messages are served (MQTT 5.0 section 3.2.2.3.5).
        retain_available: bool = true;
        /// Whether `+` and `#` may be used in topic filters (MQTT 5.0 section 3.2.2.3.11).
        wildcard_subscription_available: bool = true;
        /// Whether `$share/…` subscriptions are served (MQTT 5.0 section 3.2.2.3.13).
        shared_subscription_available: bool = true;
        /// When a member of a shared subscription acknowledges nothing for this time, its QoS 1 messages go to other members as well, after at
        /// most half of the time more. It gets no further ones until it acknowledges something. A message that it is still working on is then
        /// processed twice, so set more than the longest work takes. 0 means never. Not used in a cluster.
        shared_ack_timeout_s: u32 = 300, in 0..=86_400;
        /// Whether subscription identifiers are served (MQTT 5.0 section 3.2.2.3.12).
        subscription_identifier_available: bool = true;
        /// What clients that ask for Response Information are given, with their client identifier behind it
        /// (MQTT 5.0 section 3.2.2.3.15): the part of the topic tree in which they may expect responses.
        response_information: TopicPrefix = TopicPrefix::default();
        /// Longest time a session outlives its connection. A client that asks for more is given this one
        /// (MQTT 5.0 section 3.2.2.3.2). 4294967295 means no cap.
        max_session_expiry_s: u32 = u32::MAX, in 0..=4_294_967_295;
        /// The protocol versions that are accepted. A client of another one is refused with Unsupported Protocol Version (0x84, in 3.1 and
        /// 3.1.1 return code 1).
        protocol_versions: ProtocolVersions = ProtocolVersions::ALL;
        /// Whether a client may leave its Client Identifier empty, so that the broker assigns one. If not, it is refused with Client
        /// Identifier not valid (0x85, in 3.1.1 return code 2).
        allow_empty_client_id: bool = true;
        /// The beginning of assigned Client Identifiers. 16 hexadecimal digits follow.
        assigned_client_id_prefix: ClientIdPrefix = ClientIdPrefix::default();
        /// Time from accepting a connection until its CONNECT has arrived whole, else the connection is closed.
        connect_timeout_s: u32 = 10, in 1..=3_600;
    }

    /// MQTT over WebSocket (MQTT 5.0 section 6), with the subprotocol `mqtt`.
    websocket: WebSocketConfig {
        /// Web pages that may connect, by their origin such as `https://example.org` or `http://10.0.0.7:3000`; `*` for all,
        /// `null` for files and sandboxed frames. Always allowed are pages of this machine (`localhost`, 127.0.0.0/8,
        /// `[::1]`), pages from the IP address that the request is for, and programs that are no browser (without Origin).
        origins: Vec<AllowedOrigin> = Vec::new();
    }

    /// TLS, for addresses that begin with `mqtts://` or `wss://`. All files are PEM; they are read at start and again on SIGHUP,
    /// and clients that are connected stay connected.
    tls: TlsConfig {
        /// The certificate of the broker, and behind it those of the authorities between it and one that clients know. Of several
        /// files, a client is shown the first with the name that it connects by (SNI), or the very first.
        certificate: FilePaths = FilePaths::default();
        /// The private key of the certificate, one for each file in `tls.certificate`, in the same order. It must not be encrypted.
        key: FilePaths = FilePaths::default();
        /// Whether clients show certificates: `none`; `optional`, where those who have none may come, too; `required`.
        client_certificates: ClientCertificates = ClientCertificates::None;
        /// The authorities that issue certificates of clients.
        client_ca: FilePaths = FilePaths::default();
        /// Lists of certificates that authorities have revoked (CRL). Where there are any, there must be one for each authority. A list that
        /// has expired refuses all of its authority's certificates.
        revoked: FilePaths = FilePaths::default();
        /// The least version of TLS that is served.
        minimum_version: MinimumVersion = MinimumVersion::Tls12;
        /// The cipher suites that are served, the preferred one first. Empty means all of them, of which the client prefers one; each has
        /// forward secrecy and authenticated encryption.
        cipher_suites: CipherSuites = CipherSuites::default();
    }

    /// Who may connect; see [authentication](concepts/authentication.md). Of what a listener asks, the first that knows the client decides: its
    /// certificate, a token, the password file, the hook, whether anonymous clients may come.
    auth: AuthConfig {
        /// Whether clients that say nothing of who they are are let in. `auto`: by listeners of this machine without proxies, where nothing else
        /// says who clients are, or certificates that are optional. Where there is nothing else, user names and passwords are not looked at.
        anonymous: AnonymousClients = AnonymousClients::Auto;
        /// The file with [users and their passwords](operating/users.md). `tautwire user` writes it, and files of mosquitto are
        /// read as they are. It is read at start and again on SIGHUP; clients whose user is gone are disconnected. Empty means none.
        password_file: FilePath = FilePath::default();
        /// Whether passwords and tokens are taken over connections that others can read: without TLS, and not from this machine.
        plain_passwords: bool = false;
        /// What the name (CN) in a client's certificate says of it, where `tls.client_certificates` asks for one: `user`, it is the
        /// user; `user_and_client_id`, it is the Client Identifier, too, whatever the client says; `nobody`, nothing.
        certificate: CertificateNames = CertificateNames::User;
        /// In place of `auth.certificate`: [rules](concepts/authentication.md#certificates), of which the first that fits says who the
        /// holder of a certificate is, for example `[{ issuer = "Works CA", uri = "urn:dev:*", user = "{*}", client_id = "{cn}-{serial}" }]`. Whom none
        /// fits is refused. A Client Identifier goes before what the client says. Empty means what `auth.certificate` says.
        certificate_rules: CertificateRuleList = CertificateRuleList::default();
        /// The keys by which tokens (JWT, in the password) are checked: a file with a JWKS or with public keys in PEM.
        jwt_keys: FilePath = FilePath::default();
        /// The URL of a JWKS. It is read when a token comes, and again from time to time; while the URL is down, the keys of before hold.
        /// `https://`, or `http://` on this machine.
        jwt_url: Text = Text::default();
        /// The file with the secret of HS256, HS384 and HS512.
        jwt_secret_file: FilePath = FilePath::default();
        /// How tokens may be signed. Empty means all ways that suit the keys.
        jwt_algorithms: Algorithms = Algorithms::default();
        /// Whose tokens are taken (`iss`). Empty means whoever has a key.
        jwt_issuers: Texts = Texts::default();
        /// Whom tokens must be for (`aud`). Empty means tokens that are for nobody in particular.
        jwt_audiences: Texts = Texts::default();
        /// How much the clocks of those who make tokens may differ.
        jwt_leeway_s: u64 = 30, in 0..=300;
        /// The claim that is the user. A dot leads into an object.
        jwt_user_claim: Text = Text("sub".to_owned());
        /// The claim that is the Client Identifier, whatever the client says. Empty leaves the client its own.
        jwt_client_id_claim: Text = Text::default();
        /// The claim that names [roles](concepts/access-rules.md). Empty means none.
        jwt_roles_claim: Text = Text::default();
        /// The URL of a [hook](reference/auth-hook.openapi.json): a service that is asked who clients are. `https://`, or `http://` on this
        /// machine. A secret belongs in `auth.hook_authorization_file`: the URL is shown to operators.
        hook_url: Text = Text::default();
        /// The file with the value of the field `Authorization` in requests to the hook.
        hook_authorization_file: FilePath = FilePath::default();
        /// How long the hook may take.
        hook_timeout_ms: u64 = 2_000, in 50..=60_000;
        /// Requests to the hook at a time. Further clients wait, as many as `limits.authentications` allows.
        hook_concurrency: usize = 16, in 1..=256;
        /// How long it is remembered that the hook lets a client in. 0 means not at all.
        hook_positive_s: u64 = 60, in 0..=86_400;
        /// How long it is remembered that it does not.
        hook_negative_s: u64 = 5, in 0..=86_400;
        /// After so many failures of the hook, one after the other, it is not asked for `auth.hook_pause_s`.
        hook_failures: u32 = 5, in 1..=1_000;
        /// For how long. Then one client's request tries whether it answers again.
        hook_pause_s: u64 = 10, in 1..=3_600;
        /// What becomes of clients meanwhile: `refuse`, they are refused; `ask_next`, as if the hook did not know them.
        hook_unreachable: Unreachable = Unreachable::Refuse;
        /// The authorities that issue certificates of the hook and of `auth.jwt_url`. Empty means those of the system.
        https_ca: FilePaths = FilePaths::default();
        /// Who is banned for showing too often what is wrong, for example `10 by address in 60 ban 600`.
        /// A [ban](concepts/authentication.md#bans) disconnects those who are connected, too.
        ban: FailureRules = FailureRules::default();
        /// Threads that compute hashes of passwords; see [how fast users can log in](operating/users.md#how-fast-users-can-log-in). There are
        /// as many for signatures. 0 means half as many as there are cores, at least one and at most eight.
        threads: usize = 0, in 0..=64;
        /// Passwords that are remembered as right, in memory and by a keyed hash: a client that comes back needs no new hash. They are dropped at
        /// a restart and a reload. 0 means none.
        cached_passwords: usize = 100_000, in 0..=10_000_000;
        /// What a new hash of a password costs, for `tautwire user add --config` and `user passwd --config`: `low`, `default`, `high`, or memory in
        /// KiB, iterations and lanes of Argon2id, such as `m=19456,t=2,p=1`. [Which one](operating/users.md#how-fast-users-can-log-in).
        password_cost: PasswordCostText = PasswordCostText::default();
    }

    /// Who may do what.
    acl: AclConfig {
        /// The file with the [access rules](concepts/access-rules.md). It is read at start and again on SIGHUP; whole, or not at all where
        /// something in it is wrong. Empty means that everybody may do everything.
        file: FilePath = FilePath::default();
        /// Whether a retained message is withheld from new subscribers where its publisher may not publish it any more. For that, the broker keeps
        /// the listener, the user, the Client Identifier and the roles of the publisher with each message that is retained from then on, also
        /// on disk; messages from before are not checked. Claims are not kept: what only a rule by a claim allows is withheld.
        check_retained_publisher: bool = false;
    }

    /// The audit log.
    audit: AuditConfig {
        /// The file to which it is [told](operating/running.md#audit-log) who came, who was refused or denied what, and what operators have done:
        /// an object of JSON in each line. It is opened anew at each
        /// [reload](operating/reload.md), so that it can be moved away. Empty means none.
        file: FilePath = FilePath::default();
    }

    /// What outlives the broker.
    data: DataConfig {
        /// The directory in which sessions, their messages and retained messages are kept, so that they survive a crash of the
        /// broker or the machine. Acknowledgements leave when what they promise is on disk. It is made if it is not there, and
        /// one broker at a time uses it. `auto` is the state directory of the service where systemd runs the broker
        /// (`/var/lib/tautwire`), and otherwise that of the user (`$XDG_STATE_HOME/tautwire`, or `~/.local/state/tautwire`).
        /// Empty means that everything is in memory alone.
        path: DataPath = DataPath::default();
        /// What acknowledgements of what must be kept wait for: `quorum`, that most servers of the cluster have it, so that it survives the loss of
        /// a machine; `disk`, that it survives a power cut; `os`, that the system has it, so that it survives the end of the broker's process;
        /// `memory`, nothing. It is written down in any case. `auto` is `quorum` in a [cluster](operating/cluster.md#what-acknowledgements-wait-for)
        /// and `disk` elsewhere, where there is no `quorum`. In a cluster, `os` and `disk` wait for the quorum as well, and a level is about
        /// messages alone. See [what survives](operating/running.md#what-survives).
        ack: CommonAck = CommonAck::Auto;
        /// The same for answers to messages (PUBACK, PUBREC), by topic, for example `telemetry/# = memory`. The first filter that matches counts.
        ack_topics: AckTopics = AckTopics::default();
        /// The same for all acknowledgements to clients of a listener, by its address as it stands in `listen`, for example
        /// `127.0.0.1:1884 = os`. `data.ack_topics` comes first, and the `ack` of a table `[[listener]]`.
        ack_listeners: AckListeners = AckListeners::default();
    }

    /// Several brokers as one, on [NATS JetStream](operating/cluster.md), which keeps what is to last: `data.path` has nothing but this
    /// node's own name for itself then. Files are read at start and again when they have changed.
    cluster: ClusterConfig {
        /// The NATS servers, each as `nats://HOST:PORT`, or `tls://HOST:PORT`; in one text with commas between them, or as a list. One that
        /// can be reached is enough, the others are learnt from it. Names and passwords do not belong here. Empty means that the broker is
        /// alone.
        servers: Texts = Texts::default();
        /// What operators call this node. Empty means the name of the machine.
        name: Text = Text::default();
        /// Where clients reach this node, as other nodes tell those that they send away: the Server Reference of MQTT 5.0
        /// (section 4.11), for example `broker-1.example.org:1883`. Empty means that nobody is told.
        reference: Text = Text::default();
        /// The file with the JWT and the NKey by which the servers know this node, as `nsc` writes it (`.creds`). One of these four at most.
        credentials_file: FilePath = FilePath::default();
        /// The file with the seed of an NKey.
        nkey_file: FilePath = FilePath::default();
        /// The name that goes with `cluster.password_file`.
        user: Text = Text::default();
        /// The file with a password.
        password_file: FilePath = FilePath::default();
        /// The file with a token.
        token_file: FilePath = FilePath::default();
        /// Whether the servers are used over TLS alone, whatever they say.
        tls: bool = false;
        /// The authorities that issue the certificates of the servers. Empty means those of the system.
        ca: FilePath = FilePath::default();
        /// A certificate of this node for the servers.
        certificate: FilePath = FilePath::default();
        /// Its private key.
        key: FilePath = FilePath::default();
        /// How many servers hold each message. All must, or most of them, before an acknowledgement leaves. Fewer than 3 do not survive the
        /// loss of one.
        replicas: u16 = 3, in 1..=5, unit "servers";
        /// How it is known that the servers write to disk before they confirm (`sync_interval: always`), without which a power cut may lose what
        /// was acknowledged: `monitored`, `cluster.monitors` say it; `promised`, you say it; `weaker`, they do not, and you accept that.
        sync: ClusterSync = ClusterSync::Monitored;
        /// The monitoring addresses of all servers, each as `HOST:PORT`.
        monitors: Texts = Texts::default();
        /// How long messages stay in the log for sessions that are away. For streams that are made; change others with `nats stream edit`.
        log_s: u64 = 604_800, in 60..=315_360_000;
        /// How large one of the 16 partitions of the log becomes. For streams that are made, likewise.
        log_bytes: u64 = 1_073_741_824, in 1_048_576..=1_125_899_906_842_624;
    }

    /// Bounds on the memory of the process.
    memory: MemoryConfig {
        /// Bytes of memory that the process may take, 64 MiB at least to be of use. `limits.buffered_bytes` counts as half of it where it is more, and
        /// without `data.path` `limits.retained_bytes` as a quarter. 0 means three quarters of what the machine has, or the control group
        /// of the process.
        limit: u64 = 0, in 0..=1_152_921_504_606_846_976, unit "bytes";
    }

    /// Bounds on what is kept on disk.
    disk: DiskConfig {
        /// Bytes that the state may take in `data.path`, 64 MiB at least. When it is reached, publishers of QoS 1 and QoS 2 whose message would
        /// have to be kept are refused with Quota exceeded (0x97) or, with MQTT 3.1.1, cut off; such messages of QoS 0 with RETAIN are
        /// dropped; new sessions that outlive their connection, and their subscriptions, are refused. Messages that nobody
        /// keeps go on. 0 means about nine tenths of what the state takes at start and what is free on the file system then.
        limit: u64 = 0, in 0..=1_152_921_504_606_846_976, unit "bytes";
    }

    /// What payloads must look like, topic by topic.
    contracts: ContractsConfig {
        /// The folder with `contracts.toml`, `.proto` files and JSON Schemas. It is read at start and again at each
        /// [reload](operating/reload.md); whole, or not at all where something in it is wrong. Empty means no contracts.
        path: FilePath = FilePath::default();
        /// Whether clients are told of the contracts, by retained messages below `$SYS/contracts/` and on request. Without,
        /// there are no such messages, and requests are refused as any message to a topic below `$SYS` is.
        discovery: bool = true;
    }

    /// What is counted beside what is always counted.
    metrics: MetricsConfig {
        /// Topic filters for which messages are counted: published, delivered and dropped, for example `telemetry/#`. A message counts for each
        /// that matches its topic. See [topics](operating/metrics.md#by-topic-filter).
        topics: MeteredTopics = MeteredTopics::default();
    }

    /// The HTTP API for those who run the broker: health, metrics, contracts at run time.
    admin: AdminConfig {
        /// Address and port of the API. A port alone is one of 127.0.0.1; port 0 lets the kernel choose. Empty means off. With `https://` in
        /// front it is [served over TLS](operating/administration.md#from-other-machines). Without, it is plain HTTP, and the address must be one of this machine unless
        /// `admin.plain_http` is set.
        listen: AdminListen = AdminListen::default();
        /// The certificate that is shown where `admin.listen` begins with `https://`, as `tls.certificate` is. Empty means that of
        /// `tls.certificate`, with `tls.key`. `tls.minimum_version` and `tls.cipher_suites` hold here, too.
        certificate: FilePaths = FilePaths::default();
        /// The private key of `admin.certificate`, one for each file there.
        key: FilePaths = FilePaths::default();
        /// Whether plain HTTP is served at an address that others can reach. Tokens and passwords can be read on the way then. It is for
        /// networks that nobody else is on, such as that of a pod, and for a proxy on another machine that ends TLS.
        plain_http: bool = false;
        /// The file with a token that requests may carry (`Authorization: Bearer …`): one line of 16 to 1,024 visible
        /// characters without spaces. Whoever has it may do everything. It is read at start and again at each
        /// [reload](operating/reload.md). Where `admin.listen` is set, this is needed, `admin.tokens_file` or
        /// `admin.roles`; there is no default token.
        token_file: FilePath = FilePath::default();
        /// The file with [tokens that have names and roles](operating/administration.md#tokens), as `tautwire token` writes it. It has
        /// digests alone. It is read at start and again at each reload.
        tokens_file: FilePath = FilePath::default();
        /// Users of `auth.password_file` that may log in to the admin API and the dashboard, each with its
        /// [role](operating/administration.md#roles): `ann = operate`, or `ann = operate payloads` for one that may see payloads, too.
        roles: AdminRoles = AdminRoles::default();
        /// Sessions of those who have logged in. When there are as many, the one that has rested longest ends for the next.
        sessions: usize = 64, in 1..=10_000;
        /// A session ends when nothing has been asked for so long.
        session_idle_s: u32 = 1_800, in 60..=86_400;
        /// A session ends so long after the login in any case.
        session_s: u32 = 43_200, in 60..=2_592_000;
    }

    /// Bounds on what clients may make the broker hold.
    limits: LimitsConfig {
        /// Network connections open at once. Further ones are closed on arrival.
        connections: usize = 100_000, in 1..=100_000_000;
        /// Network connections open at once from one IPv4 address, or from one network of IPv6 with 64 bits. Further ones are closed on
        /// arrival. Behind a proxy in `proxy.trusted`, the addresses that it names count. 0 means no bound.
        connections_per_address: usize = 0, in 0..=100_000_000;
        /// Connections that may come in a second, over any longer time. Further ones are closed on arrival, before TLS. 0 means no
        /// bound.
        connect_rate: u32 = 0, in 0..=1_000_000, unit "connections";
        /// Connections that may come at once after a time in which few have come. 0 means as many as one second brings.
        connect_burst: u32 = 0, in 0..=1_000_000, unit "connections";
        /// The same of one address, as `limits.connections_per_address` counts them. 0 means no bound.
        connect_rate_per_address: u32 = 0, in 0..=1_000_000, unit "connections";
        /// Connections that may come at once from one address. 0 means as many as one second brings.
        connect_burst_per_address: u32 = 0, in 0..=1_000_000, unit "connections";
        /// TLS handshakes that may go on at once, on each thread. A further connection takes the place of one whose client has been silent
        /// for a second, or is closed on arrival, before anything is computed for it. In each turn handshakes have a millisecond, and other clients the rest.
        tls_handshakes: usize = 4_096, in 1..=1_000_000;
        /// Clients that may wait for it to be found out who they are. Further ones are refused with Server busy (0x89). The wait counts against no
        /// timeout while the queue moves.
        authentications: usize = 100_000, in 1..=1_000_000;
        /// Sessions held, connected or not. A client that would need a new one is refused with Quota exceeded (0x97).
        sessions: usize = 1_000_000, in 1..=1_000_000_000;
        /// Longest client identifier; a longer one is refused with Client Identifier not valid (0x85).
        /// 23 is the least the standard lets a server set.
        client_id_bytes: usize = 1_024, in 23..=65_535;
        /// Connections of one client identifier that may break off within `limits.client_breaks_s`: taken over by another, lost, or ended by
        /// the broker. At so many the client is held back: it is refused with Connection rate exceeded (0x9F) for
        /// `limits.client_hold_s`; a connection that it has stays. Those that the client ends by DISCONNECT do not count. 0 means that nobody is.
        client_breaks: u32 = 60, in 0..=1_000_000, unit "connections";
        /// The time in which they are counted, from the first of them on.
        client_breaks_s: u32 = 60, in 1..=86_400;
        /// How long a client is held back.
        client_hold_s: u32 = 60, in 1..=86_400;
        /// Longest topic name or topic filter. A longer one is refused as invalid (0x90, 0x8F).
        topic_bytes: usize = 65_535, in 1..=65_535;
        /// Levels of a topic name or topic filter; `a/b/c` has three. One with more is refused as invalid (0x90, 0x8F).
        topic_levels: usize = 128, in 1..=65_536;
        /// Subscriptions of one session. Further ones are refused with Quota exceeded (0x97).
        subscriptions_per_session: usize = 100_000, in 1..=100_000_000;
        /// Topic filters in one SUBSCRIBE or UNSUBSCRIBE packet. More end the connection with Quota exceeded (0x97).
        subscriptions_per_packet: usize = 10_000, in 1..=1_000_000;
        /// QoS 1 and QoS 2 messages sent to one client and not yet acknowledged.
        /// The client's own Receive Maximum counts where it is lower.
        in_flight_per_client: u16 = 1_024, in 1..=65_535, unit "messages";
        /// Bytes of these messages, with their topics, their properties and what the broker keeps with each. The next message is sent while there
        /// are fewer, so a larger message is sent alone. 0 means no bound.
        in_flight_bytes_per_client: usize = 0, in 0..=1_099_511_627_776;
        /// Payload of a message that a client publishes. A message with a larger one goes to nobody: PUBACK or PUBREC says Implementation
        /// specific error (0x83), and with QoS 0 or MQTT 3.1.1 the message is dropped as if it had been taken. A larger will is refused
        /// with its CONNECT (0x95). `mqtt.maximum_packet_size`, in contrast, ends the connection. 0 means no bound.
        payload_bytes: usize = 0, in 0..=268_435_455;
        /// QoS 1 and QoS 2 messages waiting for one session. When full, `limits.slow_consumer` decides. 0 means no bound but that in
        /// bytes; in a cluster, where the rest waits in its log, 10,000.
        session_queue_messages: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of the messages that one session holds: those that wait, and those that have been sent and not acknowledged.
        /// When full, `limits.slow_consumer` decides. 0 means, with `data.path`, 1 GiB or a sixteenth of `disk.limit` or of the file
        /// system, whichever is less; in a cluster 64 MiB. With 0, a queue is also full when its session holds as much memory as one may:
        /// `limits.client_bytes`, and above a sixteenth of `limits.buffered_bytes` no more than is left free for others. Messages on disk
        /// count there with what their records take, some 150 bytes. With another value, a session that holds as much memory stops publishers instead, whatever
        /// `limits.slow_consumer` says.
        session_queue_bytes: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// Bytes of QoS 1 and QoS 2 messages that wait in the queue of one shared subscription because no member can take them. When full, a
        /// publisher is refused with Quota exceeded (0x97); one of 3.1.1 is not read from until there is room. Not used in a cluster, where the
        /// log holds what waits.
        shared_queue_bytes: usize = 268_435_456, in 1_024..=1_099_511_627_776;
        /// What happens to a message for a session whose queue is full. `drop_new` drops the arriving message for this session,
        /// `drop_old` the oldest waiting one; both are counted, logged, and told to the client when it connects. `disconnect` drops the
        /// arriving message and ends the connection with Quota exceeded (0x97). `refuse` gives the message to nobody and answers its
        /// publisher with Quota exceeded (0x97); one of MQTT 3.1.1, which cannot be told, waits. `pause_publisher` has the publisher wait.
        /// Publishers go on when half of the queue is empty. In a cluster, messages of QoS 1 and QoS 2 wait in its log, and this counts
        /// only for others.
        slow_consumer: SlowConsumer = SlowConsumer::DropNew;
        /// The same for messages to topics that match a filter, for example `orders/# = refuse`. The first that matches counts.
        slow_consumer_topics: SlowConsumerTopics = SlowConsumerTopics::default();
        /// The same for sessions of a user, for example `billing = pause_publisher`, where no rule for topics matches. After a restart, the
        /// user of a client that is offline is not known until it connects.
        slow_consumer_users: SlowConsumerUsers = SlowConsumerUsers::default();
        /// A session whose client has been offline for so long, and for which messages wait, is neglected: it is logged and counted
        /// (`sessions_neglected`), and `tautwire doctor` names it. It is not ended. 0 means never.
        neglected_session_s: u32 = 604_800, in 0..=4_294_967_295, unit "seconds";
        /// PUBLISH packets that one client may send in a second, over any longer time. One that sends more is not read from until
        /// it may go on; nothing is dropped, and what it has sent behind a message that waits, PINGREQ too, waits with it. A client
        /// that comes back has what it left. 0 means no bound.
        publish_messages_per_s: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// PUBLISH packets that one client may send at once after a time in which it has sent few. Less than what ten
        /// milliseconds bring makes the rate hard to reach. 0 means as many as one second brings.
        publish_burst_messages: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of PUBLISH packets that one client may send in a second, over any longer time, fixed headers included. It is
        /// enforced as `limits.publish_messages_per_s` is. 0 means no bound.
        publish_bytes_per_s: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// Bytes of PUBLISH packets that one client may send at once after a time in which it has sent few. A packet that is larger
        /// waits until so many may go, and those behind it wait the longer. 0 means as many as one second brings.
        publish_burst_bytes: usize = 0, in 0..=1_099_511_627_776;
        /// Output pending for one connection. Beyond it QoS 0 messages are dropped and counted,
        /// QoS 1 and QoS 2 messages wait in the session's queue.
        connection_output_bytes: usize = 4_194_304, in 1_024..=1_099_511_627_776;
        /// Memory that all clients together can make the broker hold: messages, queues, output, incomplete packets, wills,
        /// filters, sessions, connections. Retained messages have a limit of their own. When it is reached, publishers of
        /// QoS 1 and QoS 2 are refused with Quota exceeded (0x97) or, with MQTT 3.1.1, not read from; QoS 0 is dropped and
        /// counted; new connections, wills and filters are refused.
        buffered_bytes: usize = 1_073_741_824, in 1_048_576..=1_099_511_627_776;
        /// Memory that one client can make the broker hold, whatever other clients hold. It can never hold more than is left free for the
        /// others either. How many receivers a message has does not count here: each of them counts by itself.
        client_bytes: usize = 268_435_456, in 65_536..=1_099_511_627_776;
        /// Messages that may stay in memory where there is a `data.path`, but no more than an eighth of `limits.buffered_bytes`.
        /// Beyond it, messages for clients that are away or slow, and retained messages, go to files in the data directory and
        /// are read back before they are sent.
        hot_bytes: usize = 25_165_824, in 65_536..=1_099_511_627_776;
        /// Bytes of the files for such messages. What does not fit stays in memory.
        cold_bytes: usize = 17_179_869_184, in 1_048_576..=281_474_976_710_656;
        /// Retained messages held. A message for a further topic is refused with Quota exceeded (0x97).
        retained_messages: usize = 1_000_000, in 0..=1_000_000_000;
        /// Bytes of all retained messages, topics included. What goes beyond is refused with Quota exceeded (0x97).
        retained_bytes: usize = 1_073_741_824, in 0..=1_099_511_627_776;
        /// Retained messages of one client: those that it was the last to set, whether it is connected or not. One for a further
        /// topic is refused with Quota exceeded (0x97). What was retained before the broker started is nobody's until it is set
        /// again. 0 means no bound but that of all together.
        retained_messages_per_client: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of the retained messages of one client, topics included. What goes beyond is refused likewise. 0 means no bound
        /// but that of all together.
        retained_bytes_per_client: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// Subscriptions of all sessions of one user. Further ones are refused with Quota exceeded (0x97). Users are those that
        /// authentication has found; clients that come without one have only the limits of a client. 0 means no bound.
        user_subscriptions: usize = 0, in 0..=1_000_000_000, unit "subscriptions";
        /// QoS 1 and QoS 2 messages sent to the clients of one user and not yet acknowledged. Beyond it each of them has one at a time. 0
        /// means no bound.
        user_in_flight: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// QoS 1 and QoS 2 messages waiting for all sessions of one user. When full, `limits.slow_consumer` decides for the session that
        /// would get one more. 0 means no bound.
        user_queue_messages: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of the messages that all sessions of one user hold: those that wait, and those that have been sent and not acknowledged.
        /// When full, `limits.slow_consumer` decides likewise. 0 means no bound.
        user_queue_bytes: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// PUBLISH packets that the clients of one user may send together in a second. It is enforced as `limits.publish_messages_per_s` is.
        /// 0 means no bound.
        user_publish_messages_per_s: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// PUBLISH packets that they may send at once after a time in which they have sent few. 0 means as many as one second brings.
        user_publish_burst_messages: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of PUBLISH packets that the clients of one user may send together in a second, fixed headers included. 0 means no bound.
        user_publish_bytes_per_s: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// Bytes of PUBLISH packets that they may send at once after a time in which they have sent few. 0 means as many as one second
        /// brings.
        user_publish_burst_bytes: usize = 0, in 0..=1_099_511_627_776;
        /// Retained messages of one user: those that its clients were the last to set. One for a further topic is refused with Quota
        /// exceeded (0x97). Where it is set, or `limits.user_retained_bytes` is, a user's retained messages are not counted for its
        /// clients as well. 0 means no bound.
        user_retained_messages: usize = 0, in 0..=1_000_000_000, unit "messages";
        /// Bytes of the retained messages of one user, topics included. What goes beyond is refused likewise. 0 means no bound.
        user_retained_bytes: usize = 0, in 0..=1_099_511_627_776, unit "bytes";
        /// Payload of a message in another format than it was published in. A subscriber that would get a larger one is told so
        /// instead. The broker does nothing else while it turns a payload, so a large one makes other clients wait.
        transcoded_bytes: usize = 2_097_152, in 1_024..=268_435_455;
        /// Batches waiting from one reactor thread to another. When full, QoS 0 is dropped and counted,
        /// and reading from publishers of QoS 1 and QoS 2 stops until there is room.
        shard_queue_batches: usize = 64, in 2..=65_536;
        /// Payload of one WebSocket frame of a client. A larger one ends the connection with Packet too large (0x95) and
        /// close code 1009. Nothing is reserved for a frame: `mqtt.maximum_packet_size` bounds what a client makes the broker
        /// hold.
        websocket_frame_bytes: u64 = 33_554_432, in 125..=1_099_511_627_776;
        /// Payload of one WebSocket message of a client, all its frames together. A larger one ends the connection likewise.
        websocket_message_bytes: u64 = 67_108_864, in 125..=1_099_511_627_776;
        /// Time within which a packet that has begun must be complete, else the connection is closed. So long at most does a
        /// message of an MQTT 3.1.1 client wait for memory.
        incomplete_packet_timeout_s: u32 = 30, in 1..=86_400;
        /// Time a connection with pending output may take no byte before it is closed. 0 means for ever.
        write_stall_timeout_s: u32 = 120, in 0..=86_400;
    }

    /// The `$SYS` topics.
    sys: SysConfig {
        /// Time between two publications of the `$SYS` topics. 0 turns them off.
        interval_s: u32 = 10, in 0..=86_400;
    }

    /// Metrics, log records and traces for a collector of [OpenTelemetry](operating/telemetry.md), by OTLP over HTTP.
    telemetry: TelemetryConfig {
        /// The URL of the collector, for example `http://127.0.0.1:4318`; `/v1/metrics`, `/v1/logs` and `/v1/traces` are appended. Empty
        /// means that nothing is sent.
        endpoint: Endpoint = Endpoint::default();
        /// The file with fields of the requests' heads, a line `NAME: VALUE` for each, such as `Authorization: Bearer …`. It is read at start and
        /// again at each [reload](operating/reload.md). It needs `https://`, or a collector on this machine.
        headers_file: FilePath = FilePath::default();
        /// The authorities that issue the collector's certificate. Empty means those of the system.
        ca: FilePaths = FilePaths::default();
        /// Whether [metrics](operating/metrics.md) are sent.
        metrics: bool = true;
        /// Time between two of these.
        metrics_interval_s: u32 = 60, in 1..=3_600;
        /// Whether the lines of the log are sent as well, those of `log.level`.
        logs: bool = true;
        /// Whether [traces](operating/telemetry.md#traces) are sent: of messages whose publisher says by the user property `traceparent` that they are followed.
        traces: bool = false;
        /// The share of the other messages that are followed as well, those that have no `traceparent`.
        trace_ratio: Ratio = Ratio::default();
        /// Whether traces tell topics.
        trace_topics: bool = true;
        /// What the broker is called there (`service.name`).
        service_name: Text = Text("tautwire".to_owned());
        /// What else is said of the broker, for example `["deployment.environment.name=production"]`.
        attributes: Attributes = Attributes::default();
    }

    /// The log, written to standard error.
    log: LogConfig {
        /// Least severe level written.
        level: log::Level = log::Level::Info;
        /// `text` for people, `json` for one JSON object a line.
        format: LogFormat = LogFormat::Text;
        /// Lines that one place in the code, or one kind of refusal, may write within `log.repeat_interval_s`; `debug` lines are not
        /// bounded. Further ones are counted in `log_lines_suppressed`, and the count is logged. 0 means no bound.
        repeat_burst: u32 = 20, in 0..=1_000_000, unit "lines";
        /// The time over which `log.repeat_burst` counts.
        repeat_interval_s: u32 = 10, in 1..=86_400;
    }
}
