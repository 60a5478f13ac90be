//! The commands on rows, and how one is found by its name.

use super::spec::Group::{Bitmap, Generic, Hash, Server, String};
use super::spec::{Group, KeyRange, Parse, Spec};
use super::{bitfield, read, write};

/// The cluster's version since which there are ranges of fields, checks of one field before others are
/// changed, and conditions on what a string is.
const SORT_KEYS_SINCE: u32 = 4;

const fn reads(name: &'static str, arity: i32, group: Group, parse: Parse) -> Spec {
    Spec::new(name, arity, group).keys(KeyRange::ONE).reads(parse)
}

const fn writes(name: &'static str, arity: i32, group: Group, parse: Parse) -> Spec {
    Spec::new(name, arity, group).keys(KeyRange::ONE).writes(parse)
}

/// Every command on rows.
pub const SPECS: &[Spec] = &[
    // Strings.
    reads("get", 2, String, read::strings::get).fast(),
    writes("set", -3, String, write::strings::set).grows().later(
        SORT_KEYS_SINCE,
        &["IFEQ", "IFNE", "IFDEQ", "IFDNE"],
        3,
    ),
    writes("setnx", 3, String, write::strings::setnx).grows().fast(),
    writes("setex", 4, String, write::strings::setex).grows(),
    writes("psetex", 4, String, write::strings::psetex).grows(),
    writes("getset", 3, String, write::strings::getset).grows().fast(),
    writes("getdel", 2, String, write::strings::getdel).fast(),
    writes("delex", -2, String, write::strings::delex).since(SORT_KEYS_SINCE),
    // Not fast, though Redis says so: it looks at every byte, and others of the thread would wait.
    reads("digest", 2, String, read::strings::digest).since(SORT_KEYS_SINCE),
    writes("getex", -2, String, write::strings::getex).fast(),
    reads("mget", -2, String, read::strings::mget).keys(KeyRange::ALL).fast(),
    writes("mset", -3, String, write::strings::mset).keys(KeyRange::PAIRS).grows(),
    writes("msetnx", -3, String, write::strings::msetnx).keys(KeyRange::PAIRS).grows(),
    writes("append", 3, String, write::strings::append).grows().fast(),
    reads("strlen", 2, String, read::strings::strlen).fast(),
    reads("getrange", 4, String, read::strings::getrange),
    reads("substr", 4, String, read::strings::getrange),
    writes("setrange", 4, String, write::strings::setrange).grows(),
    writes("incr", 2, String, write::strings::incr).grows().fast(),
    writes("incrby", 3, String, write::strings::incrby).grows().fast(),
    writes("decr", 2, String, write::strings::decr).grows().fast(),
    writes("decrby", 3, String, write::strings::decrby).grows().fast(),
    writes("incrbyfloat", 3, String, write::strings::incrbyfloat).grows().fast(),
    reads("lcs", -3, String, read::strings::lcs).keys(KeyRange::TWO),
    writes("setbit", 4, Bitmap, write::strings::setbit).grows(),
    reads("getbit", 3, Bitmap, read::strings::getbit).fast(),
    reads("bitcount", -2, Bitmap, read::strings::bitcount),
    reads("bitpos", -3, Bitmap, read::strings::bitpos),
    writes("bitop", -4, Bitmap, write::strings::bitop).keys(KeyRange::FROM_SECOND).grows().since(2),
    writes("bitfield", -2, Bitmap, bitfield::bitfield).grows().since(2),
    reads("bitfield_ro", -2, Bitmap, bitfield::bitfield_ro).fast(),
    // Hashes.
    writes("hset", -4, Hash, write::hashes::hset).grows().fast(),
    writes("hmset", -4, Hash, write::hashes::hmset).grows().fast(),
    reads("hget", 3, Hash, read::hashes::hget).fast(),
    reads("hmget", -3, Hash, read::hashes::hmget).fast(),
    reads("hgetall", 2, Hash, read::hashes::hgetall),
    writes("hdel", -3, Hash, write::hashes::hdel).fast(),
    reads("hlen", 2, Hash, read::hashes::hlen).fast(),
    reads("hexists", 3, Hash, read::hashes::hexists).fast(),
    reads("hkeys", 2, Hash, read::hashes::hkeys),
    reads("hvals", 2, Hash, read::hashes::hvals),
    writes("hsetnx", 4, Hash, write::hashes::hsetnx).grows().fast(),
    reads("hstrlen", 3, Hash, read::hashes::hstrlen).fast(),
    writes("hincrby", 4, Hash, write::hashes::hincrby).grows().fast(),
    writes("hincrbyfloat", 4, Hash, write::hashes::hincrbyfloat).grows().fast(),
    reads("hscan", -3, Hash, read::hashes::hscan),
    reads("hrandfield", -2, Hash, read::hashes::hrandfield),
    // Expiry of fields.
    writes("hexpire", -6, Hash, write::fields::hexpire).grows().fast(),
    writes("hpexpire", -6, Hash, write::fields::hpexpire).grows().fast(),
    writes("hexpireat", -6, Hash, write::fields::hexpireat).grows().fast(),
    writes("hpexpireat", -6, Hash, write::fields::hpexpireat).grows().fast(),
    reads("httl", -5, Hash, read::hashes::httl).fast(),
    reads("hpttl", -5, Hash, read::hashes::hpttl).fast(),
    reads("hexpiretime", -5, Hash, read::hashes::hexpiretime).fast(),
    reads("hpexpiretime", -5, Hash, read::hashes::hpexpiretime).fast(),
    writes("hpersist", -5, Hash, write::fields::hpersist).fast(),
    writes("hgetex", -5, Hash, write::fields::hgetex).fast(),
    writes("hsetex", -6, Hash, write::fields::hsetex).grows().fast(),
    writes("hgetdel", -5, Hash, write::fields::hgetdel).fast(),
    // Ranges and checks of fields, which Redis has not.
    reads("plimsoll.hrange", -4, Hash, read::hashes::hrange).since(SORT_KEYS_SINCE),
    writes("plimsoll.hremrange", -4, Hash, write::hashes::hremrange).since(SORT_KEYS_SINCE),
    writes("plimsoll.hcheckset", -6, Hash, write::hashes::hcheckset)
        .grows()
        .fast()
        .since(SORT_KEYS_SINCE),
    // Keys.
    writes("del", -2, Generic, write::keys::del).keys(KeyRange::ALL),
    writes("unlink", -2, Generic, write::keys::del).keys(KeyRange::ALL).fast(),
    reads("exists", -2, Generic, read::keys::exists).keys(KeyRange::ALL).fast(),
    reads("touch", -2, Generic, read::keys::exists).keys(KeyRange::ALL).fast(),
    reads("type", 2, Generic, read::keys::kind).fast(),
    writes("expire", -3, Generic, write::keys::expire).fast(),
    writes("pexpire", -3, Generic, write::keys::pexpire).fast(),
    writes("expireat", -3, Generic, write::keys::expireat).fast(),
    writes("pexpireat", -3, Generic, write::keys::pexpireat).fast(),
    reads("ttl", 2, Generic, read::keys::ttl).fast(),
    reads("pttl", 2, Generic, read::keys::pttl).fast(),
    reads("expiretime", 2, Generic, read::keys::expiretime).fast(),
    reads("pexpiretime", 2, Generic, read::keys::pexpiretime).fast(),
    writes("persist", 2, Generic, write::keys::persist).fast(),
    reads("scan", -2, Generic, read::keys::scan).keys(KeyRange::NONE).later(
        SORT_KEYS_SINCE,
        &["SPLIT"],
        2,
    ),
    reads("keys", 2, Generic, read::keys::keys).keys(KeyRange::NONE).dangerous(),
    writes("rename", 3, Generic, write::keys::rename).keys(KeyRange::TWO),
    writes("renamenx", 3, Generic, write::keys::renamenx).keys(KeyRange::TWO).fast(),
    writes("copy", -3, Generic, write::keys::copy).keys(KeyRange::TWO).grows(),
    reads("randomkey", 1, Generic, read::keys::randomkey).keys(KeyRange::NONE),
    reads("dbsize", 1, Generic, read::keys::dbsize).keys(KeyRange::NONE).fast(),
    writes("flushdb", -1, Generic, write::keys::flush).keys(KeyRange::NONE).dangerous(),
    writes("flushall", -1, Generic, write::keys::flush).keys(KeyRange::NONE).dangerous(),
    Spec::new("object", -2, Server).subcommands(OBJECT),
    Spec::new("memory", -2, Server).subcommands(MEMORY),
];

const OBJECT: &[Spec] = &[
    reads("object|encoding", 3, Generic, read::keys::object_encoding).keys(KeyRange::SECOND),
    reads("object|refcount", 3, Generic, read::keys::object_refcount).keys(KeyRange::SECOND),
    reads("object|idletime", 3, Generic, read::keys::object_idletime).keys(KeyRange::SECOND),
    reads("object|freq", 3, Generic, read::keys::object_freq).keys(KeyRange::SECOND),
    reads("object|help", 2, Generic, read::keys::object_help).keys(KeyRange::NONE),
];

const MEMORY: &[Spec] =
    &[reads("memory|usage", -3, Generic, read::keys::memory_usage).keys(KeyRange::SECOND)];

/// Longest name of a command, in bytes.
const NAME_BYTES_MAX: usize = 24;
/// Slots of the hash table: few enough collisions that a name is found at its first slot mostly.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 10;
const EMPTY: u8 = u8::MAX;

/// From the hash of a name to its position in [`SPECS`], made when this is compiled.
static POSITIONS: [u8; SLOTS] = positions();

const fn positions() -> [u8; SLOTS] {
    assert!(SPECS.len() < EMPTY as usize);
    let mut slots = [EMPTY; SLOTS];
    let mut position = 0u8;
    while (position as usize) < SPECS.len() {
        let name = SPECS[position as usize].name.as_bytes();
        assert!(name.len() <= NAME_BYTES_MAX);
        let mut padded = [0; NAME_BYTES_MAX];
        let mut at = 0;
        while at < name.len() {
            padded[at] = name[at];
            at += 1;
        }
        let mut slot = slot(padded);
        while slots[slot] != EMPTY {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = position;
        position += 1;
    }
    slots
}

/// The slot where the search for a name, in lower case and padded with zeros, begins.
const fn slot(name: [u8; NAME_BYTES_MAX]) -> usize {
    let mut folded = 0u64;
    let mut at = 0;
    while at < NAME_BYTES_MAX {
        // Turned, so that the parts of a long name do not cancel each other.
        folded = folded.rotate_left(5) ^ word(name, at);
        at += 8;
    }
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS)) as usize
}

/// Eight bytes of a name as a number.
const fn word(name: [u8; NAME_BYTES_MAX], at: usize) -> u64 {
    let mut bytes = [0; 8];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = name[at + i];
        i += 1;
    }
    u64::from_le_bytes(bytes)
}

/// The command of a name in any case; allocates nothing.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    let mut padded = [0; NAME_BYTES_MAX];
    padded.get_mut(..name.len())?.copy_from_slice(name);
    padded.make_ascii_lowercase();
    let mut slot = slot(padded);
    loop {
        let spec = SPECS.get(usize::from(POSITIONS[slot]))?;
        if spec.name.as_bytes() == &padded[..name.len()] {
            return Some(spec);
        }
        slot = (slot + 1) % SLOTS;
    }
}
