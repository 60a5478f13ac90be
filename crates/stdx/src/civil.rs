//! Dates of the proleptic Gregorian calendar and days since 1970-01-01. Both conversions are Howard Hinnant's
//! ("chrono-Compatible Low-Level Date Algorithms", `days_from_civil`, `civil_from_days`).
//!
//! Time zones, and how a date is printed or read, are not here.

/// A date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
}

impl Date {
    /// The date of a day since 1970-01-01; of any but the last 719,468 that an `i64` holds.
    #[must_use]
    pub fn of_day(day: i64) -> Self {
        // Years begin in March, so that the day of a leap year is the last of them.
        let shifted = day + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
        }
    }

    /// Its day since 1970-01-01.
    #[must_use]
    pub fn days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let from_march = if self.month > 2 { self.month - 3 } else { self.month + 9 };
        let of_year = (153 * from_march + 2) / 5 + self.day - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    /// So many months later, or earlier: on the same day, or on the last of a shorter month.
    #[must_use]
    pub fn plus_months(self, months: i64) -> Self {
        let all = self.year * 12 + (self.month - 1) + months;
        let (year, month) = (all.div_euclid(12), all.rem_euclid(12) + 1);
        Self { year, month, day: self.day.min(days_in_month(year, month)) }
    }
}

/// Whether a year has 366 days.
#[must_use]
pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// How many days a month (1 to 12) has.
#[must_use]
pub fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_an_era_is_the_one_after_the_day_before() {
        let mut date = Date { year: 1600, month: 1, day: 1 };
        for day in date.days()..date.days() + 2 * 146_097 {
            assert_eq!((Date::of_day(day), date.days()), (date, day));
            date.day += 1;
            if date.day > days_in_month(date.year, date.month) {
                date = Date { day: 1, ..date }.plus_months(1);
            }
        }
        assert_eq!(Date::of_day(0), Date { year: 1970, month: 1, day: 1 });
        assert_eq!(Date::of_day(-719_528), Date { year: 0, month: 1, day: 1 });
    }

    #[test]
    fn months_that_are_shorter_end_on_their_last_day() {
        let last = Date { year: 2024, month: 1, day: 31 };
        assert_eq!(last.plus_months(1), Date { year: 2024, month: 2, day: 29 });
        assert_eq!(last.plus_months(-11), Date { year: 2023, month: 2, day: 28 });
        assert_eq!(last.plus_months(12), Date { year: 2025, month: 1, day: 31 });
    }
}
