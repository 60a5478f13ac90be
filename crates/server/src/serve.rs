//! A node from its settings to its end: ports, rows, clients, the `ready` line, the drain.

use std::{
    io::{self, Write},
    net::SocketAddr,
    os::unix::process::CommandExt,
    sync::Arc,
    time::Duration,
};

use plimsoll_base::{Tasks, Time};
use plimsoll_cluster::{Coordinator, NoPeers, Node, OpenError, Peers};
use plimsoll_memory::breakers::tell_native;
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use zeroize::Zeroizing;

use crate::{
    accept::Acceptor,
    connection::Connection,
    data_folder,
    listen::{self, ListenError, Port},
    metrics::Metrics,
    node::{self, Shared},
    places::NoPlace,
    remote::{
        Remote,
        leader::OwnCluster,
        port::{self, Leader},
        relay::NodeAnswers,
    },
    rest::{Rest, browsers::takes_any_host, cluster, server::Server},
    rpc,
    security::{
        Security, SecurityOptions,
        audit::{Audit, What},
        keys::Keys,
        user::DEFAULT,
    },
    settings::{NodeTls, RemotePort, Settings},
    tls::{
        self, ClientFiles, Identity, Rules, ServerFiles,
        door::Door,
        member::Members,
        watched::{FileError, Watched},
    },
    workers::Workers,
};

/// How often the drain looks whether all connections are gone.
const DRAIN_PAUSE: Duration = Duration::from_millis(5);
/// How long a node runs at least before its process begins again.
const RUN_LEAST: Duration = Duration::from_secs(10);
/// Files of the audit that stay beside the one that is written.
const AUDIT_FILES: u32 = 4;
/// How long tasks that do not end keep the process.
const RUNTIME_PAUSE: Duration = Duration::from_secs(1);

/// Why a node does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A port.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The data.
    #[error("cannot open the node: {0}")]
    Open(#[from] OpenError),
    /// A file of a port's TLS.
    #[error("cannot open the port with TLS ({port}): {error}")]
    Tls {
        /// The setting of the port.
        port: &'static str,
        /// Which file, and why.
        error: FileError,
    },
    /// The operating system.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl ServeError {
    /// Whether the command line or the settings are at fault, rather than the machine.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Listen(ListenError::Exposed(_)) | Self::Tls { .. })
    }
}

/// Who may do what, as the cluster's metadata has it by now.
fn security(
    coordinator: &Arc<Coordinator>,
    settings: &mut Settings,
    processors: usize,
) -> Result<Security, ServeError> {
    let tasks = Tasks::of_the_machine();
    let options = SecurityOptions {
        password: settings.password.take().map(Zeroizing::new),
        enabled: settings.security_enabled,
        unheard_max: settings.security_unheard_max,
        draw: node::draw,
        tasks,
    };
    let store = Arc::<Coordinator>::clone(coordinator);
    let folder = settings.audit_enabled.then_some(settings.data.as_path());
    let audit = Audit::open(folder, settings.audit_bytes, AUDIT_FILES)?;
    Ok(Security::new(store, audit, options, processors).map_err(io::Error::other)?)
}

/// Runs a node until SIGTERM or SIGINT, then drains it. Where the log went on without the node, the
/// process drains it too and begins again by itself.
///
/// # Errors
/// Where it cannot start. Once it is ready, errors end connections, not the node.
pub fn serve(settings: Settings) -> Result<(), ServeError> {
    listen::check_exposure(&settings)?;
    if takes_any_host(&settings) {
        tracing::warn!(
            http = %settings.http,
            "node.insecure: whoever reaches the ports can read and change everything, web pages \
             included, and the Host of requests is not looked at"
        );
    }
    for exposed in &settings.exposed_secrets {
        tracing::warn!("{exposed}");
    }
    // Connections have threads of their own; here are only the ports and the signals.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(run(settings));
    runtime.shutdown_timeout(RUNTIME_PAUSE);
    match served {
        Ok(End::Stop) => Ok(()),
        Ok(End::OpenAnew(_)) => Err(begin_again().into()),
        Err(ServeError::Open(OpenError::Reopen(why))) => {
            tracing::warn!(why, "the node is opened anew");
            Err(begin_again().into())
        }
        Err(error) => Err(error),
    }
}

async fn run(mut settings: Settings) -> Result<End, ServeError> {
    let started = Instant::now();
    let time = Time::of_the_machine();
    data_folder::make(&settings.data)?;
    let _held = data_folder::hold(&settings.data)?;
    // Taken first: a busy port is known before a long replay, and nobody connects during it.
    let resp = Port::take(settings.resp, "resp.address")?;
    let http = Port::take(settings.http, "http.address")?;
    let rpc = settings.rpc.map(|address| Port::take(address, "rpc.address")).transpose()?;
    let rpc_address = rpc.as_ref().map(Port::address).transpose()?;
    let remote = settings.remote.as_ref().map(|it| RemoteDoor::take(it, &time)).transpose()?;
    let http_door = door("http.address", settings.http_tls.as_ref(), Rules::Http, &time)?;
    let resp_door = door("resp.address", settings.resp_tls.as_ref(), Rules::Resp, &time)?;
    let node_tls = settings.rpc_tls.clone();
    let node_tls = node_tls.map(|tls| NodeDoors::new(tls, &settings, &time)).transpose()?;
    let certificates: Arc<[_]> = [http_door.watched(), resp_door.watched()]
        .into_iter()
        .chain(node_tls.as_ref().map(|it| it.door.watched()))
        .chain(remote.as_ref().map(|it| Some(Arc::clone(&it.tls))))
        .flatten()
        .collect();
    let peers = peers(&settings, node_tls.as_ref())?;
    let record = node::record(
        &settings,
        rpc.as_ref().map(Port::address).transpose()?,
        http.address()?,
        resp.address()?,
        remote.as_ref().map(|it| it.published.clone()),
    );
    let node_settings = node::settings(&settings, record, Arc::clone(&peers));
    let drain_timeout = settings.drain_timeout;
    plimsoll_memory::watch::start();
    let processors = match settings.processors {
        // Clients' threads sleep little; apply and the log's syncs are not to wait for them.
        0 => (std::thread::available_parallelism()?.get() - 1).max(1),
        given => given,
    };
    // It blocks its thread between its waits.
    let runtime = tokio::runtime::Handle::current();
    let open = move || runtime.block_on(Node::open(&node_settings));
    let opened = tokio::task::spawn_blocking(open).await;
    let node = opened.map_err(io::Error::other)??;
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    let (resp, http, rpc) = (resp.listen()?, http.listen()?, rpc.map(Port::listen).transpose()?);
    let addresses = Addresses {
        resp: resp.local_addr()?,
        http: http.local_addr()?,
        rpc: rpc_address,
        remote: remote.as_ref().map(|it| it.address),
    };
    let port = addresses.resp.port();
    let secret = settings.rpc_secret.clone();
    let security = security(&node.coordinator(), &mut settings, processors)?;
    let shared = Arc::new(Shared::new(
        node.coordinator(),
        settings,
        security,
        port,
        Metrics::default(),
        &time,
    ));
    take_reset(&shared).await;
    let workers = Arc::new(Workers::start(processors)?);
    let known = Arc::new(Remote::new(node.leading()));
    let rest = Rest::new(Arc::clone(&shared), Arc::clone(&known), addresses.http);
    let rest = Arc::new(rest.await.map_err(io::Error::other)?);
    rest.tell_others();
    cluster::follow_settings(&rest);
    known.follow(&node, rest.identity.cluster_uuid.clone())?;
    let (coordinator, uuid) = (&shared.coordinator, rest.identity.cluster_uuid.clone());
    let name = shared.settings.cluster_name.clone();
    let own = OwnCluster::new(Arc::clone(coordinator), node.leading(), uuid, name);
    let leader: Arc<dyn Leader> = Arc::new(own);
    let rest = Server::start(http.into_std()?, rest, http_door, processors)?;
    let rpc = match rpc {
        Some(port) => {
            let (coordinator, keys) = (Arc::clone(coordinator), Arc::clone(&shared.security.keys));
            let answers = NodeAnswers::new(coordinator, keys, Arc::clone(&leader));
            let open = || Door::new("rpc.address", time, None);
            let door = node_tls.map_or_else(open, |it| it.door);
            let port = port.into_std()?;
            Some(rpc::Server::start(port, Arc::new(answers), secret.as_deref(), door)?)
        }
        None => None,
    };
    let remote = match remote {
        Some(door) => {
            Some(door.open(Arc::clone(&shared.security.keys), leader, Arc::clone(&peers))?)
        }
        None => None,
    };
    let tasks = [
        tokio::spawn(accept(resp, Arc::new(resp_door), Arc::clone(&shared), Arc::clone(&workers))),
        tokio::spawn(tick(Arc::clone(&shared), certificates)),
    ];
    if shared.security.is_open() {
        tracing::info!(
            "nobody has to log in: whoever reaches the ports may do everything (docs/secure.md)"
        );
    }
    if let Err(error) = say_ready(&shared, addresses) {
        // Whoever started the process may have gone.
        tracing::warn!(%error, "nobody reads that the node is ready");
    }

    let end = tokio::select! {
        _ = term.recv() => End::Stop,
        _ = interrupt.recv() => End::Stop,
        why = node.reopening() => End::OpenAnew(why),
    };
    let clients = shared.clients.count() + rest.connections();
    tracing::info!(?end, clients, "draining");
    rest.drain();
    if let Some(rpc) = &rpc {
        rpc.drain();
    }
    if let Some(remote) = &remote {
        remote.drain();
    }
    for task in &tasks {
        task.abort();
    }
    for task in tasks {
        // One that is still taking a connection in would let it miss the drain.
        let _ = task.await;
    }
    let drained_by = Instant::now() + drain_timeout;
    drain(&shared, &rest, drained_by).await;
    if let Some(rpc) = rpc {
        let left = drained_by.saturating_duration_since(Instant::now()).max(DRAIN_PAUSE);
        tokio::task::spawn_blocking(move || rpc.stop(left)).await.map_err(io::Error::other)?;
    }
    let left = drained_by.saturating_duration_since(Instant::now()).max(DRAIN_PAUSE);
    let ending = move || {
        known.stop();
        if let Some(remote) = remote {
            remote.stop(left);
        }
    };
    tokio::task::spawn_blocking(ending).await.map_err(io::Error::other)?;
    tokio::task::spawn_blocking(move || rest.stop(RUNTIME_PAUSE))
        .await
        .map_err(io::Error::other)?;
    // The accepting task has ended, so this is the last owner.
    if let Some(workers) = Arc::into_inner(workers) {
        tokio::task::spawn_blocking(move || workers.stop(RUNTIME_PAUSE))
            .await
            .map_err(io::Error::other)?;
    }
    let runtime = tokio::runtime::Handle::current();
    let close = move || runtime.block_on(node.close());
    tokio::task::spawn_blocking(close).await.map_err(io::Error::other)?;
    // Requests may need other nodes to the last.
    drop(peers);
    tracing::info!("stopped");
    if matches!(end, End::Stop) {
        return Ok(end);
    }
    // What made it fall behind lasts, it seems, where that was soon: others are not to be kept busy.
    let pause = if started.elapsed() < RUN_LEAST { RUN_LEAST } else { Duration::ZERO };
    tokio::select! {
        biased;
        // Also one that came while it was drained.
        _ = term.recv() => Ok(End::Stop),
        _ = interrupt.recv() => Ok(End::Stop),
        () = sleep(pause) => Ok(end),
    }
}

/// Why a node was drained.
#[derive(Debug)]
enum End {
    /// It was told to stop.
    Stop,
    /// While it stood still the log went on without it; says what it lacks.
    OpenAnew(#[allow(dead_code, reason = "it is logged")] String),
}

/// Has this process begin again as it was started: nothing of the old node is left in memory.
/// Returns only where that is not possible.
fn begin_again() -> io::Error {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    // The file that runs, also where another has taken its name.
    std::process::Command::new("/proc/self/exe").arg0(name).args(arguments).exec()
}

/// The way to other nodes, where there may be any.
fn peers(settings: &Settings, tls: Option<&NodeDoors>) -> io::Result<Arc<dyn Peers>> {
    Ok(match settings.rpc {
        Some(_) => {
            let secret = settings.rpc_secret.as_deref();
            let tls = tls.map(|it| it.way.clone());
            Arc::new(rpc::Client::start(&settings.node_name, secret, tls)?)
        }
        None => Arc::new(NoPeers),
    })
}

/// The door of a port that clients connect to.
fn door(
    port: &'static str,
    files: Option<&ServerFiles>,
    rules: Rules,
    time: &Time,
) -> Result<Door, ServeError> {
    let tls = files.map(|files| tls::server(port, files.clone(), rules, time).map(Arc::new));
    let tls = tls.transpose();
    Ok(Door::new(port, time.clone(), tls.map_err(|error| ServeError::Tls { port, error })?))
}

/// TLS between nodes, for both sides.
struct NodeDoors {
    door: Door,
    way: rpc::NodeWay,
}

impl NodeDoors {
    /// Reads the files.
    fn new(tls: NodeTls, settings: &Settings, time: &Time) -> Result<Self, ServeError> {
        const PORT: &str = "rpc.address";
        let failed = |error| ServeError::Tls { port: PORT, error };
        let members = Members::of(&settings.cluster_name, &settings.node_name);
        let NodeTls { is_optional, files } = tls;
        let client = ClientFiles {
            authorities: files.authorities.clone(),
            identity: Some(files.identity.clone()),
        };
        let server = tls::server(PORT, files, Rules::Nodes(members.clone()), time);
        let server = server.map_err(failed)?;
        let client = tls::node_client(client, members, time).map_err(failed)?;
        Ok(Self {
            door: Door::new(PORT, time.clone(), Some(Arc::new(server))).optional(is_optional),
            way: rpc::NodeWay { tls: Arc::new(client), is_optional },
        })
    }
}

/// The port for other clusters before it is open. Its files are read first: a node that could not open
/// it does not begin.
struct RemoteDoor {
    port: Port,
    address: SocketAddr,
    /// What other clusters are told of where it is.
    published: String,
    tls: Arc<Watched<ServerConfig>>,
}

impl RemoteDoor {
    fn take(settings: &RemotePort, time: &Time) -> Result<Self, ServeError> {
        let identity =
            Identity { certificate: settings.certificate.clone(), key: settings.key.clone() };
        let files = ServerFiles { identity, authorities: settings.authorities.clone() };
        let tls = tls::server("remote_cluster.port", files, Rules::Clusters, time);
        let port = "remote_cluster_server.enabled";
        let tls = Arc::new(tls.map_err(|error| ServeError::Tls { port, error })?);
        let port = Port::take(settings.address, "remote_cluster.port")?;
        let address = port.address()?;
        Ok(Self { port, address, published: settings.published(address), tls })
    }

    fn open(
        self,
        keys: Arc<Keys>,
        leader: Arc<dyn Leader>,
        peers: Arc<dyn Peers>,
    ) -> Result<port::Port, ServeError> {
        let listener = self.port.listen()?.into_std()?;
        Ok(port::Port::start(listener, self.tls, keys, leader, peers)?)
    }
}

/// Where the node listens.
struct Addresses {
    resp: SocketAddr,
    http: SocketAddr,
    /// Not open where there are no other nodes.
    rpc: Option<SocketAddr>,
    /// Not open where other clusters do not connect.
    remote: Option<SocketAddr>,
}

/// The one line on standard output: scripts wait for it.
fn say_ready(shared: &Shared, addresses: Addresses) -> io::Result<()> {
    let Addresses { resp, http, rpc, remote } = addresses;
    let settings = &shared.settings;
    let word = |name: &str, address: Option<SocketAddr>| {
        address.map(|address| format!(" {name}={address}")).unwrap_or_default()
    };
    let (rpc_word, remote_word) = (word("rpc", rpc), word("remote", remote));
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "ready node={} resp={resp} http={http}{rpc_word}{remote_word} data={} log={}",
        settings.node_name,
        settings.data.display(),
        settings.log.kind(),
    )?;
    out.flush()?;
    tracing::info!(
        node = settings.node_name,
        %resp,
        %http,
        rpc = rpc.map(tracing::field::display),
        remote = remote.map(tracing::field::display),
        data = %settings.data.display(),
        durability = ?settings.durability,
        open = shared.security.is_open(),
        rpc_secret = settings.rpc_secret.is_some(),
        "ready"
    );
    Ok(())
}

/// Takes connections in until it is aborted.
async fn accept(
    listener: TcpListener,
    door: Arc<Door>,
    shared: Arc<Shared>,
    workers: Arc<Workers>,
) {
    let acceptor = Acceptor::new(listener, "clients of RESP (resp.max_clients)", door.time());
    loop {
        let (stream, remote) = acceptor.next().await;
        let welcomed = welcome((stream, remote), &acceptor, &door, &shared, &workers);
        if let Err(error) = welcomed {
            tracing::debug!(%remote, %error, "connection lost before it began");
        }
    }
}

fn welcome(
    (stream, remote): (TcpStream, SocketAddr),
    acceptor: &Acceptor,
    door: &Arc<Door>,
    shared: &Arc<Shared>,
    workers: &Workers,
) -> io::Result<()> {
    let local = stream.local_addr()?;
    match shared.clients.add(remote, local) {
        Ok(client) => {
            let (owner, taken, door) = (Arc::clone(shared), Arc::clone(&client), Arc::clone(door));
            let serve = move |stream| async move {
                let passed = tokio::select! {
                    passed = door.pass(stream) => passed,
                    () = taken.killed() => None,
                };
                match passed {
                    Some(stream) => Connection::new(stream, owner, taken).serve().await,
                    None => owner.clients.remove(&taken),
                }
            };
            workers.serve(stream, serve).inspect_err(|_| shared.clients.remove(&client))?;
        }
        Err(why) => {
            acceptor.refuse(remote, &why);
            // The socket is new, so these few bytes fit; if not, the client sees the end alone, as it does
            // where it speaks TLS.
            if !door.is_tls() {
                let said: &[u8] = match why {
                    NoPlace::Full(_) => b"-ERR max number of clients reached\r\n",
                    NoPlace::Strangers(_) => {
                        b"-ERR too many connections from this address have not logged in\r\n"
                    }
                };
                stream.try_write(said)?;
            }
        }
    }
    Ok(())
}

/// Takes over a password that somebody left on this machine for the first user.
async fn take_reset(shared: &Shared) {
    match shared.security.take_reset(&shared.settings.data).await {
        Ok(false) => {}
        Ok(true) => {
            tracing::warn!("the user `default` has the password that was left in the data folder");
            let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
            let request = "plimsoll users reset".to_owned();
            shared.note(What::Changed, DEFAULT, nowhere, request, "done".to_owned());
        }
        Err(error) => tracing::warn!(%error, "a password in the data folder is not taken over"),
    }
}

/// What has to be done every second.
async fn tick(shared: Arc<Shared>, certificates: Arc<[Arc<Watched<ServerConfig>>]>) {
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut commands, mut at) = (shared.usage.total(), Instant::now());
    let tasks = Tasks::of_the_machine();
    let mut faults = 0;
    loop {
        second.tick().await;
        take_reset(&shared).await;
        shared.follow_users();
        // Whoever replaces files is told what came of it before somebody connects.
        let watched = Arc::clone(&certificates);
        let read = tasks.blocking(move || watched.iter().for_each(|it| drop(it.get())));
        if let Err(error) = read.await {
            tracing::error!(%error, "certificates are not looked at");
        }
        shared.metrics.run_upkeep();
        let store = shared.coordinator.statistics().store;
        tell_native((store.block_cache_bytes + store.write_buffer_bytes) as u64);
        let (total, now) = (shared.usage.total(), Instant::now());
        let millis = u64::try_from((now - at).as_millis()).unwrap_or(u64::MAX).max(1);
        shared.usage.set_per_second((total - commands).saturating_mul(1000) / millis);
        (commands, at) = (total, now);
        let found = shared.coordinator.faults();
        if found.len() > faults {
            tracing::error!(?found, "partitions have stopped");
        }
        faults = found.len();
    }
}

/// Ends all clients' connections once their requests are answered, as far as the time goes.
async fn drain(shared: &Shared, rest: &Server, end: Instant) {
    shared.drain();
    let open = || shared.clients.count() + rest.connections();
    while open() > 0 && Instant::now() < end {
        sleep(DRAIN_PAUSE).await;
    }
    let left = open();
    if left > 0 {
        tracing::warn!(left, "connections were cut off: node.drain_timeout is over");
    }
}
