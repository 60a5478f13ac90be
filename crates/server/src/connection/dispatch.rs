//! Commands in order: those on rows gather until something else comes, then run together; the
//! server's own run one by one; between MULTI and EXEC all are queued.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_cluster::{ReadLevel, Request};
use plimsoll_memory::breakers::{is_parent_full, parent_trip};
use plimsoll_storage::{
    Argv, ErrorKind, ErrorReply, Reply,
    command::{
        args::parse_integer,
        spec::{Access, unknown_command, wrong_arity},
    },
};

use tracing::{Instrument as _, field};

use super::{
    Connection, End, OUTPUT_BYTES_HIGH, permission,
    state::{Queued, Replies, no_auth},
};
use crate::{
    commands::{self, Entry, Own, Runs},
    handlers,
    metrics::Class,
    resp::Pieces,
    security::{audit::What, changes::ChangeError},
    spans::numbered,
};

/// How many row commands may run together at first, at least and at most. Their replies are in
/// memory at once, so the number follows the size of recent replies.
pub(super) const RUN_COMMANDS_FIRST: usize = 64;
const RUN_COMMANDS_MIN: usize = 16;
const RUN_COMMANDS_MAX: usize = 1024;
/// What the replies of one run should take together.
const RUN_REPLY_BYTES: usize = 4 * 1024 * 1024;

/// What PLIMSOLL.READS calls them.
const READ_LEVELS: [(&str, ReadLevel); 3] = [
    ("strong", ReadLevel::Strong),
    ("session", ReadLevel::Session),
    ("eventual", ReadLevel::Eventual),
];
/// The longest DEBUG SLEEP.
const SLEEP_MAX: Duration = Duration::from_secs(600);

impl Connection {
    /// Takes one command; its reply, and that of all before it, will follow in order.
    pub(super) async fn dispatch(&mut self, argv: Argv) -> Result<(), End> {
        if argv.is_empty() {
            self.run_rows().await?;
            let refusal = self.decoder.refusal();
            let refusal = refusal.unwrap_or_else(|| ErrorReply::err("the command is too large"));
            self.state.refuse(None, refusal);
            return Ok(());
        }
        let Some(entry) = commands::find(argv.name()) else {
            self.run_rows().await?;
            self.refuse_unknown(&argv);
            return Ok(());
        };
        self.last_command = Some(entry.index);
        if !self.state.is_authenticated() && !entry.is_open_to_all() {
            let error = match entry.spec.check(&argv) {
                Ok(_) => no_auth(),
                Err(error) => error,
            };
            self.state.refuse(Some(entry), error);
            return Ok(());
        }
        if let Some(principal) = &self.state.principal
            && !permission::is_all(principal)
            && !entry.is_open_to_all()
            && entry.spec.check(&argv).is_ok()
            && let Err(error) = permission::check(principal, entry, &argv, self.state.db)
        {
            let name = entry.spec.name.to_owned();
            self.state.note(What::Denied, &principal.named(), name, error.message.to_string());
            self.run_rows().await?;
            self.state.refuse(Some(entry), error);
            return Ok(());
        }
        if entry.spec.grows && is_parent_full(argv.bytes_len()) {
            self.run_rows().await?;
            let comes = tokio::select! {
                biased;
                () = self.state.client.killed() => return Err(End::Killed),
                comes = self.room.comes(argv.bytes_len()) => comes,
            };
            if !comes {
                let trip = parent_trip(entry.spec.name).to_string();
                let error = ErrorReply::new(ErrorKind::OutOfMemory, trip);
                self.state.refuse(Some(entry), error);
                return Ok(());
            }
        }
        if self.state.shared.clients.may_be_paused() {
            self.pass_pause(entry).await?;
        }
        if entry.runs == Runs::Rows && !self.state.transaction.is_open() {
            let argv = self.in_own_database(entry, argv);
            self.requests.push(Request::Command(argv));
            self.entries.push(entry);
            if self.requests.len() >= self.run_max {
                self.run_rows().await?;
            }
            return Ok(());
        }
        self.run_rows().await?;
        if let Err(error) = entry.spec.check(&argv) {
            self.state.refuse(Some(entry), error);
            return Ok(());
        }
        if self.state.transaction.is_open() && !entry.is_never_queued() {
            self.queue(entry, argv);
            return Ok(());
        }
        let Runs::Here(own) = entry.runs else { return Ok(()) };
        let began = Instant::now();
        let reply = self.run_own(own, &argv).await.unwrap_or_else(Reply::Error);
        self.note_change(own, &argv, &reply);
        self.ran(entry, began.elapsed(), &reply);
        let class = if own == Own::Exec { Class::Transaction } else { Class::Connection };
        self.state.shared.metrics.took(class, began.elapsed());
        self.answer(reply).await?;
        Ok(())
    }

    /// Waits where CLIENT PAUSE says so; commands before this one are answered first.
    async fn pass_pause(&mut self, entry: &Entry) -> Result<(), End> {
        let is_own = |own| entry.runs == Runs::Here(own);
        if is_own(Own::Client) || (self.state.transaction.is_open() && !is_own(Own::Exec)) {
            return Ok(());
        }
        let writes = entry.spec.access == Access::Write
            || is_own(Own::Flushall)
            || (is_own(Own::Exec)
                && self
                    .state
                    .transaction
                    .is_any(|queued| queued.entry.spec.access == Access::Write));
        self.run_rows().await?;
        self.flush().await?;
        tokio::select! {
            () = self.state.shared.clients.pass_pause(writes) => Ok(()),
            () = self.state.client.killed() => Err(End::Killed),
        }
    }

    /// A COPY to the database that is selected is one without it.
    fn in_own_database(&self, entry: &Entry, argv: Argv) -> Argv {
        if entry.spec.name != "copy" || argv.len() < 5 {
            return argv;
        }
        let args: Vec<&[u8]> = argv.iter().collect();
        let is_own = |pair: &[&[u8]]| {
            pair[0].eq_ignore_ascii_case(b"DB")
                && parse_integer(pair[1]) == Some(i64::from(self.state.db))
        };
        match args[3..].windows(2).position(is_own) {
            Some(at) => Argv::of(&[&args[..3 + at], &args[5 + at..]].concat()),
            None => argv,
        }
    }

    /// Runs the row commands that gathered.
    pub(super) async fn run_rows(&mut self) -> Result<(), End> {
        if self.requests.is_empty() {
            return Ok(());
        }
        let requests = std::mem::take(&mut self.requests);
        let mut replies = std::mem::take(&mut self.row_replies);
        let (mut done, mut reply_bytes_max) = (0, 1);
        while done < requests.len() {
            let began = Instant::now();
            let coordinator = &self.state.shared.coordinator;
            let rest = &requests[done..];
            let (command, commands) = (self.entries[done].spec.name, rest.len());
            let span = numbered(tracing::debug_span!("resp", id = field::Empty, command, commands));
            {
                let mut executed =
                    pin!(coordinator.execute(&mut self.session, self.state.db, rest, &mut replies));
                // By its address: it is large, and moving it costs more than a read.
                executed.as_mut().instrument(span.clone()).await;
            }
            span.in_scope(|| tracing::debug!(replies = replies.len(), "answered"));
            assert!((1..=rest.len()).contains(&replies.len()), "one reply for each request");
            self.count_run(&self.entries[done..done + replies.len()], &replies, began.elapsed());
            done += replies.len();
            for reply in replies.drain(..) {
                reply_bytes_max = reply_bytes_max.max(self.answer(reply).await?);
            }
            // Large answers are given back before more is read.
            if self.session.answers_held().0 {
                self.flush().await?;
                self.session.answers_written();
            }
        }
        self.row_replies = replies;
        self.requests = requests;
        self.requests.clear();
        self.entries.clear();
        self.run_max = (RUN_REPLY_BYTES / reply_bytes_max)
            .min(self.run_max * 2)
            .clamp(RUN_COMMANDS_MIN, RUN_COMMANDS_MAX);
        Ok(())
    }

    /// Puts a reply behind those that wait, and writes what waits whenever it is much: says how many
    /// bytes the reply took.
    async fn answer(&mut self, reply: Reply) -> Result<usize, End> {
        let mut before = self.state.output.len();
        let mut written = 0;
        let may_be_long = match &reply {
            Reply::Array(_) | Reply::Set(_) | Reply::Map(_) => true,
            Reply::Bulk(value) => value.len() >= OUTPUT_BYTES_HIGH,
            _ => false,
        };
        if self.state.replies == Replies::On && may_be_long {
            let mut pieces = Pieces::new(self.state.protocol, reply);
            while pieces.write(&mut self.state.output, OUTPUT_BYTES_HIGH) {
                written += self.state.output.len().saturating_sub(before);
                self.flush().await?;
                before = 0;
            }
        } else {
            self.state.answer(&reply);
        }
        written += self.state.output.len() - before;
        if self.state.output.len() >= OUTPUT_BYTES_HIGH {
            self.flush().await?;
        }
        Ok(written)
    }

    /// Counts the commands of a run: equal ones next to each other at once.
    fn count_run(&self, entries: &[&'static Entry], replies: &[Reply], took: Duration) {
        let usage = &self.state.shared.usage;
        let each = took / u32::try_from(entries.len()).unwrap_or(u32::MAX);
        for same in entries.chunk_by(|a, b| a.index == b.index) {
            let calls = u32::try_from(same.len()).unwrap_or(u32::MAX);
            usage.ran(same[0].index, u64::from(calls), each * calls);
        }
        for (entry, reply) in entries.iter().zip(replies) {
            if let Reply::Error(error) = reply {
                usage.failed(entry.index, error);
            }
        }
        let writes = entries.iter().any(|entry| entry.spec.access == Access::Write);
        let class = if writes { Class::Write } else { Class::Read };
        self.state.shared.metrics.took(class, took);
    }

    /// Notes what operators do, and not what they set it to.
    fn note_change(&self, own: Own, argv: &Argv, reply: &Reply) {
        if !is_of_operator(own, argv) {
            return;
        }
        let user = self.state.principal.as_ref().map_or("", |it| &it.name);
        let named = (0..argv.len().min(3)).filter_map(|at| argv.get(at));
        let request: Vec<_> = named.map(String::from_utf8_lossy).collect();
        let (what, outcome) = match reply {
            Reply::Error(_) => (What::NotChanged, "refused"),
            _ => (What::Changed, "done"),
        };
        self.state.note(what, user, request.join(" "), outcome.to_owned());
    }

    fn ran(&self, entry: &Entry, took: Duration, reply: &Reply) {
        self.state.shared.usage.ran(entry.index, 1, took);
        if let Reply::Error(error) = reply {
            self.state.shared.usage.failed(entry.index, error);
        }
    }

    fn refuse_unknown(&mut self, argv: &Argv) {
        // A browser that was tricked into talking to us sends these words; Redis hangs up too.
        if [&b"post"[..], b"host:"].iter().any(|word| argv.name().eq_ignore_ascii_case(word)) {
            tracing::warn!(
                client = self.state.client.id,
                remote = %self.state.client.remote,
                "HTTP arrived where Redis clients connect; connection closed"
            );
            self.state.is_closing = true;
            return;
        }
        self.state.refuse(None, unknown_command(argv));
    }

    fn queue(&mut self, entry: &'static Entry, argv: Argv) {
        let argv = self.in_own_database(entry, argv);
        let bytes = argv.bytes_len();
        let outcome = if entry.is_refused_in_transaction() {
            Err(ErrorReply::err("Command not allowed inside a transaction"))
        } else if let Err(error) = self.held.resize(self.held.bytes() + bytes) {
            Err(ErrorReply::new(ErrorKind::OutOfMemory, error.reason))
        } else {
            self.state.transaction.queue(Queued { entry, argv }, bytes)
        };
        match outcome {
            Ok(()) => self.state.answer(&Reply::Status("QUEUED")),
            Err(error) => self.state.refuse(Some(entry), error),
        }
    }

    async fn run_own(&mut self, own: Own, argv: &Argv) -> Result<Reply, ErrorReply> {
        if is_of_operator(own, argv) && own != Own::Config {
            self.state.confirm(argv).await?;
        }
        match own {
            Own::Config => self.configure(argv).await,
            Own::Auth | Own::Hello => {
                let client = Arc::clone(&self.state.client);
                let logging_in = async {
                    match own {
                        Own::Auth => handlers::hello::auth(&mut self.state, argv).await,
                        _ => handlers::hello::hello(&mut self.state, argv).await,
                    }
                };
                // A stranger that has to give way does not wait for its turn first.
                tokio::select! {
                    biased;
                    () = client.killed() => Err(ErrorReply::err("the connection has to end")),
                    reply = logging_in => reply,
                }
            }
            Own::Acl => handlers::acl::run(&mut self.state, argv).await,
            Own::Multi => self.state.transaction.open().map(|()| Reply::OK),
            Own::Exec => self.exec().await,
            Own::Watch => self.watch(argv).await,
            // As of a replica in a cluster of Redis: reads may be of an earlier state.
            Own::Readonly => {
                self.session.set_read_level(ReadLevel::Eventual);
                Ok(Reply::OK)
            }
            Own::Readwrite => {
                self.session.set_read_level(ReadLevel::Strong);
                Ok(Reply::OK)
            }
            Own::Reads => self.reads(argv),
            Own::Reset => {
                self.session.set_read_level(ReadLevel::Strong);
                handlers::run(&mut self.state, own, argv)
            }
            Own::Flushall => {
                handlers::server::check_flush_mode(argv)?;
                Ok(self.state.shared.coordinator.flush_all(&mut self.session).await)
            }
            Own::Save => {
                self.state.shared.coordinator.sync().await?;
                Ok(Reply::OK)
            }
            Own::Debug => {
                let pause = handlers::server::debug_sleep(argv)?;
                tokio::time::sleep(pause.min(SLEEP_MAX)).await;
                Ok(Reply::OK)
            }
            _ => handlers::run(&mut self.state, own, argv),
        }
    }

    /// CONFIG. A password is set last, by whoever is there still then.
    async fn configure(&mut self, argv: &Argv) -> Result<Reply, ErrorReply> {
        let shared = Arc::clone(&self.state.shared);
        if !is_of_operator(Own::Config, argv) {
            return handlers::run(&mut self.state, Own::Config, argv);
        }
        if !argv.iter().skip(2).any(|word| word.eq_ignore_ascii_case(b"requirepass")) {
            self.state.confirm(argv).await?;
            return handlers::run(&mut self.state, Own::Config, argv);
        }
        let _alone = shared.security.changing_alone().await;
        // Not before: that took a while.
        self.state.confirm(argv).await?;
        let reply = handlers::run(&mut self.state, Own::Config, argv)
            .inspect_err(|_| shared.security.forget_own_password())?;
        let by = Arc::clone(self.state.known()?);
        let set = shared.security.set_own_password(&by).await.map_err(|error| match error {
            ChangeError::LastAdministrator => handlers::config::failed("requirepass", &error),
            _ => handlers::acl::failed(&error),
        })?;
        if set && let Some(by) = shared.security.by_own_password(&by) {
            self.state.become_whom(Some(by));
        }
        Ok(reply)
    }

    /// PLIMSOLL.READS: says or sets how fresh the connection's reads are.
    fn reads(&mut self, argv: &Argv) -> Result<Reply, ErrorReply> {
        if argv.len() > 2 {
            return Err(wrong_arity("plimsoll.reads"));
        }
        let Some(word) = argv.get(1) else {
            let level = self.session.read_level();
            let name = READ_LEVELS.iter().find(|(_, it)| *it == level).map_or("", |(name, _)| name);
            return Ok(Reply::bulk(name));
        };
        let named = |(name, _): &&(&str, ReadLevel)| word.eq_ignore_ascii_case(name.as_bytes());
        let (_, level) = READ_LEVELS
            .iter()
            .find(named)
            .ok_or_else(|| ErrorReply::err("reads are STRONG, SESSION or EVENTUAL"))?;
        self.session.set_read_level(*level);
        Ok(Reply::OK)
    }

    async fn watch(&mut self, argv: &Argv) -> Result<Reply, ErrorReply> {
        self.state.transaction.may_watch()?;
        for key in (1..argv.len()).filter_map(|at| argv.get_bytes(at)) {
            if !self.state.transaction.is_watched(self.state.db, &key) {
                // Its own copy: a watched key must not hold the bytes of a whole batch.
                let key = bytes::Bytes::copy_from_slice(&key);
                let watched = self.state.shared.coordinator.watch(self.state.db, key).await?;
                self.state.transaction.watch(watched)?;
            }
        }
        Ok(Reply::OK)
    }

    /// EXEC. Row commands run as one; the server's own, which touch no rows, run after them, and
    /// each reply stands where its command stood.
    async fn exec(&mut self) -> Result<Reply, ErrorReply> {
        let (watched, queue) = self.state.transaction.exec()?;
        for Queued { entry, argv } in &queue {
            if matches!(entry.runs, Runs::Here(own) if is_of_operator(own, argv)) {
                self.state.confirm(argv).await?;
            }
        }
        let began = Instant::now();
        let commands: Vec<Argv> = queue
            .iter()
            .filter(|queued| queued.entry.runs == Runs::Rows)
            .map(|queued| queued.argv.clone())
            .collect();
        let rows = if commands.is_empty() && watched.is_empty() {
            Vec::new()
        } else {
            let request = [Request::Transaction { watched, commands }];
            let mut replies = Vec::with_capacity(1);
            let coordinator = &self.state.shared.coordinator;
            coordinator.execute(&mut self.session, self.state.db, &request, &mut replies).await;
            match replies.pop() {
                Some(Reply::Array(rows)) => rows,
                Some(other) => return Ok(other),
                None => unreachable!("one reply for each request"),
            }
        };
        let each = began.elapsed() / u32::try_from(rows.len().max(1)).unwrap_or(u32::MAX);
        let mut rows = rows.into_iter();
        let mut replies = Vec::with_capacity(queue.len());
        for Queued { entry, argv } in queue {
            let (reply, took) = match entry.runs {
                Runs::Rows => (rows.next().expect("one reply for each queued command"), each),
                Runs::Here(own) => {
                    let reply = match is_of_operator(own, &argv) {
                        // Confirmed once more: the rows took a while.
                        true => self.configure(&argv).await,
                        false => handlers::run(&mut self.state, own, &argv),
                    };
                    let reply = reply.unwrap_or_else(Reply::Error);
                    self.note_change(own, &argv, &reply);
                    (reply, Duration::ZERO)
                }
            };
            self.ran(entry, took, &reply);
            replies.push(reply);
        }
        Ok(Reply::Array(replies))
    }
}

/// Whether a command is what operators do: to users, to settings, to all databases.
fn is_of_operator(own: Own, argv: &Argv) -> bool {
    match own {
        Own::Flushall => true,
        Own::Acl => handlers::acl::is_change(argv),
        Own::Config => argv.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"set")),
        _ => false,
    }
}
