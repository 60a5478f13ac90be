//! Compression of chunks: at which level of zstd, chunk by chunk, or not at all. It pays where the
//! link is the bound, the bytes shrink and processors are free; a level too high makes the processor
//! the bound instead. What is known of each kind of file comes from the chunks themselves.
//!
//! ```text
//! ratio(kind, level)  = bytes before / bytes after, averaged over recent chunks
//! speed(kind, level)  = bytes before / processor time
//! rate(level)         = min(link * ratio, free processors * speed); of no compression: link
//! choice              = the greatest rate; the lowest level within 3 % of it
//! trial               = one chunk of 16 at the next level up or down of the choice, where the other
//!                       measured levels say that it could be better; of a kind that does not shrink,
//!                       one of 256
//! ```
//!
//! Until a level was tried it is thought to do what the nearest one does, scaled as levels stood to
//! each other in `zstd -b1 -e9 -B1048576` (1.5.4) on documents of two corpora and on log lines. Where
//! the bound is something else, such as the target's disk, the caller says so and nothing is
//! compressed: it would cost and bring nothing. Dictionaries are not used: chunks are large.

/// The levels to choose from; 0 is no compression.
pub const LEVELS: [u8; 6] = [0, 1, 3, 5, 7, 9];
/// The logarithm of the ratio at them, over that at level 1.
const GAINS: [f64; 6] = [0.0, 1.0, 1.02, 1.06, 1.09, 1.12];
/// Bytes a second of one processor at them.
const SPEEDS: [f64; 6] = [f64::INFINITY, 250e6, 150e6, 55e6, 35e6, 25e6];
/// What is thought of a kind's ratio at level 1 before a chunk of it was compressed.
const RATIO: f64 = 1.5;
/// Below this a kind counts as one that does not shrink.
const SHRINKS: f64 = 1.05;
/// How much better a rate must be to be worth more processor time.
const WORTH: f64 = 1.03;
const TRIAL_EVERY: u32 = 16;
const HOPELESS_EVERY: u32 = 256;
/// How much a new chunk weighs in the averages.
const NEWS: f64 = 0.25;

/// What bounds the transfer now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// What the link carries, bytes per second on the wire; none where something else is the bound.
    pub link_bytes_s: Option<f64>,
    /// Processors that nobody uses, 0 and more.
    pub free_processors: f64,
}

/// What is known of the kinds of files of one source.
#[derive(Clone, Debug)]
pub struct Compression {
    kinds: Vec<Kind>,
}

/// What is known of one kind of file.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    chunks: u32,
    measured: [Option<Measured>; LEVELS.len()],
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    ratio: f64,
    /// Bytes a second of processor time.
    speed: f64,
}

impl Compression {
    /// Knows nothing yet of files of so many kinds; which is which is the caller's.
    #[must_use]
    pub fn new(kinds: usize) -> Self {
        Self { kinds: vec![Kind::default(); kinds] }
    }

    /// The level for the next chunk of a kind, one of [`LEVELS`].
    ///
    /// # Panics
    /// Where there is no such kind.
    #[must_use]
    pub fn choose(&mut self, kind: usize, bounds: &Bounds) -> u8 {
        let kind = &mut self.kinds[kind];
        kind.chunks = kind.chunks.wrapping_add(1);
        let Some(link) = bounds.link_bytes_s.filter(|_| bounds.free_processors > 0.0) else {
            return 0;
        };
        let rate = |at: usize| kind.rate(at, link, bounds.free_processors);
        let best = (0..LEVELS.len()).map(rate).fold(0.0, f64::max);
        let chosen = (0..LEVELS.len()).find(|at| rate(*at) * WORTH >= best).unwrap_or(0);
        LEVELS[kind.trial(chosen, rate).unwrap_or(chosen)]
    }

    /// A chunk of a kind was compressed at a level: so many bytes became so many, in so much
    /// processor time.
    pub fn on_chunk(&mut self, kind: usize, level: u8, before: u64, after: u64, took_ns: u64) {
        let at = LEVELS.iter().position(|it| *it == level).unwrap_or(0);
        if at == 0 || before == 0 {
            return;
        }
        let ratio = before as f64 / after.max(1) as f64;
        let speed = before as f64 / (took_ns.max(1) as f64 / 1e9);
        let mix = |old: f64, new: f64| old + NEWS * (new - old);
        let measured = &mut self.kinds[kind].measured[at];
        *measured = Some(match *measured {
            Some(old) => Measured { ratio: mix(old.ratio, ratio), speed: mix(old.speed, speed) },
            None => Measured { ratio, speed },
        });
    }
}

impl Kind {
    /// What a level is known or thought to do.
    fn expected(&self, at: usize) -> Measured {
        let known = |it: &usize| self.measured[*it].map(|measured| (*it, measured));
        let nearest = (1..LEVELS.len()).filter(|it| self.measured[*it].is_some());
        match nearest.min_by_key(|it| it.abs_diff(at)).as_ref().and_then(known) {
            Some((it, measured)) => Measured {
                ratio: measured.ratio.max(1.0).powf(GAINS[at] / GAINS[it]),
                speed: measured.speed * SPEEDS[at] / SPEEDS[it],
            },
            None => Measured { ratio: RATIO.powf(GAINS[at]), speed: SPEEDS[at] },
        }
    }

    /// Bytes of the file per second.
    fn rate(&self, at: usize, link: f64, processors: f64) -> f64 {
        if at == 0 {
            return link;
        }
        let Measured { ratio, speed } = self.measured[at].unwrap_or_else(|| self.expected(at));
        (link * ratio).min(processors * speed)
    }

    /// Another level than the chosen one, where it is time to look.
    fn trial(&self, chosen: usize, rate: impl Fn(usize) -> f64) -> Option<usize> {
        let is_hopeless = self.measured.iter().flatten().all(|it| it.ratio < SHRINKS)
            && self.measured.iter().any(Option::is_some);
        let every = if is_hopeless { HOPELESS_EVERY } else { TRIAL_EVERY };
        if !self.chunks.is_multiple_of(every) {
            return None;
        }
        // Up and down in turns: what was measured long ago may be so no longer.
        let is_up = (self.chunks / every).is_multiple_of(2);
        let other = if is_up { chosen + 1 } else { chosen.saturating_sub(1) };
        let exists = other < LEVELS.len() && other != chosen;
        // One that is known to lose half of the rate is left alone.
        (exists && rate(other) * 2.0 > rate(chosen)).then_some(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind of file, by what its chunks become at level 1, and a processor, by how fast it is
    /// against the one of the table.
    fn run(compression: &mut Compression, ratio: f64, pace: f64, bounds: Bounds) -> (f64, u8) {
        const CHUNKS: u32 = 2_000;
        const BYTES: u64 = 1 << 20;
        let (mut wire, mut busy_s) = (0.0, 0.0);
        let mut levels = [0u32; 10];
        for _ in 0..CHUNKS {
            let level = compression.choose(0, &bounds);
            levels[usize::from(level)] += 1;
            let at = LEVELS.iter().position(|it| *it == level).expect("one of them");
            let after = BYTES as f64 / if at == 0 { 1.0 } else { ratio.powf(GAINS[at]) };
            let took_s = BYTES as f64 / (SPEEDS[at] * pace);
            wire += after;
            busy_s += took_s;
            let took_ns = crate::average::whole(took_s * 1e9);
            compression.on_chunk(0, level, BYTES, crate::average::whole(after), took_ns);
        }
        let link_s = wire / bounds.link_bytes_s.unwrap_or(f64::INFINITY);
        let took_s = link_s.max(busy_s / bounds.free_processors);
        let most = (0..10u8).max_by_key(|level| levels[usize::from(*level)]).unwrap_or(0);
        (f64::from(CHUNKS) * BYTES as f64 / took_s, most)
    }

    /// The best rate that one level for all chunks would have.
    fn best(ratio: f64, pace: f64, bounds: Bounds) -> f64 {
        let link = bounds.link_bytes_s.unwrap_or(f64::INFINITY);
        let of = |at: usize| match at {
            0 => link,
            _ => (link * ratio.powf(GAINS[at])).min(bounds.free_processors * SPEEDS[at] * pace),
        };
        (0..LEVELS.len()).map(of).fold(0.0, f64::max)
    }

    #[test]
    fn it_is_about_as_fast_as_the_best_fixed_level() {
        for link in [2.5e6, 12.5e6, 125e6, 1_250e6] {
            for ratio in [1.0, 1.02, 1.3, 3.0] {
                for (pace, processors) in [(1.0, 0.6), (0.3, 0.6), (1.0, 8.0), (1.0, 0.05)] {
                    let bounds = Bounds { link_bytes_s: Some(link), free_processors: processors };
                    let (reached, _) = run(&mut Compression::new(1), ratio, pace, bounds);
                    let share = reached / best(ratio, pace, bounds);
                    let what = format!("{link} B/s, ratio {ratio}, {processors} x {pace}");
                    assert!(share > 0.94, "{what}: {share:.3}");
                }
            }
        }
    }

    #[test]
    fn it_is_off_where_it_cannot_pay() {
        let off = |link_bytes_s, free_processors| {
            let bounds = Bounds { link_bytes_s, free_processors };
            let mut compression = Compression::new(1);
            (0..1_000).all(|_| compression.choose(0, &bounds) == 0)
        };
        assert!(off(None, 8.0), "the link is not the bound");
        assert!(off(Some(12.5e6), 0.0), "no processor is free");
        // A fast link, slow processors, and what does not shrink: but for a look now and then.
        for (link, ratio) in [(1_250e6, 1.5), (12.5e6, 1.0)] {
            let bounds = Bounds { link_bytes_s: Some(link), free_processors: 0.5 };
            let (_, level) = run(&mut Compression::new(1), ratio, 1.0, bounds);
            assert_eq!(level, 0, "{link} B/s, ratio {ratio}");
        }
    }

    #[test]
    fn a_slower_link_is_worth_a_higher_level() {
        let level = |link: f64| {
            let bounds = Bounds { link_bytes_s: Some(link), free_processors: 1.0 };
            run(&mut Compression::new(1), 2.5, 1.0, bounds).1
        };
        assert!(level(2.5e6) >= level(25e6) && level(25e6) >= level(250e6));
        assert!(level(2.5e6) >= 5 && level(250e6) <= 1, "{} {}", level(2.5e6), level(250e6));
    }

    #[test]
    fn kinds_are_known_apart_and_learned_anew() {
        let bounds = Bounds { link_bytes_s: Some(12.5e6), free_processors: 1.0 };
        let mut compression = Compression::new(2);
        let feed = |compression: &mut Compression, kind: usize, ratio: f64| {
            let mut compressed = 0;
            for _ in 0..2_000 {
                let level = compression.choose(kind, &bounds);
                let after = 1e6 / if level == 0 { 1.0 } else { ratio };
                let after = crate::average::whole(after);
                compression.on_chunk(kind, level, 1_000_000, after, 5_000_000);
                compressed += u32::from(level > 0);
            }
            compressed
        };
        assert!(feed(&mut compression, 0, 3.0) > 1_900);
        assert!(feed(&mut compression, 1, 1.0) < 50);
        assert!(feed(&mut compression, 0, 1.0) < 400, "it no longer shrinks");
        assert!(feed(&mut compression, 0, 3.0) > 1_000, "it shrinks again");
    }
}
