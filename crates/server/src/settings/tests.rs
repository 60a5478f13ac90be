//! Settings by text, and the generated pages.

use std::path::PathBuf;

use super::*;

/// What `--set` words come to: one field, or the refusal.
pub(super) fn resolve(words: &[&str]) -> Result<Settings, String> {
    let mut raw = Raw::default();
    for word in words {
        raw.assignment(word).map_err(|error| error.to_string())?;
    }
    Settings::resolve(&raw).map_err(|error| error.to_string())
}

#[test]
fn defaults_resolve_and_values_are_taken() {
    let defaults = resolve(&[]).unwrap();
    assert_eq!(defaults.resp.to_string(), "127.0.0.1:6380");
    assert_eq!((defaults.max_clients, defaults.password), (10_000, None));
    let settings = resolve(&[
        "log.durability=async",
        "log.sync_interval=250ms",
        "cache.size = 64MiB",
        "write_buffer.size=32mb",
        "compaction.bytes_per_sync=0b",
        "resp.password=s=cret",
        "cluster.routing.replica_selection=c3",
        "thread_pool.search.target_response_time=4s",
        "node.roles=[ingest]",
        "log.engine=nats://127.0.0.1:4222",
    ])
    .unwrap();
    assert!(settings.is_coordinating_only && !defaults.is_coordinating_only);
    assert_eq!(settings.work.search.target_response_time, Duration::from_secs(4));
    assert_ne!(settings.work, defaults.work);
    assert_eq!(settings.durability, Durability::Async);
    assert_eq!(settings.sync_interval, Duration::from_millis(250));
    assert_eq!(settings.cache_bytes, 64 << 20);
    assert_eq!((settings.write_buffer_bytes, defaults.write_buffer_bytes), (32 << 20, 0));
    let built_in = plimsoll_storage::partition::StoreOptions::default().bytes_per_sync;
    assert_eq!((settings.bytes_per_sync, defaults.bytes_per_sync), (0, built_in));
    assert_eq!(settings.password.as_deref(), Some("s=cret"));
}

#[test]
fn refusals_name_the_key() {
    for (words, refusal) in [
        (
            "log.durabilty=async",
            "unknown setting `log.durabilty` (from --set); did you mean `log.durability`?",
        ),
        ("nonsense=1", "unknown setting `nonsense` (from --set)"),
        // Another port has such a one.
        ("rpc.tls.enabled=true", "unknown setting `rpc.tls.enabled` (from --set)"),
        (
            "rcp.tls.mode=off",
            "unknown setting `rcp.tls.mode` (from --set); did you mean `rpc.tls.mode`?",
        ),
        ("node.name", "setting `node.name` (from --set): lacks its value; write --set key=value"),
        (
            "log.durability=maybe",
            "setting `log.durability` (from --set): `maybe` is none of request, async",
        ),
        (
            "node.roles=voting",
            "setting `node.roles` (from --set): `voting` is none of data, ingest, master, \
             remote_cluster_client",
        ),
        (
            "cluster.routing.replica_selection_shadow=best",
            "setting `cluster.routing.replica_selection_shadow` (from --set): `best` is none of \
             load_aware, round_robin, least_outstanding, p2c_peak_ewma, c3, c3_first, c3_proposed, prequal",
        ),
        (
            "resp.max_clients=0",
            "setting `resp.max_clients` (from --set): `0` is not between 1 and 1000000",
        ),
        (
            "cache.size=64",
            "setting `cache.size` (from --set): `64` lacks a unit; write a size such as 64kb, \
             256mb or 2gb",
        ),
        (
            "write_buffer.size=1mb",
            "setting `write_buffer.size` (from --set): it is 0 or at least 8mb",
        ),
        (
            "resp.address=6380",
            "setting `resp.address` (from --set): `6380` is not an address such as 127.0.0.1:6380",
        ),
        (
            "http.cors.allow-origin=/https?:.*/",
            "setting `http.cors.allow-origin` (from --set): `/https?:.*/`: regular expressions are \
             not supported, list the origins",
        ),
        (
            "http.cors.allow-origin=kibana",
            "setting `http.cors.allow-origin` (from --set): `kibana` is no origin, such as \
             https://kibana.example:5601",
        ),
        (
            "http.allowed_hosts=a,http://b",
            "setting `http.allowed_hosts` (from --set): `http://b` is no name of a host, such as \
             search.example",
        ),
        (
            "log.engine=nats+tls://u:secret@h",
            "setting `log.engine` (from --set): it is no log; write `embedded`, `nats://host:port[,…]` or \
             `plimsoll://host:port`",
        ),
        (
            "log.engine=kafka://a:9092",
            "setting `log.engine` (from --set): `kafka://a:9092` is no log; write `embedded`, \
             `nats://host:port[,…]` or `plimsoll://host:port`",
        ),
    ] {
        assert_eq!(resolve(&[words]).unwrap_err(), refusal);
    }
}

#[test]
fn files_in_both_formats_nested_and_dotted() {
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let mut raw = Raw::default();
        raw.file(&path).and_then(|()| Settings::resolve(&raw)).map_err(|error| error.to_string())
    };
    for (name, text) in [
        ("a.toml", "resp.max_clients = 7\n[log]\ndurability = \"async\"\n"),
        ("a.yaml", "resp:\n  max_clients: 7\nlog.durability: async\n"),
        ("a.yml", "resp.max_clients: 7\nlog:\n  durability: async\n"),
    ] {
        let settings = load(name, text).unwrap();
        assert_eq!((settings.max_clients, settings.durability), (7, Durability::Async), "{name}");
    }
    let refused = load("b.yaml", "resp:\n  max_cleints: 7\n").unwrap_err();
    assert!(refused.contains("`resp.max_cleints`") && refused.contains("b.yaml"), "{refused}");
    assert!(load("c.toml", "not toml at all").unwrap_err().contains("c.toml"));
    assert!(load("d.yaml", "resp.max_clients: [1, 2]").unwrap_err().contains("list"));
}

#[test]
fn a_password_file_is_read_without_its_line_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "secret\n").unwrap();
    let file = format!("resp.password_file={}", path.display());
    assert_eq!(resolve(&[&file]).unwrap().password.as_deref(), Some("secret"));
    assert!(resolve(&[&file, "resp.password=other"]).unwrap_err().contains("keep one"));
    assert!(resolve(&["resp.password_file=/nonexistent"]).is_err());
}

#[test]
fn the_port_for_other_nodes_is_opened_where_there_may_be_any() {
    assert_eq!(resolve(&[]).unwrap().rpc, None);
    let given = resolve(&["rpc.address=127.0.0.1:0", "rpc.secret=x"]).unwrap();
    assert_eq!(given.rpc.map(|address| address.port()), Some(0));
    assert_eq!(given.rpc_secret.as_deref(), Some("x"));
    for (log, is_given, opened) in [
        ("log.engine=embedded", false, false),
        ("log.engine=embedded", true, true),
        ("log.share=127.0.0.1:9390", false, true),
        ("log.engine=nats://127.0.0.1:4222", false, true),
        ("log.engine=plimsoll://127.0.0.1:9400", false, true),
    ] {
        let settings = resolve(&[log]).unwrap();
        assert_eq!(has_peers(&settings.log, is_given), opened, "{log}");
    }
}

/// `UPDATE_DOCS=1 cargo test -p plimsoll-server` rewrites the pages.
#[test]
fn generated_pages_are_up_to_date() {
    let docs = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("docs");
    for (name, page) in
        [("settings.md", reference::markdown()), ("plimsoll.example.toml", reference::example())]
    {
        let path = docs.join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), page, "{name} is out of date");
    }
    // The example is a settings file itself, once its settings are switched on.
    let on: String = reference::example()
        .lines()
        .filter(|line| !line.starts_with("# "))
        .map(|line| format!("{}\n", line.trim_start_matches('#')))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("example.toml");
    std::fs::write(&path, on).unwrap();
    let mut raw = Raw::default();
    raw.file(&path).unwrap();
    let mut settings = Settings::resolve(&raw).unwrap();
    // Said out loud, even the default opens the port.
    assert_eq!(settings.rpc.take().map(|address| address.port()), Some(9300));
    let plain = resolve(&[]).unwrap();
    assert_eq!(format!("{settings:?}"), format!("{plain:?}"));
}
