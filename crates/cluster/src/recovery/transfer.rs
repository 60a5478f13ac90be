//! The chunks of one checkpoint: which to ask for next, how many at once, and what to do where an
//! answer is lost, damaged or a refusal.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use plimsoll_base::time::Instant;
use plimsoll_control::Random;

use super::asking::{Asking, Offer, Trouble, heard_instead};
use super::bound::Bound;
use super::folders::Folders;
use super::intake::{Intake, Stored};
use super::options::{CopyCompression, CopyError, CopyOptions};
use super::progress::Recovery;
use super::reuse::Verified;
use super::unpacking::{Arrived, Heard, heard};
use super::window::{Came, Seat, Sent, Window};
use crate::wire::{Packing, Problem, Question, Reply, Terms};

/// How soon it is looked again whether there is room in the window, where nothing says so: time alone makes
/// some, after a drain and where another copy stalls.
const ROOM_PAUSE: Duration = Duration::from_millis(50);
/// For how long after something here held the copy back its link is not thought to be the bound.
const HELD_BACK_TIME: Duration = Duration::from_secs(1);

/// How a transfer ended.
pub(super) enum Ended {
    /// Every file is whole.
    Whole,
    /// The source does not know the checkpoint any longer.
    Gone {
        /// Whether anything was written.
        has_progressed: bool,
    },
}

/// The transfer of one checkpoint.
pub(super) struct Transfer<'a> {
    source: &'a Asking<'a>,
    number: u64,
    is_plain: bool,
    options: &'a CopyOptions,
    recovery: &'a Arc<Recovery>,
    random: Random,
    intake: Intake,
    /// Files of which not everything was asked for, each with how much was.
    asking: VecDeque<(usize, u64)>,
    /// Pieces to ask for again, and one that the pace holds back.
    again: VecDeque<Piece>,
    /// How often each file was wrong.
    wrong: Vec<u32>,
    /// Chunks of each file that were asked for and have not come.
    under_way: Vec<u64>,
    /// Bytes and number of the pieces that are not written yet, asked for or not.
    held_bytes: u64,
    held: usize,
    calls: FuturesUnordered<BoxFuture<'static, Event>>,
    /// Chunks that were asked for and have not been heard of.
    asked: usize,
    is_paced: bool,
    /// When the pace or what is not written yet held it back last.
    held_back_at: Option<Instant>,
    /// When a chunk came last that the source had held back.
    source_held_at: Option<Instant>,
    /// Whether the source compresses; none before it has answered.
    packs: Option<bool>,
    seat: Seat,
    /// What has not come yet.
    left_bytes: u64,
    has_progressed: bool,
}

/// A piece of a file that becomes a chunk.
#[derive(Clone, Copy)]
struct Piece {
    index: usize,
    offset: u64,
    bytes: u32,
    attempts: u32,
}

enum Event {
    /// What came of asking for a piece.
    Heard(Asked, Heard),
    /// A piece may be asked for again.
    Rested(Piece),
    /// The pace may allow what it held back.
    Paced,
}

/// A piece that was asked for.
struct Asked {
    piece: Piece,
    sent: Sent,
    /// It might come compressed.
    may_be_packed: bool,
    /// How long the source says that it held it back.
    held: Duration,
}

impl<'a> Transfer<'a> {
    /// Of each file, so much is there.
    pub(super) fn new(
        source: &'a Asking<'a>,
        offer: &Offer,
        there: Vec<u64>,
        folders: &Folders,
        recovery: &'a Arc<Recovery>,
    ) -> Self {
        let (listing, options) = (&offer.listing, source.options);
        let measured = || Window::measured(&recovery.world.time);
        let window = options.window.clone().unwrap_or_else(measured);
        let files = || listing.files.iter().zip(there.iter().copied());
        let asking = files().enumerate().filter(|(_, (file, there))| *there < file.bytes);
        Self {
            source,
            number: listing.number,
            is_plain: offer.is_plain,
            options,
            recovery,
            random: Random::new(options.seed ^ listing.number),
            intake: Intake::new(folders, files().map(|(it, n)| (it.clone(), n)), recovery),
            asking: asking.map(|(index, (_, there))| (index, there)).collect(),
            again: VecDeque::new(),
            wrong: vec![0; listing.files.len()],
            under_way: vec![0; listing.files.len()],
            held_bytes: 0,
            held: 0,
            calls: FuturesUnordered::new(),
            asked: 0,
            is_paced: false,
            held_back_at: None,
            source_held_at: None,
            packs: None,
            seat: window.join(source.partition().table),
            left_bytes: files().map(|(file, there)| file.bytes.saturating_sub(there)).sum(),
            has_progressed: false,
        }
    }

    /// Copies what is missing.
    pub(super) async fn run(&mut self) -> Result<Ended, CopyError> {
        let ended = self.go_on().await;
        self.calls.clear();
        // What is being written was compared, and counts for the next attempt.
        while let Some(stored) = self.intake.next().await {
            self.has_progressed |= stored.is_ok_and(|stored| !stored.is_wrong);
        }
        match ended {
            Ok(Ended::Gone { .. }) => Ok(Ended::Gone { has_progressed: self.has_progressed }),
            ended => ended,
        }
    }

    /// Notes the files that are whole.
    pub(super) fn note_whole(&self, verified: &mut Verified) {
        self.intake.whole().for_each(|file| verified.add(file));
    }

    async fn go_on(&mut self) -> Result<Ended, CopyError> {
        let time = self.recovery.world.time.clone();
        loop {
            let window = self.seat.window().clone();
            // What ends from here on is heard of.
            let mut room = pin!(window.room());
            room.as_mut().enable();
            self.ask();
            self.seat.set_left(self.is_left(), self.left_bytes);
            self.recovery.is_behind(self.seat.ahead());
            self.recovery.bounded(self.bound());
            tokio::select! {
                biased;
                Some(event) = self.calls.next(), if !self.calls.is_empty() => {
                    if self.on_event(event)? {
                        return Ok(Ended::Gone { has_progressed: self.has_progressed });
                    }
                }
                Some(stored) = self.intake.next(), if self.intake.is_writing() => {
                    self.on_stored(stored?)?;
                }
                // Other copies share the window, and make room in it too.
                () = room, if self.is_left() => {}
                () = time.sleep(ROOM_PAUSE), if self.is_left() => {}
                else => {
                    assert!(self.held == 0 && self.asking.is_empty(), "nothing is left out");
                    return Ok(Ended::Whole);
                }
            }
        }
    }

    /// What keeps it from asking for more, after it has asked.
    fn bound(&self) -> Bound {
        let is_waiting = self.asked > 0;
        let is_left = self.is_left();
        let may_ask = !self.again.is_empty() || self.next_file().is_some();
        match () {
            () if self.is_paced => Bound::Pace,
            () if is_waiting && self.was_of_late(self.source_held_at) => Bound::Pace,
            // There is room in the window, but not for what has come.
            () if may_ask && self.seat.next_chunk().is_some() => Bound::Target,
            () if is_left || is_waiting => self.seat.window().bound(),
            () if self.intake.is_writing() => Bound::Target,
            // What failed rests before it is asked for again.
            () => Bound::Source,
        }
    }

    /// Whether there is something to ask for.
    fn is_left(&self) -> bool {
        !self.again.is_empty() || !self.asking.is_empty()
    }

    /// Asks for as much as may be under way.
    fn ask(&mut self) {
        while !self.is_paced
            && let Some(bytes_max) = self.seat.next_chunk()
            && let Some(piece) = self.next_piece(bytes_max)
        {
            let pace = self.options.pace.as_ref();
            let wait = pace.map_or(Duration::ZERO, |pace| pace(u64::from(piece.bytes)));
            if wait == Duration::ZERO {
                self.send(piece);
            } else {
                self.is_paced = true;
                self.held_back_at = Some(self.source.now());
                self.recovery.throttled(wait);
                self.again.push_front(piece);
                let wait = self.recovery.world.time.sleep(wait);
                self.calls.push(Box::pin(async move {
                    wait.await;
                    Event::Paced
                }));
            }
        }
    }

    /// The next piece to ask for, where there is one and room for it.
    fn next_piece(&mut self, bytes_max: u64) -> Option<Piece> {
        if let Some(piece) = self.again.pop_front() {
            return Some(piece);
        }
        let at = self.next_file()?;
        let (index, offset) = self.asking[at];
        let left = self.intake.file(index).bytes - offset;
        let bytes = left.min(bytes_max).min(self.options.chunk_bytes_max).max(1);
        let has_room = self.held < self.options.chunks_max
            && self.held_bytes + bytes <= self.options.bytes_max;
        if !has_room && self.held > 0 {
            self.held_back_at = Some(self.source.now());
            return None;
        }
        self.held_bytes += bytes;
        self.held += 1;
        self.under_way[index] += 1;
        match self.asking.get_mut(at) {
            Some((_, asked)) if bytes < left => *asked += bytes,
            _ => drop(self.asking.remove(at)),
        }
        // A window's chunks are of a few MiB.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Some(Piece { index, offset, bytes, attempts: 0 })
    }

    /// The first file of which more may be asked for, by its place among those.
    fn next_file(&self) -> Option<usize> {
        let is_free =
            |(index, _): &(usize, u64)| self.under_way[*index] < self.options.chunks_of_file_max;
        self.asking.iter().position(is_free)
    }

    fn send(&mut self, piece: Piece) {
        let sent = self.seat.window().send(u64::from(piece.bytes));
        let (checkpoint, offset, bytes_max) = (self.number, piece.offset, piece.bytes);
        let packing = self.packing();
        let question = match (u32::try_from(piece.index), packing) {
            (Ok(file), Some(packing)) => {
                Question::PackedChunk { checkpoint, file, offset, bytes_max, packing }
            }
            (Ok(file), None) if !self.is_plain => {
                Question::CopyChunk { checkpoint, file, offset, bytes_max }
            }
            _ => {
                let file = self.intake.file(piece.index).name.clone();
                Question::Chunk { checkpoint, file, offset, bytes_max }
            }
        };
        let (link, tasks) = (self.source.link.clone(), self.recovery.world.tasks.clone());
        let (timeout, trace) = (self.options.chunk_timeout, self.options.trace);
        self.asked += 1;
        self.calls.push(Box::pin(async move {
            let answer = link.ask_on(question, Terms::within(timeout), trace).await;
            let (answer, held_ns) = match answer {
                Ok((reply, told)) => (Ok(reply), told.server_ns),
                Err(error) => (Err(error), None),
            };
            let heard = heard(&tasks, answer, packing, piece.bytes as usize).await;
            let held = Duration::from_nanos(held_ns.unwrap_or(0));
            Event::Heard(Asked { piece, sent, may_be_packed: packing.is_some(), held }, heard)
        }));
    }

    /// How the next chunk may be compressed; none where it is not to be, or nothing is won.
    fn packing(&self) -> Option<Packing> {
        if self.is_plain || self.packs == Some(false) {
            return None;
        }
        match self.options.compression {
            CopyCompression::Off => None,
            CopyCompression::Deflate => Some(Packing::Deflate),
            CopyCompression::Measured => {
                let is_held_back = self.was_of_late(self.held_back_at);
                let link = self.seat.window().link_bytes_s().filter(|_| !is_held_back);
                link.map(|link_bytes_s| Packing::Measured { link_bytes_s })
            }
        }
    }

    fn was_of_late(&self, at: Option<Instant>) -> bool {
        at.is_some_and(|at| self.source.now() - at < HELD_BACK_TIME)
    }

    /// Says whether the checkpoint is gone.
    fn on_event(&mut self, event: Event) -> Result<bool, CopyError> {
        let (asked, heard) = match event {
            Event::Heard(asked, heard) => (asked, heard),
            Event::Rested(piece) => {
                self.again.push_back(piece);
                return Ok(false);
            }
            Event::Paced => {
                self.is_paced = false;
                return Ok(false);
            }
        };
        self.asked -= 1;
        let Asked { piece, may_be_packed, .. } = asked;
        let trouble = match heard {
            Heard::Chunk(chunk) => {
                self.recovery.came(chunk.wire_bytes);
                self.packs = self.packs.or(chunk.is_packed.then_some(true));
                let says_checksum = self.is_plain || chunk.file_checksum.is_some();
                if says_checksum || !self.is_last(piece) {
                    self.take(asked, chunk);
                    return Ok(false);
                }
                Trouble::Refusal("a last chunk without the file's checksum".to_owned())
            }
            Heard::Wrong { why, wire_bytes } => {
                self.recovery.came(wire_bytes);
                Trouble::Refusal(why)
            }
            Heard::Other(Ok(Reply::Problem(Problem::CheckpointGone))) => return Ok(true),
            Heard::Other(Ok(Reply::Problem(problem))) if may_be_packed && problem.is_unread() => {
                // It is older, or the question was damaged: this copy is not compressed then.
                self.packs = self.packs.or(Some(false));
                heard_instead(Ok(Reply::Problem(problem)))?
            }
            Heard::Other(other) => heard_instead(other)?,
        };
        drop(asked);
        let attempts = piece.attempts + 1;
        self.source.may_ask_again(attempts, trouble)?;
        let pause = self.options.pause(attempts, &mut self.random);
        let pause = self.recovery.world.time.sleep(pause);
        let piece = Piece { attempts, ..piece };
        self.calls.push(Box::pin(async move {
            pause.await;
            Event::Rested(piece)
        }));
        Ok(false)
    }

    fn take(&mut self, Asked { piece, sent, held, .. }: Asked, chunk: Arrived) {
        let Arrived { bytes, file_checksum, wire_bytes, is_packed } = chunk;
        self.source.gave();
        self.under_way[piece.index] -= 1;
        let is_free = !self.was_of_late(self.held_back_at) && held.is_zero();
        sent.arrived(Came { wire_bytes, is_packed, held, is_free });
        self.seat.flows();
        self.left_bytes = self.left_bytes.saturating_sub(u64::from(piece.bytes));
        if !held.is_zero() {
            self.source_held_at = Some(self.source.now());
            self.recovery.throttled_at_source(held);
        }
        self.recovery.received(u64::from(piece.bytes));
        self.intake.take(piece.index, piece.offset, bytes, file_checksum);
    }

    /// Whether a piece is the last of its file.
    fn is_last(&self, piece: Piece) -> bool {
        piece.offset + u64::from(piece.bytes) == self.intake.file(piece.index).bytes
    }

    fn on_stored(&mut self, stored: Stored) -> Result<(), CopyError> {
        self.held_bytes -= stored.bytes;
        self.held -= stored.chunks;
        if !stored.is_wrong {
            self.has_progressed = true;
            return Ok(());
        }
        let wrong = &mut self.wrong[stored.index];
        *wrong += 1;
        if *wrong >= self.options.attempts_max {
            let name = &self.intake.file(stored.index).name;
            return Err(CopyError::Damaged(format!("{name} was wrong {wrong} times")));
        }
        tracing::warn!(file = self.intake.file(stored.index).name, "a copied file is wrong");
        self.left_bytes += self.intake.file(stored.index).bytes;
        self.asking.push_back((stored.index, 0));
        Ok(())
    }
}
