//! The commands that may change rows, as their arguments ask for it.

pub(crate) mod fields;
pub(super) mod hashes;
pub(super) mod keys;
pub(super) mod strings;

use super::args::{Args, ExpiryCondition, Moment, Pairs};
use super::condition::Condition;

/// A command that may change rows.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// Sets a string.
    Set(Set<'a>),
    /// Takes a string away and shows it.
    GetDelete(&'a [u8]),
    /// Shows a string and changes its expiry.
    GetExpire {
        /// The string.
        key: &'a [u8],
        /// What becomes of its expiry.
        expiry: GetExpiry<'a>,
    },
    /// Sets several strings.
    SetMany {
        /// Keys and values.
        pairs: Pairs<'a>,
        /// Only where none of them is there; the answer then is a number.
        absent: bool,
    },
    /// Adds to the end of a string.
    Append {
        /// The string.
        key: &'a [u8],
        /// What is added.
        value: &'a [u8],
    },
    /// Overwrites a part of a string.
    SetRange {
        /// The string.
        key: &'a [u8],
        /// The first byte overwritten.
        offset: usize,
        /// With what.
        value: &'a [u8],
    },
    /// Adds to a whole number.
    Increment {
        /// The string.
        key: &'a [u8],
        /// How much.
        by: i64,
    },
    /// Adds to a number.
    IncrementFloat {
        /// The string.
        key: &'a [u8],
        /// How much; read after the key's type is checked, as Redis does.
        by: &'a [u8],
    },
    /// Sets a bit of a string.
    SetBit {
        /// The string.
        key: &'a [u8],
        /// Which bit, the highest of the first byte being 0.
        offset: u64,
        /// To what.
        bit: bool,
    },
    /// Joins the bits of strings into another.
    BitJoin {
        /// How.
        how: BitJoin,
        /// The string that they become.
        to: &'a [u8],
        /// The strings.
        from: Args<'a>,
    },
    /// Changes integers among a string's bits.
    BitField {
        /// The string.
        key: &'a [u8],
        /// What is done, as [`super::bitfield`] reads it.
        steps: Args<'a>,
    },
    /// Sets fields of a hash.
    HashSet {
        /// The hash.
        key: &'a [u8],
        /// Fields and values.
        pairs: Pairs<'a>,
        /// Answers OK rather than how many are new.
        ok: bool,
    },
    /// Sets a field that is not there.
    HashSetNew {
        /// The hash.
        key: &'a [u8],
        /// The field.
        field: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// Takes fields away.
    HashDelete {
        /// The hash.
        key: &'a [u8],
        /// The fields.
        fields: Args<'a>,
        /// Shows their values rather than how many there were.
        get: bool,
    },
    /// Sets or deletes fields where another one is what it must be.
    HashCheckSet(super::check_set::CheckSet<'a>),
    /// Takes the fields of a range away.
    HashDeleteRange {
        /// The hash.
        key: &'a [u8],
        /// The fields.
        range: super::range::FieldRange<'a>,
    },
    /// Adds to a field that is a whole number.
    HashIncrement {
        /// The hash.
        key: &'a [u8],
        /// The field.
        field: &'a [u8],
        /// How much.
        by: i64,
    },
    /// Adds to a field that is a number.
    HashIncrementFloat {
        /// The hash.
        key: &'a [u8],
        /// The field.
        field: &'a [u8],
        /// How much: a number.
        by: &'a [u8],
    },
    /// Sets when fields expire.
    FieldExpire {
        /// The hash.
        key: &'a [u8],
        /// The new expiry.
        moment: Moment,
        /// When it takes the place of the old one.
        condition: ExpiryCondition,
        /// The fields.
        fields: Args<'a>,
    },
    /// Takes the expiry of fields away.
    FieldPersist {
        /// The hash.
        key: &'a [u8],
        /// The fields.
        fields: Args<'a>,
    },
    /// Shows fields and changes their expiry.
    FieldGetExpire {
        /// The hash.
        key: &'a [u8],
        /// What becomes of their expiry.
        expiry: NewExpiry,
        /// The fields.
        fields: Args<'a>,
    },
    /// Sets fields and their expiry.
    FieldSetExpire {
        /// The hash.
        key: &'a [u8],
        /// Only where all of them are there (true), or none is (false).
        present: Option<bool>,
        /// What becomes of their expiry.
        expiry: NewExpiry,
        /// Fields and values.
        pairs: Pairs<'a>,
    },
    /// Takes keys away.
    Delete(Args<'a>),
    /// Takes a string away where it is what it must be.
    DeleteIf {
        /// The key.
        key: &'a [u8],
        /// What it must be; none where nobody knows the condition, which Redis says of strings alone.
        condition: Option<Condition<'a>>,
    },
    /// Sets when a key expires.
    Expire {
        /// The key.
        key: &'a [u8],
        /// The new expiry.
        moment: Moment,
        /// When it takes the place of the old one.
        condition: ExpiryCondition,
    },
    /// Takes a key's expiry away.
    Persist(&'a [u8]),
    /// Gives a key another name.
    Rename {
        /// The key.
        from: &'a [u8],
        /// Its new name.
        to: &'a [u8],
        /// Only where nothing has the new name; the answer then is a number.
        absent: bool,
    },
    /// Makes a second key of the same content.
    Copy {
        /// The key.
        from: &'a [u8],
        /// The name of the second.
        to: &'a [u8],
        /// Also where something has that name.
        replace: bool,
    },
    /// Takes all keys away.
    Flush,
}

/// How the bits of strings are joined; a shorter one counts as followed by zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitJoin {
    /// 1 where all have it.
    And,
    /// 1 where any has it.
    Or,
    /// 1 where an odd number of them have it.
    Xor,
    /// 1 where the only one has not.
    Not,
}

/// Sets a string.
#[derive(Clone, Copy, Debug)]
pub struct Set<'a> {
    /// The string.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Only where the key is there (true), or is not (false).
    pub present: Option<bool>,
    /// Only where the string is this.
    pub condition: Option<Condition<'a>>,
    /// What becomes of its expiry.
    pub expiry: NewExpiry,
    /// What it answers.
    pub answer: SetAnswer,
}

/// What setting a string answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAnswer {
    /// OK, or nothing where it was not set.
    Ok,
    /// The string there was before.
    Old,
    /// 1, or 0 where it was not set.
    Number,
}

/// What becomes of an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewExpiry {
    /// There is none any more.
    Clear,
    /// It stays as it is.
    Keep,
    /// It is this.
    At(Moment),
}

/// What becomes of the expiry of a string that is read. The time is read after the key's type
/// is checked, as Redis does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetExpiry<'a> {
    /// There is none any more.
    Clear,
    /// It stays as it is.
    Keep,
    /// It is what the text says in this form.
    At(super::args::TimeForm, &'a [u8]),
}
