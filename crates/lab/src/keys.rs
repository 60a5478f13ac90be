//! Which key is asked for next: the distributions and key names of YCSB's core workload, so that
//! figures can stand beside those of others who measured with it. It sends nothing.
//!
//! Source: YCSB core 0.17.0, `ZipfianGenerator`, `ScrambledZipfianGenerator`, `CoreWorkload`; the
//! method is Gray et al., *Quickly Generating Billion-Record Synthetic Databases*, SIGMOD 1994,
//! section 3. `tests/key_distributions.rs` compares with counts drawn by YCSB itself.

use plimsoll_control::Random;

/// The skew: YCSB's `ZIPFIAN_CONSTANT`.
pub const THETA: f64 = 0.99;
/// The items that scrambled draws are made among before they are spread over the keys, so that the
/// skew does not depend on the number of keys.
const SCRAMBLED_ITEMS: f64 = 1e10;
/// The sum of 1/n^θ over so many items, which would take minutes to compute.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Draws ranks from 0 on, of which the lower are the more frequent: rank k with a probability in
/// proportion to 1/(k+1)^θ.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// Ranks below `items`, at least 2. Takes time in proportion to them.
    #[must_use]
    pub fn new(items: u32) -> Self {
        let zeta = (1..=items.max(2)).map(|n| f64::from(n).powf(-THETA)).sum();
        Self::with_zeta(f64::from(items.max(2)), zeta)
    }

    fn with_zeta(items: f64, zeta: f64) -> Self {
        let zeta_2 = 1.0 + 0.5f64.powf(THETA);
        Self {
            items,
            zeta,
            alpha: 1.0 / (1.0 - THETA),
            eta: (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - zeta_2 / zeta),
        }
    }

    /// The next rank.
    pub fn next(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = self.items * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is not negative, and far below 2^53"
        )]
        let rank = rank as u64;
        rank
    }
}

/// How the keys that are asked for are chosen.
#[derive(Clone, Debug)]
pub enum Distribution {
    /// Each as often as any other.
    Uniform,
    /// A few far more often than the rest, and those anywhere among the keys.
    ScrambledZipfian(Zipfian),
}

impl Distribution {
    /// YCSB's `requestdistribution=zipfian`.
    #[must_use]
    pub fn scrambled_zipfian() -> Self {
        Self::ScrambledZipfian(Zipfian::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA))
    }

    /// The number of the next key, below `keys`, which is at least 1.
    pub fn next(&self, keys: u64, random: &mut Random) -> u64 {
        let keys = keys.max(1);
        match self {
            Self::Uniform => random.below(usize::try_from(keys).unwrap_or(usize::MAX)) as u64,
            Self::ScrambledZipfian(zipfian) => hash(zipfian.next(random)) % keys,
        }
    }
}

/// The name of a key: YCSB's, with `insertorder=hashed`.
#[must_use]
pub fn name(number: u64) -> String {
    format!("user{}", hash(number))
}

/// FNV-1 with the octets of the number taken from the low end, made positive as Java does it.
fn hash(number: u64) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for octet in number.to_le_bytes() {
        hash = (hash ^ u64::from(octet)).wrapping_mul(1_099_511_628_211);
    }
    hash.cast_signed().unsigned_abs()
}
