//! The way between nodes, over real sockets: what comes through, and what is known of a question
//! that has no answer. Whoever asks does so on a runtime of one thread, as connections do.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]
#![expect(clippy::unwrap_used, reason = "a test says so by failing")]

use std::{
    future::{Future, pending},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use plimsoll_cluster::{Call, CallError, MESSAGE_BYTES_MAX, Peers};
use plimsoll_server::rpc::{Answers, Client, Server};
use plimsoll_server::tls::door::Door;
use tokio::sync::watch;

/// What a call gets that is not about time.
const LONG: Duration = Duration::from_secs(600);

/// Whoever connects is through.
fn door() -> Door {
    Door::new("rpc.address", plimsoll_base::Time::of_the_machine(), None)
}

/// Does what the question says.
#[derive(Default)]
struct Handler {
    asked: AtomicUsize,
    /// Questions that wait now.
    waiting: Arc<watch::Sender<usize>>,
    /// Lets go those that wait for it.
    released: watch::Sender<bool>,
}

/// A question that waits while this is there.
struct Waiting(Arc<watch::Sender<usize>>);

impl Waiting {
    fn new(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(Arc::clone(count))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Answers for Handler {
    async fn answer(&self, question: Bytes, _: Option<&str>) -> Bytes {
        self.asked.fetch_add(1, SeqCst);
        match &*question {
            b"never" => {
                let _waiting = Waiting::new(&self.waiting);
                pending().await
            }
            b"later" => {
                let _waiting = Waiting::new(&self.waiting);
                self.released.subscribe().wait_for(|released| *released).await.unwrap();
                question
            }
            b"long" => vec![0; MESSAGE_BYTES_MAX + 1].into(),
            b"panic" => panic!("as the question says"),
            _ => question,
        }
    }
}

impl Handler {
    fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    async fn until_waiting(&self, count: usize) {
        self.waiting.subscribe().wait_for(|waiting| *waiting == count).await.unwrap();
    }
}

struct Peer {
    handler: Arc<Handler>,
    server: Server,
    address: String,
}

impl Peer {
    fn start(address: &str, secret: Option<&str>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let handler = Arc::<Handler>::default();
        let server = Server::start(listener, Arc::clone(&handler), secret, door()).unwrap();
        Self { handler, server, address }
    }

    fn any() -> Self {
        Self::start("127.0.0.1:0", None)
    }

    fn call(&self, client: &Client, question: &'static [u8]) -> Call {
        client.call(&self.address, Bytes::from_static(question), LONG)
    }
}

fn client() -> Client {
    Client::start("a node", None, None).unwrap()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn unreachable(result: Result<Bytes, CallError>) -> String {
    match result {
        Err(CallError::Unreachable(reason)) => reason,
        other => panic!("{:?}", other.map(|bytes| bytes.len())),
    }
}

fn lost(result: Result<Bytes, CallError>) -> String {
    match result {
        Err(CallError::Lost(reason)) => reason,
        other => panic!("{:?}", other.map(|bytes| bytes.len())),
    }
}

#[test]
fn bytes_come_back_as_they_went() {
    let (peer, client) = (Peer::any(), client());
    for len in [0, 1, 1 << 20, 20 << 20, MESSAGE_BYTES_MAX] {
        let question: Bytes = (0..=250).cycle().take(len).collect();
        let answer = run(client.call(&peer.address, question.clone(), LONG)).unwrap();
        assert!(answer == question, "{len} bytes came back as {}", answer.len());
    }
}

#[test]
fn what_is_too_long_is_said() {
    let (peer, client) = (Peer::any(), client());
    assert!(lost(run(peer.call(&client, b"long"))).contains("over 67108864"));
    let question = Bytes::from(vec![0; MESSAGE_BYTES_MAX + 1]);
    let reason = unreachable(run(client.call(&peer.address, question, LONG)));
    assert!(reason.contains("over 67108864"), "{reason}");
    assert_eq!(peer.handler.asked(), 1);
}

#[test]
fn a_node_that_cannot_be_reached_was_not_asked() {
    let client = client();
    let free = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().to_string();
    // Many at once: each waits for the same connection, and none gets it.
    let calls = (0..100).map(|_| client.call(&free, Bytes::from_static(b"x"), LONG));
    for result in run(join_all(calls)) {
        let reason = unreachable(result);
        assert!(reason.contains("refused"), "{reason}");
    }
    for address in ["nonsense", "127.0.0.1", "with space:1", "", "host.invalid:9300"] {
        unreachable(run(client.call(address, Bytes::new(), LONG)));
    }
}

#[test]
fn a_question_whose_time_is_over_before_it_leaves_stays_here() {
    let client = client();
    // A port whose queue is full: the system answers no more attempts to connect.
    let any = SocketAddr::from(([127, 0, 0, 4], 0));
    let tcp = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let full = tcp();
    full.bind(&any.into()).unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap();
    let queued = [(); 4].map(|()| tcp());
    for socket in &queued {
        socket.set_nonblocking(true).unwrap();
        let _ = socket.connect(&address);
    }
    let address = address.as_socket().unwrap().to_string();
    let ask = |timeout| run(client.call(&address, Bytes::from_static(b"x"), timeout));
    let reason = unreachable(ask(Duration::from_millis(100)));
    assert!(reason.contains("no connection within 100ms"), "{reason}");
    let reason = unreachable(ask(LONG));
    assert!(reason.contains(&format!("no connection to {address} within 1s")), "{reason}");
}

#[test]
fn only_those_with_the_secret_are_let_in() {
    let peer = Peer::start("127.0.0.1:0", Some("ein Geheimnis"));
    let long = Bytes::from(vec![0; 20 << 20]);
    for secret in [None, Some("another"), Some("ein Geheimnis "), Some("ein Geheimni")] {
        let client = Client::start("a node", secret, None).unwrap();
        for question in [Bytes::from_static(b"x"), long.clone()] {
            let reason = unreachable(run(client.call(&peer.address, question, LONG)));
            assert!(reason.contains("rpc.secret"), "{reason}");
            assert!(!reason.contains("Geheim"), "{reason}");
        }
    }
    assert_eq!(peer.handler.asked(), 0);
    let client = Client::start("a node", Some("ein Geheimnis"), None).unwrap();
    assert_eq!(run(peer.call(&client, b"x")).unwrap(), "x");
    // Who wants none is not bothered by one.
    assert_eq!(run(Peer::any().call(&client, b"x")).unwrap(), "x");
}

#[test]
fn a_deadline_ends_the_call_on_both_sides() {
    let (peer, client) = (Peer::any(), client());
    let short = Duration::from_secs(2);
    run(async {
        // Without an earlier call, the time might pass before the question leaves.
        peer.call(&client, b"x").await.unwrap();
        let call = client.call(&peer.address, Bytes::from_static(b"never"), short);
        assert_eq!(call.await, Err(CallError::TimedOut));
        peer.handler.until_waiting(0).await;
        assert_eq!(peer.handler.asked(), 2);
        let endless = client.call(&peer.address, Bytes::from_static(b"x"), Duration::MAX).await;
        assert_eq!(endless.unwrap(), "x");
    });
}

#[test]
fn dropped_calls_end_on_the_other_side_and_no_other_does() {
    /// Few enough to be under way together, and far more than a server takes for an attack if
    /// it is not told otherwise.
    const COUNT: usize = 900;
    let (peer, client) = (Peer::any(), client());
    run(async {
        let bystander = peer.call(&client, b"later");
        for _ in 0..3 {
            let calls: Vec<Call> = (0..COUNT).map(|_| peer.call(&client, b"never")).collect();
            peer.handler.until_waiting(COUNT + 1).await;
            drop(calls);
            peer.handler.until_waiting(1).await;
            // Some of these are dropped before they are anywhere.
            drop((0..5 * COUNT).map(|_| peer.call(&client, b"never")).collect::<Vec<Call>>());
            assert_eq!(peer.call(&client, b"x").await.unwrap(), "x");
            peer.handler.until_waiting(1).await;
        }
        peer.handler.released.send_replace(true);
        assert_eq!(bystander.await.unwrap(), "later");
    });
}

#[test]
fn a_thousand_calls_from_many_threads_are_under_way_at_once() {
    let (peer, client) = (Peer::any(), client());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let answers = run(join_all((0..250).map(|_| peer.call(&client, b"later"))));
                answers.into_iter().for_each(|answer| assert_eq!(answer.unwrap(), "later"));
            });
        }
        run(peer.handler.until_waiting(1000));
        peer.handler.released.send_replace(true);
    });
    assert_eq!(peer.handler.asked(), 1000);
}

#[test]
fn more_questions_than_a_node_has_room_for_are_refused_undone() {
    let peer = Peer::any();
    let clients: Vec<Client> = (0..5).map(|_| client()).collect();
    let (sender, mut refused) = watch::channel(0);
    let calls = clients.iter().flat_map(|client| {
        (0..1000).map(|_| {
            let (call, sender) = (peer.call(client, b"later"), sender.clone());
            async move {
                let result = call.await;
                if result.is_err() {
                    sender.send_modify(|count| *count += 1);
                }
                result
            }
        })
    });
    let (results, ()) = run(async {
        tokio::join!(join_all(calls), async {
            refused.wait_for(|count| *count == 5000 - 4096).await.unwrap();
            peer.handler.until_waiting(4096).await;
            peer.handler.released.send_replace(true);
        })
    });
    for refusal in results.into_iter().filter(Result::is_err) {
        assert!(unreachable(refusal).contains("too many questions"));
    }
    assert_eq!(peer.handler.asked(), 4096);
}

#[test]
fn a_node_that_comes_back_on_its_port_is_found_again() {
    // An address of its own: nobody takes the port in between.
    let (first, client) = (Peer::start("127.0.0.3:0", None), client());
    let Peer { server, address, .. } = first;
    let ask = || client.call(&address, Bytes::from_static(b"x"), LONG);
    assert_eq!(run(ask()).unwrap(), "x");
    server.stop(LONG);
    loop {
        match run(ask()) {
            Err(CallError::Unreachable(reason)) if reason.contains("refused") => break,
            // The word that the old connection has ended may still be on its way.
            Err(_) => {}
            Ok(_) => panic!("nobody is there"),
        }
    }
    let again = Peer::start(&address, None);
    run(async {
        // What was found a moment ago holds for another moment.
        while let Err(error) = ask().await {
            assert!(matches!(error, CallError::Unreachable(_)), "{error:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert_eq!(again.handler.asked(), 1);
}

#[test]
fn the_first_question_after_a_restart_is_answered() {
    for _ in 0..20 {
        let (first, client) = (Peer::start("127.0.0.5:0", None), client());
        let Peer { server, address, .. } = first;
        let ask = || client.call(&address, Bytes::from_static(b"x"), LONG);
        assert_eq!(run(ask()).unwrap(), "x");
        server.stop(LONG);
        let again = Peer::start(&address, None);
        // On the connection that ended it cannot leave; it may be lost on it, if it did.
        match run(ask()) {
            Ok(answer) => assert_eq!(answer, "x"),
            Err(error) => assert!(matches!(error, CallError::Lost(_)), "{error:?}"),
        }
        assert!(again.handler.asked() <= 1, "nothing is asked twice");
    }
}

#[test]
fn a_node_that_stops_answers_what_it_was_asked() {
    let (peer, client) = (Peer::any(), client());
    let call = peer.call(&client, b"later");
    run(peer.handler.until_waiting(1));
    peer.server.drain();
    // Asked too late, whether it still came through or not; then also that it stops.
    while run(peer.call(&client, b"x")).is_ok() {}
    peer.handler.released.send_replace(true);
    assert_eq!(run(call).unwrap(), "later");
    peer.server.stop(LONG);
}

#[test]
fn what_is_cut_off_is_lost() {
    let (peer, client) = (Peer::any(), client());
    lost(run(peer.call(&client, b"panic")));
    let call = peer.call(&client, b"never");
    run(peer.handler.until_waiting(1));
    let handler = Arc::clone(&peer.handler);
    peer.server.stop(Duration::from_millis(10));
    lost(run(call));
    run(handler.until_waiting(0));
}

#[test]
fn a_frozen_node_is_noticed_long_before_the_deadline() {
    let client = client();
    // The system takes the connection in; nobody ever looks at it.
    let frozen = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = frozen.local_addr().unwrap();
    let call = client.call(&address.to_string(), Bytes::from_static(b"x"), LONG);
    let reason = lost(run(call));
    assert!(reason.contains("timed out"), "{reason}");
}
