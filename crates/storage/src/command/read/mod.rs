//! The commands that change nothing, as their arguments ask for them.

pub(super) mod hashes;
pub(super) mod keys;
pub(super) mod strings;

use super::args::Args;

/// A command that changes nothing.
#[derive(Clone, Copy, Debug)]
pub enum Read<'a> {
    /// A string's value.
    Get(&'a [u8]),
    /// The values of several strings.
    GetMany(Args<'a>),
    /// A string's length.
    Length(&'a [u8]),
    /// A string's digest.
    Digest(&'a [u8]),
    /// A part of a string.
    GetRange(Range<'a>),
    /// A bit of a string.
    GetBit {
        /// The key.
        key: &'a [u8],
        /// Which bit, the highest of the first byte being 0.
        offset: u64,
    },
    /// How many bits of a string are set.
    BitCount {
        /// The key.
        key: &'a [u8],
        /// In which part; the whole string by default.
        part: Option<BitPart>,
    },
    /// The longest common subsequence of two strings.
    Lcs(Lcs<'a>),
    /// A field's value.
    HashGet(OneField<'a>),
    /// The values of several fields.
    HashGetMany {
        /// The hash.
        key: &'a [u8],
        /// The fields.
        fields: Args<'a>,
    },
    /// All fields, or their values, or both.
    HashAll {
        /// The hash.
        key: &'a [u8],
        /// What of them.
        parts: Parts,
    },
    /// How many fields there are.
    HashLength(&'a [u8]),
    /// Whether a field is there.
    HashExists(OneField<'a>),
    /// The length of a field's value.
    HashValueLength(OneField<'a>),
    /// Fields, some at a time.
    HashScan {
        /// The hash.
        key: &'a [u8],
        /// Where to go on, and what to show.
        scan: Scan<'a>,
    },
    /// Fields of a range, in their order.
    HashRange(super::range::RangePage<'a>),
    /// Fields drawn at random.
    HashRandom {
        /// The hash.
        key: &'a [u8],
        /// How many different ones, or below 0 how many with repeats; one alone by default.
        count: Option<i64>,
        /// Their values too.
        values: bool,
    },
    /// When fields expire.
    FieldExpiry {
        /// The hash.
        key: &'a [u8],
        /// How to say it.
        form: super::args::TimeForm,
        /// The fields.
        fields: Args<'a>,
    },
    /// Where the first bit of a kind stands in a string.
    BitPosition {
        /// The string.
        key: &'a [u8],
        /// Whether it is 1.
        bit: bool,
        /// The part of the string, read after the key's type is checked, as Redis does.
        part: Args<'a>,
    },
    /// Integers among a string's bits.
    BitField {
        /// The string.
        key: &'a [u8],
        /// What is shown, as [`super::bitfield`] reads it.
        steps: Args<'a>,
    },
    /// How many of the keys are there.
    Exists(Args<'a>),
    /// What a key holds.
    Kind(&'a [u8]),
    /// When a key expires.
    Expiry {
        /// The key.
        key: &'a [u8],
        /// How to say it.
        form: super::args::TimeForm,
    },
    /// Keys, some at a time.
    Scan(Scan<'a>),
    /// All keys that match a pattern.
    Keys(&'a [u8]),
    /// A key drawn at random.
    RandomKey,
    /// How many keys there are.
    Size,
    /// How a key's value is kept.
    Object {
        /// The key.
        key: &'a [u8],
        /// What of it.
        question: ObjectQuestion,
    },
    /// What OBJECT can tell.
    ObjectHelp,
    /// How many bytes a key's rows take.
    MemoryUsage(&'a [u8]),
}

/// One field of a hash.
#[derive(Clone, Copy, Debug)]
pub struct OneField<'a> {
    /// The hash.
    pub key: &'a [u8],
    /// The field.
    pub field: &'a [u8],
}

/// A part of a string, both ends included; below 0 they count from the end.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// The string.
    pub key: &'a [u8],
    /// The first byte.
    pub start: i64,
    /// The last byte.
    pub end: i64,
}

/// A part of a string whose bits are counted, both ends included.
#[derive(Clone, Copy, Debug)]
pub struct BitPart {
    /// The first byte or bit.
    pub start: i64,
    /// The last byte or bit.
    pub end: i64,
    /// The ends are bits.
    pub bits: bool,
}

/// What of a hash's fields is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Names.
    Fields,
    /// Values.
    Values,
    /// Both.
    Pairs,
}

/// What of two strings' longest common subsequence is shown.
#[derive(Clone, Copy, Debug)]
pub struct Lcs<'a> {
    /// The strings' keys.
    pub keys: [&'a [u8]; 2],
    /// What is shown.
    pub form: LcsForm,
}

/// How the longest common subsequence is shown.
#[derive(Clone, Copy, Debug)]
pub enum LcsForm {
    /// Itself.
    Text,
    /// Its length.
    Length,
    /// Where the matching runs stand.
    Matches {
        /// Shorter runs are left out.
        length_min: usize,
        /// With the length of each run.
        lengths: bool,
    },
}

/// Where a scan goes on, and what it shows.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// 0 to begin, then what the answer before said.
    pub cursor: u64,
    /// Only what matches.
    pub pattern: Option<&'a [u8]>,
    /// How many to look at, at least.
    pub count: usize,
    /// Only keys of this type, in any case.
    pub kind: Option<&'a [u8]>,
    /// Only one part of the keys.
    pub split: Option<Split>,
}

/// One of several equal parts of the places that keys may have. Together they are all, whatever keys come
/// and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Which, from 0.
    pub at: u64,
    /// Of how many.
    pub count: u64,
}

impl Split {
    /// The most parts.
    pub const COUNT_MAX: u64 = 1 << 16;

    /// The first place of the part, of so many in all.
    #[must_use]
    pub fn from(self, places: u64) -> u64 {
        Self::bound(self.at, self.count, places)
    }

    /// The first place after it.
    #[must_use]
    pub fn to(self, places: u64) -> u64 {
        Self::bound(self.at + 1, self.count, places)
    }

    fn bound(at: u64, count: u64, places: u64) -> u64 {
        let bound = u128::from(places) * u128::from(at) / u128::from(count);
        u64::try_from(bound).unwrap_or(places)
    }
}

/// What OBJECT is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectQuestion {
    /// The name of an encoding that Redis would choose.
    Encoding,
    /// How many refer to the value: always one.
    References,
    /// Seconds since the key was last used, which is not kept: always 0.
    IdleTime,
    /// How often it is used, which is not kept: always refused.
    Frequency,
}
