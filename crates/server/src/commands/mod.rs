//! Every command by its name: those on rows, which go to the coordinator, and the server's own.
//! It says who runs a command, not what it does.

use std::sync::LazyLock;

use plimsoll_storage::command::{
    spec::{Group, KeyRange, Spec},
    table,
};

/// The server's own commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are Redis' commands, by their names")]
pub enum Own {
    Ping,
    Echo,
    Hello,
    Auth,
    Select,
    Quit,
    Reset,
    Client,
    Command,
    Config,
    Info,
    Time,
    Wait,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Readonly,
    Readwrite,
    Reads,
    Flushall,
    Save,
    Bgsave,
    Lastsave,
    Debug,
    Slowlog,
    Latency,
    Cluster,
    Acl,
}

/// Who runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// The coordinator, on rows.
    Rows,
    /// The server itself.
    Here(Own),
}

/// A command that exists.
#[derive(Debug)]
pub struct Entry {
    /// What is known of it by its name.
    pub spec: &'static Spec,
    /// Who runs it.
    pub runs: Runs,
    /// Its position among [`all`].
    pub index: usize,
}

impl Entry {
    /// Whether it may come before authentication.
    #[must_use]
    pub fn is_open_to_all(&self) -> bool {
        matches!(self.runs, Runs::Here(Own::Auth | Own::Hello | Own::Quit | Own::Reset))
    }

    /// Whether it takes effect at once inside a transaction.
    #[must_use]
    pub fn is_never_queued(&self) -> bool {
        matches!(
            self.runs,
            Runs::Here(Own::Multi | Own::Exec | Own::Discard | Own::Watch | Own::Quit | Own::Reset)
        )
    }

    /// Whether it is refused inside a transaction: it changes which rows the others mean, how
    /// they are answered, or all databases at once.
    #[must_use]
    pub fn is_refused_in_transaction(&self) -> bool {
        matches!(
            self.runs,
            Runs::Here(
                Own::Select
                    | Own::Hello
                    | Own::Auth
                    | Own::Acl
                    | Own::Flushall
                    | Own::Debug
                    | Own::Save
            )
        )
    }
}

const fn here(name: &'static str, arity: i32, group: Group) -> Spec {
    Spec::new(name, arity, group)
}

const fn connection(name: &'static str, arity: i32) -> Spec {
    here(name, arity, Group::Connection).fast()
}

const fn server(name: &'static str, arity: i32) -> Spec {
    here(name, arity, Group::Server)
}

const fn transaction(name: &'static str, arity: i32) -> Spec {
    here(name, arity, Group::Transactions).fast()
}

/// The subcommands of each; the first argument after the name chooses.
const CLIENT: &[Spec] = &[
    connection("client|id", 2),
    connection("client|getname", 2),
    connection("client|setname", 3),
    connection("client|setinfo", 4),
    connection("client|info", 2),
    connection("client|list", -2).dangerous(),
    connection("client|kill", -3).dangerous(),
    connection("client|no-evict", 3),
    connection("client|reply", 3),
    connection("client|pause", -3).dangerous(),
    connection("client|unpause", 2).dangerous(),
    connection("client|help", 2),
];
const COMMAND: &[Spec] = &[
    server("command|count", 2),
    server("command|info", -2),
    server("command|docs", -2),
    server("command|list", -2),
    server("command|getkeys", -3),
    server("command|help", 2),
];
const CONFIG: &[Spec] = &[
    server("config|get", -3).dangerous(),
    server("config|set", -4).dangerous(),
    server("config|resetstat", 2).dangerous(),
    server("config|rewrite", 2).dangerous(),
    server("config|help", 2),
];
const SLOWLOG: &[Spec] = &[
    server("slowlog|get", -2).dangerous(),
    server("slowlog|len", 2).dangerous(),
    server("slowlog|reset", 2).dangerous(),
    server("slowlog|help", 2),
];
const LATENCY: &[Spec] = &[
    server("latency|latest", 2).dangerous(),
    server("latency|history", 3).dangerous(),
    server("latency|reset", -2).dangerous(),
    server("latency|help", 2),
];
const ACL: &[Spec] = &[
    server("acl|list", 2).dangerous(),
    server("acl|users", 2).dangerous(),
    server("acl|getuser", 3).dangerous(),
    server("acl|setuser", -3).dangerous(),
    server("acl|deluser", -3).dangerous(),
    server("acl|whoami", 2),
    server("acl|cat", -2),
    server("acl|log", -2).dangerous(),
    server("acl|dryrun", -4).dangerous(),
    server("acl|genpass", -2),
    server("acl|load", 2).dangerous(),
    server("acl|save", 2).dangerous(),
    server("acl|help", 2),
];

/// The server's own.
static OWN: [(Spec, Own); 30] = [
    (connection("ping", -1), Own::Ping),
    (transaction("multi", 1), Own::Multi),
    (transaction("exec", 1), Own::Exec),
    (transaction("watch", -2).keys(KeyRange::ALL), Own::Watch),
    (transaction("unwatch", 1), Own::Unwatch),
    (transaction("discard", 1), Own::Discard),
    (connection("select", 2), Own::Select),
    (connection("echo", 2), Own::Echo),
    (connection("hello", -1), Own::Hello),
    (connection("auth", -2), Own::Auth),
    (connection("quit", -1), Own::Quit),
    (connection("reset", 1), Own::Reset),
    (connection("readonly", 1), Own::Readonly),
    (connection("readwrite", 1), Own::Readwrite),
    (connection("plimsoll.reads", -1), Own::Reads),
    (here("client", -2, Group::Connection).subcommands(CLIENT), Own::Client),
    (here("wait", 3, Group::Generic), Own::Wait),
    (server("info", -1).dangerous(), Own::Info),
    (server("time", 1).fast(), Own::Time),
    (server("command", -1).subcommands(COMMAND), Own::Command),
    (server("config", -2).subcommands(CONFIG), Own::Config),
    (server("flushall", -1).dangerous(), Own::Flushall),
    (server("save", 1).dangerous(), Own::Save),
    (server("bgsave", -1).dangerous(), Own::Bgsave),
    (server("lastsave", 1).fast().dangerous(), Own::Lastsave),
    (server("debug", -2).dangerous(), Own::Debug),
    (server("slowlog", -2).subcommands(SLOWLOG), Own::Slowlog),
    (server("latency", -2).subcommands(LATENCY), Own::Latency),
    (server("cluster", -2), Own::Cluster),
    (server("acl", -2).subcommands(ACL), Own::Acl),
];

/// Slots of the table of names, few enough of them taken that most names are found at once.
const SLOTS: usize = 1024;
/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 8 * NAME_WORDS;
const NAME_WORDS: usize = 3;

/// A name in lower case as numbers; zeros for none.
type Folded = [u64; NAME_WORDS];

struct Registry {
    entries: Vec<Entry>,
    /// From the hash of a name to its position in `entries`, open addressing.
    slots: Vec<(Folded, usize)>,
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let own = OWN.iter().map(|(spec, own)| (spec, Runs::Here(*own)));
    // FLUSHALL reaches every database, so it is the server's own, whatever rows make of it.
    let rows = table::SPECS.iter().filter(|spec| OWN.iter().all(|(own, _)| own.name != spec.name));
    let all = own.chain(rows.map(|spec| (spec, Runs::Rows)));
    let entries: Vec<Entry> =
        all.enumerate().map(|(index, (spec, runs))| Entry { spec, runs, index }).collect();
    let mut slots = vec![(NO_NAME, 0); SLOTS];
    for entry in &entries {
        let name = fold(entry.spec.name.as_bytes()).expect("names of commands are short");
        let mut slot = slot(name);
        while slots[slot].0 != NO_NAME {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = (name, entry.index);
    }
    Registry { entries, slots }
});

const NO_NAME: Folded = [0; NAME_WORDS];

/// A name in lower case as numbers; none where it is longer than any name.
fn fold(name: &[u8]) -> Option<Folded> {
    let mut padded = [0; NAME_BYTES_MAX];
    padded.get_mut(..name.len())?.copy_from_slice(name);
    padded.make_ascii_lowercase();
    let (words, _) = padded.as_chunks();
    let mut folded = NO_NAME;
    for (to, word) in folded.iter_mut().zip(words) {
        *to = u64::from_le_bytes(*word);
    }
    Some(folded)
}

/// Where the search for a name begins. Fibonacci hashing of its parts.
fn slot([first, second, third]: Folded) -> usize {
    let mixed = first ^ second.rotate_left(29) ^ third.rotate_left(43);
    let hash = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    usize::try_from(hash).expect("ten bits")
}

/// The command of this name, in any case.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Entry> {
    let registry = &*REGISTRY;
    let folded = fold(name).filter(|name| *name != NO_NAME)?;
    let mut slot = slot(folded);
    loop {
        match registry.slots[slot] {
            (NO_NAME, _) => return None,
            (found, index) if found == folded => {
                let entry = &registry.entries[index];
                // A name that ends in zero bytes folds like the one without them.
                return (entry.spec.name.len() == name.len()).then_some(entry);
            }
            _ => slot = (slot + 1) % SLOTS,
        }
    }
}

/// All commands, the server's own first.
#[must_use]
pub fn all() -> &'static [Entry] {
    &REGISTRY.entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for entry in all() {
            let name = entry.spec.name.to_ascii_uppercase();
            assert_eq!(find(name.as_bytes()).map(|found| found.index), Some(entry.index));
        }
        assert!(all().len() * 2 < SLOTS);
        for name in ["", "nope", "getx", "\0", "get\0", "a name that is longer than any"] {
            assert!(find(name.as_bytes()).is_none(), "{name:?}");
        }
    }

    #[test]
    fn flushall_is_the_servers_own() {
        assert_eq!(find(b"FLUSHALL").unwrap().runs, Runs::Here(Own::Flushall));
        assert_eq!(find(b"flushdb").unwrap().runs, Runs::Rows);
    }
}
