//! MULTI, EXEC, DISCARD, WATCH and UNWATCH as states of one connection. Pure: it decides what is
//! queued, refused and run, and runs nothing itself.

use plimsoll_cluster::Watched;
use plimsoll_storage::ErrorReply;

/// The most commands that one transaction queues.
const COMMANDS_MAX: usize = 1024 * 1024;

/// The most bytes of arguments that one transaction queues: they end up in one record.
const BYTES_MAX: usize = plimsoll_log::RECORD_BYTES_MAX;

/// The most keys that a connection watches at once.
const WATCHED_MAX: usize = 64 * 1024;

/// A connection's transaction, `T` being a queued command.
#[derive(Debug)]
pub struct Transaction<T> {
    /// What was queued since MULTI; none outside.
    queue: Option<Vec<T>>,
    /// Bytes of arguments in the queue.
    queue_bytes: usize,
    /// A command was refused since MULTI, so EXEC will refuse them all.
    poisoned: bool,
    watched: Vec<Watched>,
}

impl<T> Default for Transaction<T> {
    fn default() -> Self {
        Self { queue: None, queue_bytes: 0, poisoned: false, watched: Vec::new() }
    }
}

impl<T> Transaction<T> {
    /// Whether commands are queued rather than run.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.queue.is_some()
    }

    /// How many commands are queued; none outside of a transaction.
    #[must_use]
    pub fn queued(&self) -> Option<usize> {
        self.queue.as_ref().map(Vec::len)
    }

    /// Whether a queued command is of a kind.
    pub fn is_any(&self, is: impl FnMut(&T) -> bool) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.iter().any(is))
    }

    /// Bytes of arguments that are queued.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        if self.is_open() { self.queue_bytes } else { 0 }
    }

    /// MULTI.
    ///
    /// # Errors
    /// Inside a transaction, which goes on.
    pub fn open(&mut self) -> Result<(), ErrorReply> {
        if self.is_open() {
            return Err(ErrorReply::err("MULTI calls can not be nested"));
        }
        self.queue = Some(Vec::new());
        self.queue_bytes = 0;
        Ok(())
    }

    /// Takes a command with `bytes` of arguments for later.
    ///
    /// # Errors
    /// Where there are too many, or too large together; EXEC will then refuse all.
    ///
    /// # Panics
    /// Outside of a transaction.
    pub fn queue(&mut self, command: T, bytes: usize) -> Result<(), ErrorReply> {
        let queue = self.queue.as_mut().expect("commands are queued between MULTI and EXEC");
        if queue.len() >= COMMANDS_MAX {
            self.poisoned = true;
            return Err(ErrorReply::err(format!("transaction exceeds {COMMANDS_MAX} commands")));
        }
        if self.queue_bytes + bytes > BYTES_MAX {
            self.poisoned = true;
            return Err(ErrorReply::err(format!("transaction exceeds {BYTES_MAX} bytes")));
        }
        self.queue_bytes += bytes;
        queue.push(command);
        Ok(())
    }

    /// Notes that a command was refused. Nothing happens outside of a transaction.
    pub fn poison(&mut self) {
        self.poisoned |= self.is_open();
    }

    /// EXEC: what is to run, and the keys that must not have changed. Both are forgotten here.
    ///
    /// # Errors
    /// Outside of a transaction, or where a command was refused.
    pub fn exec(&mut self) -> Result<(Vec<Watched>, Vec<T>), ErrorReply> {
        let Some(queue) = self.queue.take() else {
            return Err(ErrorReply::err("EXEC without MULTI"));
        };
        let watched = std::mem::take(&mut self.watched);
        if std::mem::take(&mut self.poisoned) {
            return Err(ErrorReply::named(
                "EXECABORT",
                "Transaction discarded because of previous errors.",
            ));
        }
        Ok((watched, queue))
    }

    /// DISCARD.
    ///
    /// # Errors
    /// Outside of a transaction.
    pub fn discard(&mut self) -> Result<(), ErrorReply> {
        if !self.is_open() {
            return Err(ErrorReply::err("DISCARD without MULTI"));
        }
        *self = Self::default();
        Ok(())
    }

    /// Whether WATCH may come now.
    ///
    /// # Errors
    /// Inside a transaction.
    pub fn may_watch(&self) -> Result<(), ErrorReply> {
        if self.is_open() {
            return Err(ErrorReply::err("WATCH inside MULTI is not allowed"));
        }
        Ok(())
    }

    /// Whether a key is watched already: its first WATCH counts.
    #[must_use]
    pub fn is_watched(&self, db: u32, key: &[u8]) -> bool {
        self.watched.iter().any(|watched| watched.db == db && watched.key == key)
    }

    /// Adds a watched key.
    ///
    /// # Errors
    /// Where there are too many.
    pub fn watch(&mut self, watched: Watched) -> Result<(), ErrorReply> {
        if self.watched.len() >= WATCHED_MAX {
            return Err(ErrorReply::err(format!("more than {WATCHED_MAX} watched keys")));
        }
        self.watched.push(watched);
        Ok(())
    }

    /// UNWATCH.
    pub fn unwatch(&mut self) {
        self.watched.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::error_text;

    /// Runs a script of one word and one argument a line; one answer for each line.
    fn check(script: &str, expected: &str) {
        let mut transaction = Transaction::<String>::default();
        let lines = script.lines().map(str::trim).filter(|line| !line.is_empty());
        let answers: Vec<String> = lines
            .map(|line| step(&mut transaction, line).unwrap_or_else(|e| error_text(&e)))
            .collect();
        let expected: Vec<&str> =
            expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(answers, expected);
    }

    fn step(transaction: &mut Transaction<String>, line: &str) -> Result<String, ErrorReply> {
        let (word, arg) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "multi" => transaction.open().map(|()| "ok".into()),
            "discard" => transaction.discard().map(|()| "ok".into()),
            "refuse" => {
                transaction.poison();
                Ok("refused".into())
            }
            "unwatch" => {
                transaction.unwatch();
                Ok("ok".into())
            }
            "watch" => {
                transaction.may_watch()?;
                let key = bytes::Bytes::copy_from_slice(arg.as_bytes());
                if !transaction.is_watched(0, &key) {
                    transaction.watch(Watched { db: 0, key, change: 1 })?;
                }
                Ok("ok".into())
            }
            "exec" => {
                let (watched, queue) = transaction.exec()?;
                let keys: Vec<_> =
                    watched.iter().map(|w| String::from_utf8_lossy(&w.key).into_owned()).collect();
                Ok(format!("run [{}] if [{}]", queue.join(" "), keys.join(" ")))
            }
            command if transaction.is_open() => {
                transaction.queue(command.to_owned(), 1).map(|()| "queued".into())
            }
            command => Ok(format!("run {command}")),
        }
    }

    #[test]
    fn commands_are_queued_and_run_together() {
        check(
            "set\n multi\n set\n incr\n exec\n set",
            "run set\n ok\n queued\n queued\n run [set incr] if []\n run set",
        );
        check("multi\n exec", "ok\n run [] if []");
    }

    #[test]
    fn a_refused_command_spoils_the_whole() {
        check(
            "multi\n set\n refuse\n incr\n exec\n exec\n multi\n set\n exec",
            "ok\n queued\n refused\n queued
             EXECABORT Transaction discarded because of previous errors.
             ERR EXEC without MULTI\n ok\n queued\n run [set] if []",
        );
        // Outside of a transaction there is nothing to spoil, and DISCARD forgets it.
        check("refuse\n multi\n exec", "refused\n ok\n run [] if []");
        check("multi\n refuse\n discard\n multi\n exec", "ok\n refused\n ok\n ok\n run [] if []");
    }

    #[test]
    fn words_out_of_place() {
        check(
            "exec\n discard\n multi\n multi\n watch a\n set\n exec",
            "ERR EXEC without MULTI
             ERR DISCARD without MULTI
             ok
             ERR MULTI calls can not be nested
             ERR WATCH inside MULTI is not allowed
             queued
             run [set] if []",
        );
    }

    #[test]
    fn watched_keys_last_until_the_next_end() {
        check(
            "watch a\n watch b\n watch a\n multi\n exec\n multi\n exec",
            "ok\n ok\n ok\n ok\n run [] if [a b]\n ok\n run [] if []",
        );
        check("watch a\n unwatch\n multi\n exec", "ok\n ok\n ok\n run [] if []");
        check("watch a\n multi\n discard\n multi\n exec", "ok\n ok\n ok\n ok\n run [] if []");
        check(
            "watch a\n multi\n refuse\n exec\n multi\n exec",
            "ok\n ok\n refused
             EXECABORT Transaction discarded because of previous errors.
             ok\n run [] if []",
        );
    }
}
