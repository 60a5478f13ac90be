//! What clients asked for and how it went: counters that INFO, CONFIG RESETSTAT and the metrics
//! read. Written once for each run of commands, not once for each command.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;
use plimsoll_storage::ErrorReply;

use crate::commands;
use crate::resp::error_code;

/// The most error codes that are told apart; more are counted under `OTHER`.
const CODES_MAX: usize = 64;

/// One command's counters.
#[derive(Debug, Default)]
pub struct CommandUsage {
    calls: AtomicU64,
    nanos: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
}

/// One command's counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandFigures {
    /// How often it ran.
    pub calls: u64,
    /// How long it ran, all calls together. Commands that ran as one share their time evenly.
    pub took: Duration,
    /// How often it was refused before it ran.
    pub rejected: u64,
    /// How often it answered with an error.
    pub failed: u64,
}

/// All counters. They only grow; a reset moves the mark from which INFO counts, because what
/// Prometheus reads must not go back.
#[derive(Debug)]
pub struct Usage {
    commands: Vec<CommandUsage>,
    total: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
    /// Bytes read from clients.
    pub bytes_in: AtomicU64,
    /// Bytes written to clients.
    pub bytes_out: AtomicU64,
    /// Commands in the last second that was looked at.
    per_second: AtomicU64,
    /// What the counters were at the last reset.
    mark: Mutex<Option<Figures>>,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            commands: commands::all().iter().map(|_| CommandUsage::default()).collect(),
            total: AtomicU64::new(0),
            errors: Mutex::default(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            per_second: AtomicU64::new(0),
            mark: Mutex::default(),
        }
    }
}

impl Usage {
    /// `calls` calls of a command took `took` together.
    pub fn ran(&self, index: usize, calls: u64, took: Duration) {
        self.total.fetch_add(calls, Relaxed);
        let usage = &self.commands[index];
        usage.calls.fetch_add(calls, Relaxed);
        usage.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// A command answered with an error.
    pub fn failed(&self, index: usize, error: &ErrorReply) {
        self.commands[index].failed.fetch_add(1, Relaxed);
        self.error(error);
    }

    /// A command was refused before it ran; none where there is no such command.
    pub fn rejected(&self, index: Option<usize>, error: &ErrorReply) {
        if let Some(index) = index {
            self.commands[index].rejected.fetch_add(1, Relaxed);
        }
        self.error(error);
    }

    fn error(&self, error: &ErrorReply) {
        let mut errors = self.errors.lock();
        let code = error_code(&error.kind);
        let is_counted = errors.len() < CODES_MAX || errors.contains_key(code);
        let code = if is_counted { code } else { "OTHER" };
        match errors.get_mut(code) {
            Some(count) => *count += 1,
            None => drop(errors.insert(code.to_owned(), 1)),
        }
    }

    /// All counters since the start.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures {
            commands: self.commands.iter().map(CommandUsage::figures).collect(),
            total: self.total.load(Relaxed),
            errors: self.errors.lock().clone(),
            bytes_in: self.bytes_in.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
        }
    }

    /// All counters since the last CONFIG RESETSTAT.
    #[must_use]
    pub fn figures_since_reset(&self) -> Figures {
        let (now, mark) = (self.figures(), self.mark.lock());
        match &*mark {
            Some(mark) => now.since(mark),
            None => now,
        }
    }

    /// Commands in the last second that [`Self::set_per_second`] was told of.
    #[must_use]
    pub fn per_second(&self) -> u64 {
        self.per_second.load(Relaxed)
    }

    /// Notes the rate of commands.
    pub fn set_per_second(&self, rate: u64) {
        self.per_second.store(rate, Relaxed);
    }

    /// Commands that ran since the start.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// CONFIG RESETSTAT: INFO counts from here.
    pub fn reset(&self) {
        *self.mark.lock() = Some(self.figures());
    }
}

impl CommandUsage {
    fn figures(&self) -> CommandFigures {
        CommandFigures {
            calls: self.calls.load(Relaxed),
            took: Duration::from_nanos(self.nanos.load(Relaxed)),
            rejected: self.rejected.load(Relaxed),
            failed: self.failed.load(Relaxed),
        }
    }
}

/// All counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// By the command's position among all commands.
    pub commands: Vec<CommandFigures>,
    /// Commands that ran.
    pub total: u64,
    /// Errors by their code.
    pub errors: BTreeMap<String, u64>,
    /// Bytes read from clients.
    pub bytes_in: u64,
    /// Bytes written to clients.
    pub bytes_out: u64,
}

impl Figures {
    fn since(self, mark: &Self) -> Self {
        let since = |now: CommandFigures, mark: &CommandFigures| CommandFigures {
            calls: now.calls - mark.calls,
            took: now.took.saturating_sub(mark.took),
            rejected: now.rejected - mark.rejected,
            failed: now.failed - mark.failed,
        };
        let commands = self.commands.iter().zip(&mark.commands);
        let errors = self.errors.into_iter().filter_map(|(code, now)| {
            let since = now - mark.errors.get(&code).copied().unwrap_or(0);
            (since > 0).then_some((code, since))
        });
        Self {
            commands: commands.map(|(now, mark)| since(*now, mark)).collect(),
            total: self.total - mark.total,
            errors: errors.collect(),
            bytes_in: self.bytes_in - mark.bytes_in,
            bytes_out: self.bytes_out - mark.bytes_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_storage::ErrorKind;

    use super::*;

    #[test]
    fn counts_and_resets() {
        let usage = Usage::default();
        let get = commands::find(b"get").unwrap().index;
        usage.ran(get, 3, Duration::from_micros(6));
        usage.failed(get, &ErrorReply::new(ErrorKind::WrongType, "x"));
        usage.rejected(None, &ErrorReply::err("unknown"));
        let want =
            CommandFigures { calls: 3, took: Duration::from_micros(6), rejected: 0, failed: 1 };
        let figures = usage.figures_since_reset();
        assert_eq!(figures.commands[get], want);
        assert_eq!(
            figures.errors.into_iter().collect::<Vec<_>>(),
            [("ERR".to_owned(), 1), ("WRONGTYPE".to_owned(), 1)]
        );
        usage.reset();
        usage.ran(get, 1, Duration::ZERO);
        let figures = usage.figures_since_reset();
        assert_eq!((figures.total, figures.commands[get].calls), (1, 1));
        assert!(figures.errors.is_empty());
        assert_eq!(usage.figures().commands[get].calls, 4);
    }

    #[test]
    fn error_codes_are_bounded() {
        let usage = Usage::default();
        for code in 0..200 {
            let kind = ErrorKind::Named(format!("C{code}").into());
            usage.rejected(None, &ErrorReply::new(kind, "x"));
        }
        assert_eq!(usage.figures().errors.len(), CODES_MAX + 1);
        assert_eq!(usage.figures().errors.get("OTHER"), Some(&136));
    }
}
