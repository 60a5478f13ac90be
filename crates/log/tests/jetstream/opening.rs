//! What is checked when a log is opened: limits, settings, who one is.

use plimsoll_log::jetstream::{Address, Jetstream, Options};
use plimsoll_log::{Log, LogError, Lsn};

use crate::client::append;
use crate::servers::{Servers, Version};

crate::on_both!(
    a_server_whose_limit_is_below_a_record_is_refused_by_the_name_of_the_setting,
    who_one_is_is_checked_and_no_secret_is_shown,
    a_cluster_has_a_log_of_its_own,
    a_stream_with_other_settings_or_a_missing_one_is_named,
);

fn fails(address: &Address, options: &Options) -> String {
    match Jetstream::open(address, options) {
        Ok(_) => panic!("it opens"),
        Err(error) => error.to_string(),
    }
}

fn a_server_whose_limit_is_below_a_record_is_refused_by_the_name_of_the_setting(version: Version) {
    let servers = Servers::start_with(version, 1, "max_payload: 1MB", "");
    let error = fails(&servers.address(&[0]), &servers.options());
    assert!(error.contains("max_payload: 8MB"), "{error}");
    let options = Options { replicas: 2, ..servers.options() };
    assert!(fails(&servers.address(&[0]), &options).contains("1, 3 or 5"));
    let nobody = Address::parse("nats://127.0.0.1:1").unwrap();
    let options = Options { open_timeout_ms: 100, ..servers.options() };
    assert!(fails(&nobody, &options).contains("cannot connect to nats://127.0.0.1:1"));
}

fn who_one_is_is_checked_and_no_secret_is_shown(version: Version) {
    let lines = "max_payload: 8MB\nauthorization { user: ann, password: \"s3cret!\" }";
    let servers = Servers::start_with(version, 1, lines, "");
    let port = servers.all[0].port;
    let address = |login: &str| Address::parse(&format!("nats://{login}127.0.0.1:{port}")).unwrap();
    let log = Jetstream::open(&address("ann:s3cret%21@"), &servers.options()).unwrap();
    assert_eq!(append(&log, 0, b"hers"), Ok(Lsn(1)));
    for login in ["", "ann:wr0ng@", "t0ken@"] {
        let error = fails(&address(login), &servers.options());
        assert!(error.contains("uthorization") || error.contains("uthentication"), "{error}");
        assert!(!error.contains("wr0ng") && !error.contains("t0ken"), "{error}");
    }
}

fn a_cluster_has_a_log_of_its_own(version: Version) {
    let servers = Servers::start(version, 1);
    let west = servers.address(&[0]).with_cluster("west").unwrap();
    let east = servers.address(&[0]).with_cluster("east").unwrap();
    let [west, east] =
        [west, east].map(|address| Jetstream::open(&address, &servers.options()).unwrap());
    assert_ne!(west.incarnation(), east.incarnation());
    assert_eq!(append(&west, 0, b"one"), Ok(Lsn(1)));
    assert_eq!(append(&west, 0, b"two"), Ok(Lsn(2)));
    assert_eq!(append(&east, 0, b"one"), Ok(Lsn(1)));
}

fn a_stream_with_other_settings_or_a_missing_one_is_named(version: Version) {
    let servers = Servers::start(version, 1);
    drop(servers.open());
    let more_groups = Options { groups: 3, ..servers.options() };
    let error = fails(&servers.address(&[0]), &more_groups);
    assert!(error.contains("groups 2") && error.contains("3 groups"), "{error}");
    let stream = "plimsoll_plimsoll_1";
    let mut config = servers.api(0, &format!("STREAM.INFO.{stream}"), "").unwrap()["config"].take();
    config["discard"] = "old".into();
    servers.api(0, &format!("STREAM.UPDATE.{stream}"), &config.to_string()).unwrap();
    let error = fails(&servers.address(&[0]), &servers.options());
    assert!(error.contains(stream) && error.contains("`discard` must be `new`"), "{error}");
    servers.api(0, &format!("STREAM.DELETE.{stream}"), "").unwrap();
    match Jetstream::open(&servers.address(&[0]), &servers.options()) {
        Err(LogError::Damaged(reason)) => assert!(reason.contains(stream), "{reason}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a stream that is gone is not missed"),
    }
}
