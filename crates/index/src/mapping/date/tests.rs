//! Tests of dates, formats and date arithmetic.

use super::*;

fn read(format: &str, text: &str) -> String {
    let format = DateFormat::parse_pattern(format).unwrap();
    match format.parse(text, &Zone::utc()) {
        Ok(moment) => DateFormat::default_date().format(moment, &Zone::utc()),
        Err(error) => error.reason,
    }
}

#[test]
fn texts_are_read_by_the_first_format_that_fits() {
    for (format, text, expected) in [
        ("strict_date_optional_time", "2024", "2024-01-01T00:00:00.000Z"),
        ("strict_date_optional_time", "2024-02", "2024-02-01T00:00:00.000Z"),
        ("strict_date_optional_time", "2024-02-29T12", "2024-02-29T12:00:00.000Z"),
        ("strict_date_optional_time", "2024-02-29T12:30:15.5+01:00", "2024-02-29T11:30:15.500Z"),
        (
            "strict_date_optional_time",
            "2024-02-29T12:30:15,123456789Z",
            "2024-02-29T12:30:15.123456789Z",
        ),
        ("strict_date_optional_time", "1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ("date_optional_time", "2024-2-9", "2024-02-09T00:00:00.000Z"),
        ("epoch_millis", "1704067200123", "2024-01-01T00:00:00.123Z"),
        ("epoch_second", "893980800", "1998-05-01T00:00:00.000Z"),
        ("epoch_second", "-1.5", "1969-12-31T23:59:58.500Z"),
        ("yyyy-MM-dd HH:mm:ss", "2013-11-30 06:07:08", "2013-11-30T06:07:08.000Z"),
        ("yyyy-MM-dd HH:mm:ss||yyyy-MM-dd||epoch_millis", "2013-11-30", "2013-11-30T00:00:00.000Z"),
        ("yyyy-MM-dd HH:mm:ss||yyyy-MM-dd||epoch_millis", "1000", "1970-01-01T00:00:01.000Z"),
        ("basic_date", "20131130", "2013-11-30T00:00:00.000Z"),
        ("strict_date_hour_minute_second", "2013-11-30T01:02:03", "2013-11-30T01:02:03.000Z"),
        ("dd/MMM/yyyy:HH:mm:ss Z", "30/Nov/2013:01:02:03 -0500", "2013-11-30T06:02:03.000Z"),
        ("EEE, d MMM yyyy h:mm a", "Sat, 30 Nov 2013 1:02 PM", "2013-11-30T13:02:00.000Z"),
        ("yyyy-MM-dd['T'HH:mm[:ss]]", "2013-11-30T01:02", "2013-11-30T01:02:00.000Z"),
        ("yyyy-DDD", "2024-366", "2024-12-31T00:00:00.000Z"),
        (
            "uuuu-MM-dd'T'HH:mm:ss.SSSVV",
            "2024-07-01T12:00:00.000Europe/Berlin",
            "2024-07-01T10:00:00.000Z",
        ),
    ] {
        assert_eq!(read(format, text), expected, "{format} {text}");
    }
}

#[test]
fn what_is_no_date_is_refused() {
    for text in [
        "2024-13-01",
        "2024-02-30",
        "2023-02-29",
        "24",
        "2024-1-1",
        "2024-01-01 00:00",
        "",
        "x",
        "2024-01-01T25",
        "20240101x",
    ] {
        let reason = format!(
            "failed to parse date field [{text}] with format [strict_date_optional_time||epoch_millis]"
        );
        let expected = if text == "24" { "1970-01-01T00:00:00.024Z".to_owned() } else { reason };
        assert_eq!(read("strict_date_optional_time||epoch_millis", text), expected, "{text}");
    }
    assert_eq!(
        DateFormat::parse_pattern("yyyy-MM-ddbogus").unwrap_err().reason,
        "Invalid format: [yyyy-MM-ddbogus]: Unknown pattern letter: b"
    );
    assert!(DateFormat::parse_pattern("yyyy[").is_err());
    assert!(DateFormat::parse_pattern("yyyy'").is_err());
}

#[test]
fn whole_numbers_of_five_digits_are_milliseconds() {
    let format = DateFormat::default_date();
    assert_eq!(format.try_parse_integer(2015).unwrap().millis, 1_420_070_400_000);
    assert_eq!(format.try_parse_integer(20_150), Some(Moment::from_millis(20_150)));
    assert_eq!(format.try_parse_integer(-1), Some(Moment::from_millis(-1)));
}

#[test]
fn dates_are_written_by_the_first_format() {
    let berlin = Zone::parse("Europe/Berlin").unwrap();
    for (format, zone, expected) in [
        ("strict_date_optional_time||epoch_millis", Zone::utc(), "2024-07-01T10:00:00.007Z"),
        ("strict_date_optional_time", berlin.clone(), "2024-07-01T12:00:00.007+02:00"),
        ("epoch_millis", Zone::utc(), "1719828000007"),
        ("epoch_second", Zone::utc(), "1719828000.007"),
        ("yyyy-MM-dd HH:mm:ss", berlin, "2024-07-01 12:00:00"),
        (
            "EEEE, d MMMM yy hh a XX",
            Zone::parse("-05:30").unwrap(),
            "Monday, 1 July 24 04 AM -0530",
        ),
        ("basic_ordinal_date", Zone::utc(), "2024183"),
        ("basic_date_time", Zone::utc(), "20240701T100000.007Z"),
    ] {
        let format = DateFormat::parse_pattern(format).unwrap();
        assert_eq!(format.format_millis(1_719_828_000_007, &zone), expected);
    }
}

#[test]
fn date_math_adds_and_rounds() {
    let format = DateFormat::default_date();
    let now = u64::try_from(format.try_parse("2024-03-31T12:34:56.789").unwrap().millis).unwrap();
    let berlin = Zone::parse("Europe/Berlin").unwrap();
    let utc = Zone::utc();
    for (text, zone, round_up, expected) in [
        ("now", &utc, false, "2024-03-31T12:34:56.789Z"),
        ("now-1d/d", &utc, false, "2024-03-30T00:00:00.000Z"),
        ("now-1d/d", &utc, true, "2024-03-30T23:59:59.999Z"),
        ("now-1M", &utc, false, "2024-02-29T12:34:56.789Z"),
        ("now/w", &utc, false, "2024-03-25T00:00:00.000Z"),
        ("now/y", &utc, true, "2024-12-31T23:59:59.999Z"),
        ("2024-01-31||+1M/d", &utc, false, "2024-02-29T00:00:00.000Z"),
        ("2024-01-31", &utc, true, "2024-01-31T23:59:59.999Z"),
        ("2024", &utc, true, "2024-01-01T23:59:59.999Z"),
        ("2024-01-31T10:11", &utc, true, "2024-01-31T10:11:59.999Z"),
        // The day of the change to summer time has 23 hours.
        ("now/d", &berlin, false, "2024-03-30T23:00:00.000Z"),
        ("now/d", &berlin, true, "2024-03-31T21:59:59.999Z"),
        ("2024-03-30T02:30||+1d", &berlin, false, "2024-03-31T01:30:00.000Z"),
        ("2024-01-01", &berlin, false, "2023-12-31T23:00:00.000Z"),
    ] {
        let millis = parse_math(text, &format, zone, round_up, now).unwrap();
        assert_eq!(format.format_millis(millis, &utc), expected, "{text} {zone}");
    }
    for (text, reason) in [
        ("now+1", "truncated date math [+1]"),
        ("now+1x", "unit [x] not supported for date math [+1x]"),
        ("now*1d", "operator not supported for date math [*1d]"),
        ("now/2d", "rounding `/` can only be used on single unit types [/2d]"),
        (
            "x",
            "failed to parse date field [x] with format [strict_date_optional_time||epoch_millis]: [Failed to parse with all enclosed parsers]",
        ),
    ] {
        assert_eq!(parse_math(text, &format, &utc, false, now).unwrap_err().reason, reason);
    }
}

#[test]
fn calendar_units_start_where_the_zone_says() {
    let berlin = Zone::parse("Europe/Berlin").unwrap();
    let at = DateFormat::default_date().try_parse("2024-11-15T12:34:56Z").unwrap().millis;
    let text = |millis| DateFormat::default_date().format_millis(millis, &berlin);
    assert_eq!(text(floor(at, Unit::Quarter, &berlin)), "2024-10-01T00:00:00.000+02:00");
    assert_eq!(text(floor(at, Unit::Month, &berlin)), "2024-11-01T00:00:00.000+01:00");
    assert_eq!(
        text(next(floor(at, Unit::Month, &berlin), Unit::Month, &berlin)),
        "2024-12-01T00:00:00.000+01:00"
    );
    assert_eq!(text(floor(at, Unit::Hour, &berlin)), "2024-11-15T13:00:00.000+01:00");
    let india = Zone::parse("Asia/Kolkata").unwrap();
    assert_eq!(floor(at, Unit::Hour, &india) % 3_600_000, 1_800_000);
    assert!(Zone::parse("Mars/Base").is_err());
}
