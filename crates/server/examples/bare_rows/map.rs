//! Rows in maps in memory. What a command means in them is here; when it runs is the server's.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use parking_lot::Mutex;
use plimsoll_storage::{Argv, Reply};

use super::{Rows, key_of, names_in, of_no_row, pairs_in};

const SHARDS: usize = 64;

enum Row {
    Text(Bytes),
    Fields(BTreeMap<Bytes, Bytes>),
}

pub struct Maps(Vec<Mutex<HashMap<Bytes, Row>>>);

impl Default for Maps {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl Maps {
    fn shard(&self, key: &[u8]) -> &Mutex<HashMap<Bytes, Row>> {
        let sum = key.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31) + usize::from(*byte));
        &self.0[sum % SHARDS]
    }

    fn write(&self, argv: &Argv) -> Reply {
        let key = key_of(argv);
        let copied = |at: usize| argv.get(at).map(Bytes::copy_from_slice).unwrap_or_default();
        match &*argv.name().to_ascii_uppercase() {
            b"SET" => {
                self.shard(&key).lock().insert(copied(1), Row::Text(copied(2)));
                Reply::OK
            }
            b"HSET" => {
                let mut shard = self.shard(&key).lock();
                let row = shard.entry(copied(1)).or_insert_with(|| Row::Fields(BTreeMap::new()));
                let Row::Fields(fields) = row else { return Reply::Nil };
                let new = pairs_in(argv)
                    .filter(|at| fields.insert(copied(*at), copied(at + 1)).is_none());
                Reply::Integer(new.count().try_into().unwrap_or(i64::MAX))
            }
            b"DEL" => Reply::Integer(i64::from(self.shard(&key).lock().remove(&key).is_some())),
            _ => self.read(argv),
        }
    }
}

impl Rows for Maps {
    fn read(&self, argv: &Argv) -> Reply {
        let key = key_of(argv);
        match &*argv.name().to_ascii_uppercase() {
            b"GET" => match self.shard(&key).lock().get(&key) {
                Some(Row::Text(text)) => Reply::Bulk(text.clone()),
                _ => Reply::Nil,
            },
            b"HMGET" => {
                let shard = self.shard(&key).lock();
                Reply::Array(match shard.get(&key) {
                    Some(Row::Fields(fields)) => names_in(argv)
                        .map(|name| fields.get(name).cloned().map_or(Reply::Nil, Reply::Bulk))
                        .collect(),
                    _ => names_in(argv).map(|_| Reply::Nil).collect(),
                })
            }
            b"HGETALL" => match self.shard(&key).lock().get(&key) {
                Some(Row::Fields(fields)) => {
                    let pair = |(name, value): (&Bytes, &Bytes)| {
                        (Reply::Bulk(name.clone()), Reply::Bulk(value.clone()))
                    };
                    Reply::Map(fields.iter().map(pair).collect())
                }
                _ => Reply::Map(Vec::new()),
            },
            _ => of_no_row(argv),
        }
    }

    fn write_all<'a>(&self, commands: impl Iterator<Item = &'a Argv>) -> Vec<Reply> {
        commands.map(|argv| self.write(argv)).collect()
    }
}
