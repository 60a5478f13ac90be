//! The calendar: civil dates and instants, and what calendar units do with them.

use super::Zone;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// A date and time of day without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// Milliseconds since midnight.
    pub millis_of_day: i64,
}

impl Civil {
    /// The civil time of milliseconds since 1970 that are local already.
    #[must_use]
    pub fn from_local_millis(millis: i64) -> Self {
        let (year, month, day) = civil_from_days(millis.div_euclid(DAY_MS));
        Self { year, month, day, millis_of_day: millis.rem_euclid(DAY_MS) }
    }

    /// The civil time of an instant in a zone.
    #[must_use]
    pub fn at(millis: i64, zone: &Zone) -> Self {
        Self::from_local_millis(millis.saturating_add(zone.offset_ms(millis)))
    }

    /// Milliseconds since 1970 as if it were UTC.
    #[must_use]
    pub fn local_millis(&self) -> i64 {
        days_from_civil(self.year, self.month, self.day) * DAY_MS + self.millis_of_day
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
        (days_from_civil(self.year, self.month, self.day) + 3).rem_euclid(7) + 1
    }

    fn plus_months(self, months: i64) -> Self {
        let all = self.year * 12 + (self.month - 1) + months;
        let (year, month) = (all.div_euclid(12), all.rem_euclid(12) + 1);
        Self { year, month, day: self.day.min(days_in_month(year, month)), ..self }
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
    /// The unit of a letter or word of a `calendar_interval`, such as `1d`, `day` or `M`.
    #[must_use]
    pub fn parse_interval(text: &str) -> Option<Self> {
        Some(match text {
            "second" | "1s" => Self::Second,
            "minute" | "1m" => Self::Minute,
            "hour" | "1h" => Self::Hour,
            "day" | "1d" => Self::Day,
            "week" | "1w" => Self::Week,
            "month" | "1M" => Self::Month,
            "quarter" | "1q" => Self::Quarter,
            "year" | "1y" => Self::Year,
            _ => return None,
        })
    }

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
        Unit::Month => civil.day = 1,
        Unit::Quarter => {
            civil.day = 1;
            civil.month = (civil.month - 1) / 3 * 3 + 1;
        }
        Unit::Year => {
            civil.day = 1;
            civil.month = 1;
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

/// Days since 1970-01-01 of a date in the Gregorian calendar: `days_from_civil` of H. Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms".
pub(super) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date of days since 1970-01-01: `civil_from_days` of the same source.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
