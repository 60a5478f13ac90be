//! The calendar: civil dates and instants, and what calendar units do with them.

use plimsoll_stdx::civil::Date;

use super::Zone;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// A date and time of day without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The date.
    pub date: Date,
    /// Milliseconds since midnight.
    pub millis_of_day: i64,
}

impl Civil {
    /// The civil time of milliseconds since 1970 that are local already.
    #[must_use]
    pub fn from_local_millis(millis: i64) -> Self {
        let date = Date::of_day(millis.div_euclid(DAY_MS));
        Self { date, millis_of_day: millis.rem_euclid(DAY_MS) }
    }

    /// The civil time of an instant in a zone.
    #[must_use]
    pub fn at(millis: i64, zone: &Zone) -> Self {
        Self::from_local_millis(millis.saturating_add(zone.offset_ms(millis)))
    }

    /// Milliseconds since 1970 as if it were UTC.
    #[must_use]
    pub fn local_millis(&self) -> i64 {
        self.date.days() * DAY_MS + self.millis_of_day
    }

    /// The instant in a zone; a time that the clock skips is moved on by what it skips, of one
    /// that comes twice it is the first.
    #[must_use]
    pub fn instant(&self, zone: &Zone) -> i64 {
        zone.to_utc(self.local_millis())
    }

    /// 1 (Monday) to 7 (Sunday).
    #[must_use]
    pub fn weekday(&self) -> i64 {
        (self.date.days() + 3).rem_euclid(7) + 1
    }

    fn plus_months(self, months: i64) -> Self {
        Self { date: self.date.plus_months(months), ..self }
    }
}

/// A unit of the calendar, or of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `ms`.
    Millisecond,
    /// `s`.
    Second,
    /// `m`.
    Minute,
    /// `h`.
    Hour,
    /// `d`: from midnight to midnight, which is not always 24 hours.
    Day,
    /// `w`: from Monday.
    Week,
    /// `M`.
    Month,
    /// `q`.
    Quarter,
    /// `y`.
    Year,
}

impl Unit {
    /// The unit of a letter of date math.
    #[must_use]
    pub fn parse_math(letter: char) -> Option<Self> {
        Some(match letter {
            'y' => Self::Year,
            'M' => Self::Month,
            'w' => Self::Week,
            'd' => Self::Day,
            'h' | 'H' => Self::Hour,
            'm' => Self::Minute,
            's' => Self::Second,
            _ => return None,
        })
    }

    fn fixed_ms(self) -> Option<i64> {
        match self {
            Self::Millisecond => Some(1),
            Self::Second => Some(1000),
            Self::Minute => Some(60_000),
            Self::Hour => Some(3_600_000),
            _ => None,
        }
    }
}

/// The start of the unit that an instant is in.
#[must_use]
pub fn floor(millis: i64, unit: Unit, zone: &Zone) -> i64 {
    if let Some(fixed) = unit.fixed_ms() {
        let offset = zone.offset_ms(millis);
        let local = millis.saturating_add(offset);
        return local - local.rem_euclid(fixed) - offset;
    }
    let mut civil = Civil::at(millis, zone);
    civil.millis_of_day = 0;
    match unit {
        Unit::Week => {
            let monday = civil.local_millis() - (civil.weekday() - 1) * DAY_MS;
            return zone.to_utc(monday);
        }
        Unit::Month => civil.date.day = 1,
        Unit::Quarter => {
            civil.date.day = 1;
            civil.date.month = (civil.date.month - 1) / 3 * 3 + 1;
        }
        Unit::Year => {
            civil.date.day = 1;
            civil.date.month = 1;
        }
        _ => {}
    }
    civil.instant(zone)
}

/// The instant so many units later (or earlier).
#[must_use]
pub fn add(millis: i64, count: i64, unit: Unit, zone: &Zone) -> i64 {
    if let Some(fixed) = unit.fixed_ms() {
        return millis.saturating_add(count.saturating_mul(fixed));
    }
    // A million years is past every date that can be written.
    let count = count.clamp(-12_000_000, 12_000_000);
    let civil = Civil::at(millis, zone);
    let days = |days: i64| zone.to_utc(civil.local_millis() + days * DAY_MS);
    match unit {
        Unit::Day => days(count),
        Unit::Week => days(count * 7),
        Unit::Month => civil.plus_months(count).instant(zone),
        Unit::Quarter => civil.plus_months(count * 3).instant(zone),
        _ => civil.plus_months(count * 12).instant(zone),
    }
}

/// The start of the unit after the one that starts at `start`.
#[must_use]
pub fn next(start: i64, unit: Unit, zone: &Zone) -> i64 {
    add(start, 1, unit, zone)
}
