//! Rows in RocksDB, with the options of a partition and without a WAL: what waited for one sync is one batch. HSET
//! looks whether its fields are there, because its reply says so, though not in the batch that it is in; SET looks at
//! nothing.

use std::path::Path;

use bytes::Bytes;
use plimsoll_storage::partition::{StoreOptions, rocksdb_options};
use plimsoll_storage::{Argv, ErrorReply, Reply};
use rust_rocksdb::{DB, Direction, Error, IteratorMode, WriteBatch, WriteOptions};

use super::{Rows, key_of, names_in, of_no_row, pairs_in};

/// Between a key and the name of a field: no key of YCSB's or of redis-benchmark's has it.
const APART: u8 = 0;

pub struct Files(DB);

impl Files {
    /// # Errors
    /// RocksDB does not open the folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        DB::open(&rocksdb_options(StoreOptions::default()), folder).map(Self)
    }

    fn get(&self, key: &[u8]) -> Reply {
        match self.0.get(key) {
            Ok(value) => value.map_or(Reply::Nil, |value| Reply::Bulk(value.into())),
            Err(error) => refused(&error),
        }
    }

    /// All fields of a key, or why they cannot be read.
    fn fields(&self, key: &[u8]) -> Result<Vec<(Bytes, Bytes)>, Error> {
        let first = field(key, &[]);
        let rows = self.0.iterator(IteratorMode::From(&first, Direction::Forward));
        let of_key =
            rows.take_while(|row| row.as_ref().map_or(true, |(at, _)| at.starts_with(&first)));
        of_key
            .map(|row| {
                row.map(|(at, value)| (Bytes::copy_from_slice(&at[first.len()..]), value.into()))
            })
            .collect()
    }

    fn put(&self, batch: &mut WriteBatch, argv: &Argv) -> Reply {
        let key = key_of(argv);
        let part = |at: usize| argv.get(at).unwrap_or_default();
        match &*argv.name().to_ascii_uppercase() {
            b"SET" => {
                batch.put(&key, part(2));
                Reply::OK
            }
            b"HSET" => {
                let mut new = 0;
                for at in pairs_in(argv) {
                    let name = field(&key, part(at));
                    new += i64::from(!matches!(self.0.get_pinned(&name), Ok(Some(_))));
                    batch.put(name, part(at + 1));
                }
                Reply::Integer(new)
            }
            b"DEL" => {
                batch.delete(&key);
                for (name, _) in self.fields(&key).unwrap_or_default() {
                    batch.delete(field(&key, &name));
                }
                Reply::Integer(1)
            }
            // It sees what was asked for before it.
            _ => match self.write(batch) {
                Ok(()) => self.read(argv),
                Err(error) => refused(&error),
            },
        }
    }

    fn write(&self, batch: &mut WriteBatch) -> Result<(), Error> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.0.write_opt(&*batch, &options)?;
        batch.clear();
        Ok(())
    }
}

fn refused(error: &Error) -> Reply {
    Reply::Error(ErrorReply::err(error.to_string()))
}

fn field(key: &[u8], name: &[u8]) -> Vec<u8> {
    [key, &[APART], name].concat()
}

impl Rows for Files {
    fn read(&self, argv: &Argv) -> Reply {
        let key = key_of(argv);
        match &*argv.name().to_ascii_uppercase() {
            b"GET" => self.get(&key),
            b"HMGET" => {
                Reply::Array(names_in(argv).map(|name| self.get(&field(&key, name))).collect())
            }
            b"HGETALL" => match self.fields(&key) {
                Ok(fields) => {
                    let pair = |(name, value)| (Reply::Bulk(name), Reply::Bulk(value));
                    Reply::Map(fields.into_iter().map(pair).collect())
                }
                Err(error) => refused(&error),
            },
            _ => of_no_row(argv),
        }
    }

    fn write_all<'a>(&self, commands: impl Iterator<Item = &'a Argv>) -> Vec<Reply> {
        let mut batch = WriteBatch::default();
        let replies: Vec<_> = commands.map(|argv| self.put(&mut batch, argv)).collect();
        match self.write(&mut batch) {
            Ok(()) => replies,
            Err(error) => replies.iter().map(|_| refused(&error)).collect(),
        }
    }
}
