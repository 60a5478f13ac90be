//! The link against its own settings: when bytes arrive is computed and compared exactly; the
//! relay is held to what cannot be otherwise, however slow the machine is.

use super::*;

const MS: Duration = Duration::from_millis(1);
const PLAIN: WanSettings = WanSettings {
    delay: Duration::ZERO,
    jitter: Duration::ZERO,
    rate_bytes_s: 0,
    loss: 0.0,
    window_bytes_max: 0,
};

#[test]
fn delay_and_rate_are_what_was_asked_for() {
    let mut link = Link::new(WanSettings { delay: 40 * MS, rate_bytes_s: 1_000_000, ..PLAIN }, 1);
    // A megabyte a second: a thousand bytes take a millisecond.
    assert_eq!(link.arrival(Duration::ZERO, 1_000).0, 41 * MS);
    assert_eq!(link.arrival(Duration::ZERO, 2_000).0, 43 * MS);
    // After a pause the link is idle again.
    assert_eq!(link.arrival(100 * MS, 1_000).0, 141 * MS);
    let total = (0..1_000).map(|_| link.arrival(200 * MS, 10_000).0).last();
    assert_eq!(total, Some(200 * MS + Duration::from_secs(10) + 40 * MS));
}

#[test]
fn jitter_is_within_its_bounds_and_even() {
    let mut link = Link::new(WanSettings { delay: 20 * MS, jitter: 10 * MS, ..PLAIN }, 2);
    let times: Vec<Duration> = (0..10_000).map(|_| link.arrival(Duration::ZERO, 1).0).collect();
    assert!(times.iter().all(|time| (20 * MS..30 * MS).contains(time)));
    let mean_ms = times.iter().map(Duration::as_secs_f64).sum::<f64>() / 10.0;
    assert!((mean_ms - 25.0).abs() < 0.2, "{mean_ms}");
}

#[test]
fn a_lost_segment_costs_a_round_trip() {
    let mut link = Link::new(WanSettings { delay: 50 * MS, loss: 0.02, ..PLAIN }, 3);
    let times: Vec<Duration> = (0..20_000).map(|_| link.arrival(Duration::ZERO, 100).0).collect();
    let lost = times.iter().filter(|time| **time == 150 * MS).count();
    assert_eq!(times.iter().filter(|time| **time == 50 * MS).count(), times.len() - lost);
    // 400 with a standard deviation of 20.
    assert!((320..480).contains(&lost), "{lost}");
    // A chunk of ten segments is as likely to lose one as ten chunks of one.
    let long = (0..2_000).filter(|_| link.arrival(Duration::ZERO, 14_480).0 > 100 * MS).count();
    assert!((300..430).contains(&long), "{long}");
}

/// A server that sends everything back.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut back = stream.try_clone().unwrap();
                let _ = io::copy(&mut stream, &mut back);
                let _ = back.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

#[test]
fn what_goes_in_comes_out_in_order_and_no_sooner_than_it_may() {
    let rough = WanSettings {
        delay: 15 * MS,
        jitter: 5 * MS,
        rate_bytes_s: 4_000_000,
        loss: 0.01,
        ..PLAIN
    };
    let wan = Wan::start(echo(), rough, 4).unwrap();
    let mut stream = TcpStream::connect(wan.address()).unwrap();
    let sent: Vec<u8> = (0..400_000u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    let mut writing = stream.try_clone().unwrap();
    let copy = sent.clone();
    let began = Instant::now();
    let writer = thread::spawn(move || {
        writing.write_all(&copy).unwrap();
        writing.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    writer.join().unwrap();
    assert!(back == sent, "{} bytes of {}", back.len(), sent.len());
    // A round trip for the handshake and one for the bytes, which take a tenth of a second each way
    // at this rate, one way while the other goes on.
    assert!(began.elapsed() >= 60 * MS + 100 * MS, "{:?}", began.elapsed());
    assert_eq!(wan.carried_bytes(), [400_000, 400_000]);
}

#[test]
fn settings_change_while_it_runs() {
    let wan = Wan::start(echo(), PLAIN, 5).unwrap();
    let mut stream = TcpStream::connect(wan.address()).unwrap();
    let mut answer = [0; 4];
    let mut turn = |stream: &mut TcpStream| {
        let began = Instant::now();
        stream.write_all(b"ping").unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ping");
        began.elapsed()
    };
    turn(&mut stream);
    wan.change(WanSettings { delay: 80 * MS, ..PLAIN });
    assert!(turn(&mut stream) >= 160 * MS);
}

#[test]
fn a_target_that_is_not_there_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = listener.local_addr().unwrap();
    drop(listener);
    let wan = Wan::start(gone, PLAIN, 6).unwrap();
    let mut stream = TcpStream::connect(wan.address()).unwrap();
    let mut nothing = Vec::new();
    assert_eq!(stream.read_to_end(&mut nothing).unwrap_or(0), 0);
}

#[test]
fn a_window_bounds_a_connection_and_not_the_link() {
    // 64 KiB under way over 40 ms: 1.6 MB a second, where the link carries 100.
    let bounded = WanSettings {
        delay: 20 * MS,
        rate_bytes_s: 100_000_000,
        window_bytes_max: 64 << 10,
        ..PLAIN
    };
    let wan = Wan::start(echo(), bounded, 7).unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut stream = TcpStream::connect(wan.address()).unwrap();
                let mut writing = stream.try_clone().unwrap();
                scope.spawn(move || {
                    writing.write_all(&[7; 320 << 10]).unwrap();
                    writing.shutdown(Shutdown::Write).unwrap();
                });
                let mut back = Vec::new();
                stream.read_to_end(&mut back).unwrap();
                assert_eq!(back.len(), 320 << 10);
            });
        }
    });
    // Five windows, one after another; before them the handshake and two doublings.
    assert!(began.elapsed() >= 40 * MS * 6, "{:?}", began.elapsed());
    assert_eq!(wan.carried_bytes(), [4 * (320 << 10); 2]);
}

#[test]
fn two_targets_share_one_link() {
    // A megabyte a second: 100 kB to each of two take a fifth of a second together.
    let wan = Wan::start(echo(), WanSettings { rate_bytes_s: 1_000_000, ..PLAIN }, 8).unwrap();
    let other = wan.also(echo()).unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        for address in [wan.address(), other] {
            scope.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                let mut writing = stream.try_clone().unwrap();
                writing.write_all(&[7; 100_000]).unwrap();
                writing.shutdown(Shutdown::Write).unwrap();
                let mut back = Vec::new();
                stream.read_to_end(&mut back).unwrap();
                assert_eq!(back.len(), 100_000);
            });
        }
    });
    assert!(began.elapsed() >= 200 * MS, "{:?}", began.elapsed());
    assert_eq!(wan.carried_bytes(), [200_000; 2]);
    assert!(wan.take_late_ms() >= 0.0);
    assert_eq!(wan.take_late_ms(), 0.0);
}

#[test]
fn bytes_are_under_way_until_they_arrive() {
    let wan = Wan::start(echo(), WanSettings { delay: 100 * MS, ..PLAIN }, 9).unwrap();
    let is_soon = |expected: [u64; 2]| {
        (0..5_000).any(|_| {
            let is_so = wan.under_way_bytes() == expected;
            thread::sleep(MS * u32::from(!is_so));
            is_so
        })
    };
    let mut stream = TcpStream::connect(wan.address()).unwrap();
    stream.write_all(b"hello").unwrap();
    assert!(is_soon([5, 0]) && is_soon([0, 5]), "there, and back");
    stream.read_exact(&mut [0; 5]).unwrap();
    assert!(is_soon([0, 0]));
}
