//! Streams that are deleted or made anew under a running node: detected, and named.

use plimsoll_log::{AppendError, GroupId, Log, LogError, Lsn};
use serde_json::Value;

use crate::client::{append, read_to, read_to_error};
use crate::servers::{Servers, Version};

crate::on_both!(
    a_stream_deleted_under_a_reader_is_missed,
    a_stream_made_anew_under_a_reader_is_detected,
    a_stream_made_anew_that_has_grown_is_detected_by_its_records,
    a_log_made_anew_under_a_reader_is_detected_at_once,
    an_append_that_is_given_a_position_again_stops_the_group,
);

const STREAM: &str = "plimsoll_plimsoll_0";

fn delete(servers: &Servers) -> Value {
    let config = servers.api(0, &format!("STREAM.INFO.{STREAM}"), "").unwrap()["config"].take();
    servers.api(0, &format!("STREAM.DELETE.{STREAM}"), "").unwrap();
    config
}

fn recreate(servers: &Servers, config: &Value) {
    servers.api(0, &format!("STREAM.CREATE.{STREAM}"), &config.to_string()).unwrap();
}

fn ten_records(log: &dyn Log) {
    for lsn in 1..=10 {
        assert_eq!(append(log, 0, format!("old {lsn}").as_bytes()), Ok(Lsn(lsn)));
    }
}

fn damage(error: LogError) -> String {
    match error {
        LogError::Damaged(reason) => reason,
        error => panic!("{error}"),
    }
}

fn a_stream_deleted_under_a_reader_is_missed(version: Version) {
    let servers = Servers::start(version, 1);
    let log = servers.open();
    ten_records(&log);
    let mut reader = log.read(&[(GroupId(0), Lsn(1))]).unwrap();
    read_to(&mut *reader, 1, 10);
    delete(&servers);
    let refused = append(&log, 0, b"to nobody");
    assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
    let reason = damage(read_to_error(&mut *reader));
    assert!(reason.contains(STREAM) && reason.contains("gone"), "{reason}");
    assert!(log.health().unwrap_err().to_string().contains("gone"));
    assert_eq!(append(&log, 1, b"the other group goes on"), Ok(Lsn(1)));
}

fn a_stream_made_anew_under_a_reader_is_detected(version: Version) {
    let servers = Servers::start(version, 1);
    let (log, other) = (servers.open(), servers.open());
    ten_records(&log);
    let mut reader = log.read(&[(GroupId(0), Lsn(1))]).unwrap();
    read_to(&mut *reader, 1, 10);
    // The same in everything but what it holds.
    recreate(&servers, &delete(&servers));
    assert_eq!(append(&other, 0, b"new 1"), Ok(Lsn(1)), "this one had read nothing");
    let reason = damage(read_to_error(&mut *reader));
    assert!(reason.contains("lost its end") && reason.contains(STREAM), "{reason}");
    let refused = append(&log, 0, b"to a log without its end");
    assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
}

fn a_stream_made_anew_that_has_grown_is_detected_by_its_records(version: Version) {
    let servers = Servers::start(version, 1);
    let (log, other) = (servers.open(), servers.open());
    ten_records(&log);
    let mut reader = log.read(&[(GroupId(0), Lsn(1))]).unwrap();
    read_to(&mut *reader, 1, 10);
    recreate(&servers, &delete(&servers));
    for lsn in 1..=12 {
        assert_eq!(append(&other, 0, format!("new {lsn}").as_bytes()), Ok(Lsn(lsn)));
    }
    let reason = damage(read_to_error(&mut *reader));
    assert!(reason.contains("another past") && reason.contains(STREAM), "{reason}");
    let refused = append(&log, 0, b"to a log with another past");
    assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
}

fn a_log_made_anew_under_a_reader_is_detected_at_once(version: Version) {
    let servers = Servers::start(version, 1);
    let log = servers.open();
    ten_records(&log);
    let mut reader = log.read(&[(GroupId(0), Lsn(1))]).unwrap();
    read_to(&mut *reader, 1, 10);
    delete(&servers);
    servers.api(0, "STREAM.DELETE.plimsoll_plimsoll_1", "").unwrap();
    let new = servers.open();
    assert_ne!(new.incarnation(), log.incarnation());
    let reason = damage(read_to_error(&mut *reader));
    assert!(reason.contains(&log.incarnation().to_string()), "{reason}");
    assert_eq!(append(&new, 0, b"new"), Ok(Lsn(1)));
}

fn an_append_that_is_given_a_position_again_stops_the_group(version: Version) {
    let servers = Servers::start(version, 1);
    let log = servers.open();
    ten_records(&log);
    recreate(&servers, &delete(&servers));
    let outcome = append(&log, 0, b"again at 1");
    assert!(matches!(outcome, Err(AppendError::Unknown(_))), "{outcome:?}");
    let fault = log.health().unwrap_err().to_string();
    assert!(fault.contains("lost its end"), "{fault}");
    let refused = append(&log, 0, b"more");
    assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
}
