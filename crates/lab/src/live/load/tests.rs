//! The generator against a server in this process that answers after a known time.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

/// Watches nothing and stops nothing.
struct Nobody;

impl Watch for Nobody {
    fn answered(&self, _: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// Answers `+` after a pause; every third request of a connection is refused.
fn server(pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut heard = [0; 256];
                for number in 1u64.. {
                    match stream.read(&mut heard) {
                        Ok(0) | Err(_) => return,
                        Ok(_) => thread::sleep(pause),
                    }
                    let answer: &[u8] =
                        if number % 3 == 0 { b"-TRYAGAIN busy\r\n" } else { b"+\r\n" };
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn lap(address: String, pace: Pace) -> Taken {
    let requests = Requests::of_one_kind(vec![b"x".to_vec()]);
    let load = Load {
        addresses: &[address],
        protocol: Protocol::Resp,
        greeting: b"",
        requests: &requests,
        pace,
        warm_up: Duration::from_millis(100),
        window: Duration::from_millis(900),
        timeout: Duration::from_secs(5),
        seed: 1,
    };
    run(&load, &Nobody).unwrap()
}

#[test]
fn a_closed_loop_waits_for_its_answers() {
    let taken = lap(server(Duration::from_millis(20)), Pace::Closed { clients: 3 });
    // At most 45 in 0.9 s by each client, however slow this machine is; and never faster than the
    // server answers.
    assert!((1..=3 * 46).contains(&taken.issued), "{taken:?}");
    assert!(taken.latency_us.min() >= 20_000, "{}", taken.latency_us.min());
    assert!(taken.refused > 0 && taken.failures() == 0, "{:?}", taken.failed);
    assert_eq!(taken.latency_us.len() + taken.refused, taken.issued);
    assert!(taken.throughput().max >= taken.throughput().min);
}

#[test]
fn an_open_loop_counts_from_when_a_request_was_due() {
    // One connection can do 50 a second; 200 are due, so that most wait for it.
    let pace = Pace::Open { rate_ops_s: 200.0, clients: 1 };
    let taken = lap(server(Duration::from_millis(20)), pace);
    assert!(taken.latency_us.max() > 200_000, "{}", taken.latency_us.max());
    // Also those that it never came to.
    assert!(taken.failed["unsent"] > 50 && taken.issued > 120, "{taken:?}");
    assert_eq!(taken.latency_us.len() + taken.refused, taken.issued);
    assert!(taken.service_us.value_at_quantile(0.5) < taken.latency_us.value_at_quantile(0.5));
}

#[test]
fn a_server_that_is_not_there_is_a_failure_by_name() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let taken = lap(address, Pace::Closed { clients: 1 });
    assert_eq!(taken.failed.keys().collect::<Vec<_>>(), ["connect"]);
    assert_eq!((taken.answered(), taken.failures()), (0, taken.issued));
}

#[test]
fn a_schedule_has_the_rate_it_was_asked_for() {
    let moments = schedule(1_000.0, Duration::from_secs(20), 3);
    // Poisson: 20,000 with a standard deviation of 141.
    assert!((19_300..20_700).contains(&moments.len()), "{}", moments.len());
    assert!(moments.windows(2).all(|pair| pair[0] <= pair[1]));
    assert!(schedule(0.0, Duration::from_secs(1), 3).is_empty());
}

#[test]
fn kinds_come_in_their_shares() {
    let requests = Requests::mixed(vec![b"r".to_vec(); 3], vec![b"w".to_vec(); 5], 0.8);
    let mut random = Random::new(5);
    let reads = (0..10_000)
        .filter(|_| requests.next(&mut random, &mut Vec::new()) == (0, b"r".as_slice()))
        .count();
    assert!((7_800..8_200).contains(&reads), "{reads}");
}
