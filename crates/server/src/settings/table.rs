//! Every setting, once: its key, what it takes, its default and what it is for. The reference
//! page, the example file, `--help` and the parser all come from here.

/// The longest password or secret, in bytes. Redis has none; a bound keeps comparing it in constant time
/// cheap.
pub const PASSWORD_BYTES_MAX: usize = 512;

/// The roles that Elasticsearch knows and clients look for.
pub const ROLES: [&str; 4] = ["data", "ingest", "master", "remote_cluster_client"];

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any words; empty where there is none.
    Text,
    /// Words that are never shown.
    Secret,
    /// A file or folder; empty where there is none.
    Path,
    /// `host:port`; port 0 takes any free port.
    Address,
    /// A whole number in a range, both ends included.
    Count(u64, u64),
    /// A size in a range, both ends included, in bytes.
    Bytes(u64, u64),
    /// A duration in a range, both ends included, in microseconds.
    Duration(u64, u64),
    /// `true` or `false`.
    Toggle,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its name: words between dots, Elasticsearch's where that has one.
    pub key: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its value where none is given, as one would write it.
    pub default: &'static str,
    /// The flag of `plimsoll serve` that says the same, if there is one.
    pub flag: Option<&'static str>,
    /// What it is for: plain sentences.
    pub text: &'static str,
}

const fn define(
    key: &'static str,
    kind: Kind,
    default: &'static str,
    flag: Option<&'static str>,
    text: &'static str,
) -> Definition {
    Definition { key, kind, default, flag, text }
}

/// TLS of a port that clients connect to: its name, and what is encrypted.
macro_rules! client_tls {
    ($port:literal, $what:literal) => {
        [
            define(
                concat!($port, ".tls.enabled"),
                Kind::Toggle,
                "false",
                None,
                concat!(
                    "Whether ",
                    $what,
                    " are encrypted: TLS 1.3, and 1.2 for clients that have no more. Wants the \
                     certificate and key below."
                ),
            ),
            define(
                concat!($port, ".tls.certificate"),
                Kind::Path,
                "",
                None,
                "The certificate that clients are shown, in PEM, those between it and its authority \
                 behind it. `plimsoll certificates node` makes one. It is taken anew when the file \
                 changes; connections that are open stay.",
            ),
            define(
                concat!($port, ".tls.key"),
                Kind::Path,
                "",
                None,
                "The private key of that certificate, in PEM.",
            ),
            define(
                concat!($port, ".tls.certificate_authorities"),
                Kind::Path,
                "",
                None,
                "Files between commas, in PEM. Where there are any, a client has to show a \
                 certificate that one of these authorities signed, beside its password.",
            ),
        ]
    };
}

const HTTP_TLS: [Definition; 4] = client_tls!("http", "REST connections");
const RESP_TLS: [Definition; 4] = client_tls!("resp", "connections of Redis clients");

/// All settings, in the order of the reference page.
pub const SETTINGS: &[Definition] = &[
    define(
        "cluster.name",
        Kind::Text,
        "plimsoll",
        None,
        "The cluster's name, in what it says of itself.",
    ),
    define(
        "node.name",
        Kind::Text,
        "node-1",
        Some("--node"),
        "The node's name, in logs and in what it says of itself.",
    ),
    define(
        "node.attr.zone",
        Kind::Text,
        "",
        None,
        "Where the node stands; copies of a partition are spread over zones.",
    ),
    define(
        "node.roles",
        Kind::Text,
        "data",
        None,
        "What the node does, as words between commas. Without `data`, and so where it is empty, it \
         takes requests and holds no copies: a coordinator only. The other words of Elasticsearch \
         (`ingest`, `master`, `remote_cluster_client`) are taken, and every node does those.",
    ),
    define(
        "node.processors",
        Kind::Count(0, 1024),
        "0",
        None,
        "Threads that serve clients; 0 takes one for each processor but one.",
    ),
    define(
        "node.drain_timeout",
        Kind::Duration(0, 3_600_000_000),
        "10s",
        None,
        "How long a node that was told to stop waits for requests in flight.",
    ),
    define(
        "node.insecure",
        Kind::Toggle,
        "false",
        Some("--insecure"),
        "Lets the node listen beyond loopback without authentication. Anyone who reaches the \
         port can then read and change everything.",
    ),
    define(
        "node.secure",
        Kind::Toggle,
        "false",
        Some("--secure"),
        "Whether the node makes itself secure: TLS for clients with certificates in the data folder's \
         `certificates`, `security.enabled`, and, where the folder has none yet, an authority, a certificate and \
         a password, which are said once.",
    ),
    define(
        "path.data",
        Kind::Path,
        "./data",
        Some("--data"),
        "The folder of log and rows. One node at a time.",
    ),
    define(
        "http.address",
        Kind::Address,
        "127.0.0.1:9200",
        Some("--http"),
        "Where REST clients connect, and where Prometheus reads `GET /_metrics`.",
    ),
    define(
        "http.max_content_length",
        Kind::Bytes(1 << 10, 2 << 30),
        "100mb",
        None,
        "The largest body of a request, inflated if it is compressed. A larger one is answered \
         413. One document, and a request of the cluster's own (indices, mappings, settings, \
         aliases, templates), has at most 16mb of it.",
    ),
    define(
        "http.max_clients",
        Kind::Count(1, 1_000_000),
        "10000",
        None,
        "REST connections at once; one more is closed. No more than a quarter of the files that \
         the process may have open (`ulimit -n`). Of these places, connections of one address that have \
         not logged in hold at most a quarter, or 16 where that is more.",
    ),
    define(
        "http.compression",
        Kind::Toggle,
        "true",
        None,
        "Whether answers are compressed for clients that take gzip.",
    ),
    define(
        "http.allowed_hosts",
        Kind::Text,
        "",
        None,
        "Names between commas by which clients may reach the REST port where there is no password, \
         beside `localhost` and addresses. A request with another `Host` is answered 403: a web \
         page could have had its own name lead to this node. With a password nothing is asked of \
         the name, and with `--insecure` beyond loopback any is taken.",
    ),
    define(
        "http.cors.enabled",
        Kind::Toggle,
        "false",
        None,
        "Whether web pages of other origins may use the REST port: those of \
         `http.cors.allow-origin`. A request with any other `Origin` is answered 403.",
    ),
    define(
        "http.cors.allow-origin",
        Kind::Text,
        "",
        None,
        "Origins between commas, such as `https://kibana.example:5601`, or `*` for all.",
    ),
    define(
        "http.cors.allow-methods",
        Kind::Text,
        "OPTIONS,HEAD,GET,POST,PUT,DELETE",
        None,
        "The methods that such pages may use, said where their browser asks beforehand.",
    ),
    define(
        "http.cors.allow-headers",
        Kind::Text,
        "X-Requested-With,Content-Type,Content-Length,Authorization,Accept,User-Agent,\
         X-Elastic-Client-Meta",
        None,
        "The headers that such pages may send, said where their browser asks beforehand.",
    ),
    define(
        "http.cors.expose-headers",
        Kind::Text,
        "X-elastic-product",
        None,
        "The headers of answers that such pages may read.",
    ),
    define(
        "http.cors.allow-credentials",
        Kind::Toggle,
        "false",
        None,
        "Whether such pages may act with the password that their visitor gave the browser. Not \
         with `*` as the origin.",
    ),
    define(
        "http.cors.max-age",
        Kind::Count(0, 1 << 31),
        "1728000",
        None,
        "For how many seconds a browser may remember what it was told.",
    ),
    HTTP_TLS[0],
    HTTP_TLS[1],
    HTTP_TLS[2],
    HTTP_TLS[3],
    define(
        "network.breaker.inflight_requests.limit",
        Kind::Bytes(1 << 20, 1 << 40),
        "1gb",
        None,
        "Memory for the bodies of all REST requests together. A request that finds no room is \
         answered 429.",
    ),
    define(
        "rest.version",
        Kind::Text,
        "7.10.2",
        None,
        "The version of Elasticsearch that `GET /` says, by which clients choose what they send.",
    ),
    define(
        "rest.distribution",
        Kind::Text,
        "",
        None,
        "What `GET /` says as `version.distribution`. With `opensearch` and a version such as \
         2.19.1, clients of OpenSearch turn on what only that has. Empty: it is left out.",
    ),
    define(
        "rest.tagline",
        Kind::Text,
        "You Know, for Search",
        None,
        "The tagline of `GET /`. Clients of Elasticsearch 7 check it word for word.",
    ),
    define(
        "resp.address",
        Kind::Address,
        "127.0.0.1:6380",
        Some("--resp"),
        "Where Redis clients connect.",
    ),
    RESP_TLS[0],
    RESP_TLS[1],
    RESP_TLS[2],
    RESP_TLS[3],
    define(
        "rpc.address",
        Kind::Address,
        "127.0.0.1:9300",
        Some("--rpc"),
        "Where other nodes connect. With the embedded log there are none, and the port is opened \
         only where this is given.",
    ),
    define(
        "rpc.secret",
        Kind::Secret,
        "",
        None,
        "What the nodes of a cluster know each other by, the same in all of them, at most 512 \
         bytes. Empty: whoever reaches the port is a node.",
    ),
    define(
        "rpc.secret_file",
        Kind::Path,
        "",
        None,
        "A file that holds the secret instead, so that it stands in no command line. The line end \
         is not part of it.",
    ),
    define(
        "rpc.tls.mode",
        Kind::Choice(&["off", "optional", "required"]),
        "off",
        None,
        "Whether nodes talk to each other through TLS 1.3, each showing a certificate of a node of this \
         cluster. With `optional` nodes without TLS are let in too, and asked without it: a cluster that \
         runs goes over to TLS by a restart of each node with `optional`, then of each with `required`.",
    ),
    define(
        "rpc.tls.certificate",
        Kind::Path,
        "",
        None,
        "The certificate that this node shows to others, in PEM: `plimsoll certificates node` makes it, for \
         the names `node.name` and `cluster.name`. It is taken anew when the file changes.",
    ),
    define("rpc.tls.key", Kind::Path, "", None, "The private key of that certificate, in PEM."),
    define(
        "rpc.tls.certificate_authorities",
        Kind::Path,
        "",
        None,
        "Files between commas, in PEM: who signs certificates of nodes. One authority for each cluster.",
    ),
    define(
        "remote_cluster_server.enabled",
        Kind::Toggle,
        "false",
        None,
        "Whether other clusters may connect to follow tables of this one, at `remote_cluster.port`. \
         Connections there are encrypted (TLS 1.3), and each shows a key that \
         `POST /_security/cross_cluster/api_key` made. Wants the certificate and key below.",
    ),
    define(
        "remote_cluster.host",
        Kind::Text,
        "127.0.0.1",
        None,
        "The address on which other clusters connect. Nothing else is asked for it to lie beyond \
         loopback, as the port has TLS and keys always.",
    ),
    define(
        "remote_cluster.port",
        Kind::Count(0, 65_535),
        "9443",
        None,
        "The port on which other clusters connect; 0 takes any free one.",
    ),
    define(
        "remote_cluster.publish_host",
        Kind::Text,
        "",
        None,
        "The name or address by which other clusters reach this node, where that is not \
         `remote_cluster.host`. With a host of 0.0.0.0 and nothing here, the node is asked by those \
         that name it as a seed or through a proxy, and by nobody else.",
    ),
    define(
        "xpack.security.remote_cluster_server.ssl.certificate",
        Kind::Path,
        "",
        None,
        "The certificate that other clusters are shown, in PEM, those between it and its authority \
         behind it. `plimsoll certificates node` makes one. It is taken anew when the file changes.",
    ),
    define(
        "xpack.security.remote_cluster_server.ssl.key",
        Kind::Path,
        "",
        None,
        "The private key of that certificate, in PEM.",
    ),
    define(
        "xpack.security.remote_cluster_server.ssl.certificate_authorities",
        Kind::Path,
        "",
        None,
        "Files between commas, in PEM. Where there are any, a follower has to show a certificate \
         that one of these authorities signed, beside its key.",
    ),
    define(
        "resp.password",
        Kind::Secret,
        "",
        None,
        "The password of the user that is there from the start, at most 512 bytes: `default` to Redis clients, \
         `default` or `elastic` to REST clients. It holds while that user has none in the cluster's metadata. \
         Empty: clients need none.",
    ),
    define(
        "resp.password_file",
        Kind::Path,
        "",
        None,
        "A file that holds the password instead, so that it stands in no command line. The line \
         end is not part of it.",
    ),
    define(
        "security.enabled",
        Kind::Toggle,
        "false",
        None,
        "Whether everybody has to log in, also where the user `default` has no password: then nobody can be it.",
    ),
    define(
        "security.unheard_max",
        Kind::Duration(1_000_000, 7 * 24 * 3_600_000_000),
        "5m",
        None,
        "A node that has not heard of the cluster's metadata for so long knows nobody: users and API keys may \
         have been taken away. Whoever has the password of the settings is still let in.",
    ),
    define(
        "audit.enabled",
        Kind::Toggle,
        "true",
        None,
        "Whether changes, logins and what was refused are written to `audit_changes.json`, `audit_logins.json` and \
         `audit_refused.json` in the data folder, a line of JSON each. The last thousand of each are in memory in \
         any case: GET /_plimsoll/audit, ACL LOG.",
    ),
    define(
        "audit.file_size",
        Kind::Bytes(4096, 1 << 40),
        "16mb",
        None,
        "The size after which such a file is begun anew. Four older ones stay, as `audit_changes.1.json` the newest.",
    ),
    define(
        "resp.max_clients",
        Kind::Count(1, 1_000_000),
        "10000",
        None,
        "Connections at once; one more is told so and closed. No more than a quarter of the files that \
         the process may have open (`ulimit -n`). Of these places, connections of one address that have \
         not logged in hold at most a quarter, or 16 where that is more.",
    ),
    define(
        "resp.number_of_shards",
        Kind::Count(1, 1024),
        "1",
        None,
        "Partitions of a table `db<n>`, fixed when SELECT n is first written to. With more than \
         one, the keys of a transaction must share a hash tag.",
    ),
    define(
        "log.engine",
        Kind::Text,
        "embedded",
        Some("--log"),
        "The log. `embedded` lies in the data folder of one node. `nats://host:port[,...]` (or \
         `tls://`, with user:password@ where the servers ask for it) is on JetStream servers, and \
         all nodes that name them and the same cluster.name are one cluster. \
         `plimsoll://host:port` is the embedded log of another node of this machine, which \
         shares it there (`log.share`).",
    ),
    define(
        "log.share",
        Kind::Text,
        "",
        None,
        "Where other processes of this machine may use the embedded log, such as 127.0.0.1:9390: \
         for development, not fault tolerant. Empty: nobody does.",
    ),
    define(
        "log.tls.certificate_authorities",
        Kind::Path,
        "",
        None,
        "A file of those who may have signed the log servers' certificates, in PEM. Where it is given, the log \
         is reached through TLS or not at all. Here and below, files are read at each connection to a server.",
    ),
    define(
        "log.tls.certificate",
        Kind::Path,
        "",
        None,
        "The certificate that the node shows to the log's servers, in PEM.",
    ),
    define("log.tls.key", Kind::Path, "", None, "The private key of that certificate, in PEM."),
    define(
        "log.credentials_file",
        Kind::Path,
        "",
        None,
        "A file with the JWT and the seed by which the node logs in to the log's servers, as `nsc` writes it.",
    ),
    define(
        "log.nkey_seed_file",
        Kind::Path,
        "",
        None,
        "A file with the seed of the NKey by which the node logs in to the log's servers.",
    ),
    define(
        "log.password_file",
        Kind::Path,
        "",
        None,
        "A file with the password of the user that the log's address names (`nats://user@host`), or with the \
         token where it names none.",
    ),
    define(
        "log.replicas",
        Kind::Choice(&["auto", "1", "3", "5"]),
        "auto",
        None,
        "Copies that JetStream servers keep of the log, when it is made. `auto` is 1 where one \
         server is named, and 3 otherwise.",
    ),
    define(
        "log.durability",
        Kind::Choice(&["request", "async"]),
        "request",
        None,
        "`request` syncs a write to disk before it is answered. `async` answers first: a power \
         loss may take the last writes, up to the sync interval.",
    ),
    define(
        "log.sync_interval",
        Kind::Duration(1_000, 60_000_000),
        "1s",
        None,
        "How often the log is synced under `async`.",
    ),
    define(
        "cache.size",
        Kind::Bytes(0, 1 << 40),
        "0b",
        None,
        "Memory for blocks of rows that were read, all partitions together, taken as it fills. Single rows \
         that were read or written last take half as much beside it. 0 is a sixth of the memory that the node \
         may take (`indices.breaker.total.limit`) for both: an eighth for single rows, a twenty-fourth for \
         blocks.",
    ),
    define(
        "write_buffer.size",
        Kind::Bytes(0, 1 << 40),
        "0b",
        None,
        "Memory for rows that are not in files yet, all partitions together: files are written from \
         three quarters of it on, and at twice of it no more rows are taken. 0 is a thirty-second \
         of the memory of the machine or control group, between 128mb and 1gb.",
    ),
    define(
        "compaction.bytes_per_sync",
        Kind::Bytes(0, 1 << 30),
        "512kb",
        None,
        "How much of a file of rows is written before it is synced, so that syncs of the log do not wait \
         behind a whole file on the same disk. 0 syncs each file once, when it is whole; with \
         `compaction.rate_limiter.max_bytes_per_sec` RocksDB takes 1mb for 0.",
    ),
    define(
        "compaction.rate_limiter.max_bytes_per_sec",
        Kind::Bytes(0, 1 << 40),
        "0b",
        None,
        "RocksDB's own limiter of what flushes and compactions write, to compare with: 0, which is none, or \
         at least 1mb, since a node that stops waits for the flushes under way. With it `compaction.pacing` \
         is `off`.",
    ),
    define(
        "compaction.rate_limiter.auto_tuned",
        Kind::Toggle,
        "false",
        None,
        "Whether that limiter looks for a lower rate by itself.",
    ),
    define(
        "cluster.routing.use_adaptive_replica_selection",
        Kind::Toggle,
        "true",
        None,
        "Whether reads and searches go to the copy that is likely to answer first, rather than to \
         each in turn. Like all that follow down to `thread_pool.search.target_response_time`, it \
         is of this node as a coordinator, and what `PUT /_cluster/settings` says goes over it, at \
         once and in all nodes.",
    ),
    define(
        "cluster.routing.replica_selection",
        Kind::Choice(&[
            "load_aware",
            "round_robin",
            "least_outstanding",
            "p2c_peak_ewma",
            "c3",
            "c3_first",
            "c3_proposed",
            "prequal",
            "ours",
        ]),
        "load_aware",
        None,
        "The rule by which the copy is chosen. `ours` is an older word for `load_aware`. `c3` is Elasticsearch's; the others are published \
         ones to compare with.",
    ),
    define(
        "cluster.routing.replica_selection_shadow",
        Kind::Text,
        "",
        None,
        "A second rule that is told of every request and asked each time, and not followed: how \
         often it would have chosen otherwise shows in `_nodes/stats/adaptive_selection`.",
    ),
    define(
        "cluster.routing.hedging",
        Kind::Choice(&["off", "shadow", "on"]),
        "off",
        None,
        "Whether a read that is later than 95 % of its kind is asked of a second copy as well, at \
         most 2 % of all. `shadow` counts them and sends none.",
    ),
    define(
        "thread_pool.search.size",
        Kind::Count(0, 1024),
        "0",
        None,
        "Threads that searches run on; 0 takes three for every two processors, and one more.",
    ),
    define(
        "thread_pool.search.admission",
        Kind::Choice(&["load_aware", "fixed", "littles_law", "ours"]),
        "load_aware",
        None,
        "Who may wait for one of them. `load_aware` (`ours` before) goes by time, deadline and \
         cost, and has nothing to set. `fixed` lets `queue_size` wait. `littles_law` sets that number by the rate at which \
         searches end and `target_response_time`. Who may not wait is answered 429.",
    ),
    define(
        "thread_pool.search.admission_shadow",
        Kind::Text,
        "",
        None,
        "A second rule that is shown the same searches and not followed: whom it would have \
         refused shows in `_nodes/stats/thread_pool`.",
    ),
    define(
        "thread_pool.search.queue_size",
        Kind::Count(1, 1_000_000),
        "1000",
        None,
        "Searches of single partitions that may wait under `fixed`, and at first under \
         `littles_law`.",
    ),
    define(
        "thread_pool.search.min_queue_size",
        Kind::Count(1, 1_000_000),
        "10",
        None,
        "The least that `littles_law` lets wait.",
    ),
    define(
        "thread_pool.search.max_queue_size",
        Kind::Count(1, 1_000_000),
        "1000",
        None,
        "The most that `littles_law` lets wait.",
    ),
    define(
        "thread_pool.search.auto_queue_frame_size",
        Kind::Count(1, 1_000_000),
        "2000",
        None,
        "Searches between two adjustments under `littles_law`.",
    ),
    define(
        "thread_pool.search.target_response_time",
        Kind::Duration(1_000, 3_600_000_000),
        "1s",
        None,
        "The response time that `littles_law` aims at. `load_aware` needs none.",
    ),
    define(
        "logger.level",
        Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
        "info",
        None,
        "The least urgent messages that are written to standard error.",
    ),
    define(
        "logger.format",
        Kind::Choice(&["text", "json"]),
        "text",
        Some("--log-format"),
        "How messages are written: lines for people, or one JSON object in each.",
    ),
];

/// Other names of settings, Elasticsearch's: they mean what the second says.
const ALIASES: [(&str, &str); 9] = [
    ("xpack.security.enabled", "security.enabled"),
    ("xpack.security.audit.enabled", "audit.enabled"),
    ("xpack.security.http.ssl.enabled", "http.tls.enabled"),
    ("xpack.security.http.ssl.certificate", "http.tls.certificate"),
    ("xpack.security.http.ssl.key", "http.tls.key"),
    ("xpack.security.http.ssl.certificate_authorities", "http.tls.certificate_authorities"),
    ("xpack.security.transport.ssl.certificate", "rpc.tls.certificate"),
    ("xpack.security.transport.ssl.key", "rpc.tls.key"),
    ("xpack.security.transport.ssl.certificate_authorities", "rpc.tls.certificate_authorities"),
];

/// The setting of this name.
#[must_use]
pub fn find(key: &str) -> Option<&'static Definition> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == key);
    let key = alias.map_or(key, |(_, meant)| meant);
    SETTINGS.iter().find(|definition| definition.key == key)
}
