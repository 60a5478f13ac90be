//! Small pictures as SVG: lines over numbers, bars over names. Colours come from classes, so that
//! the page decides them, and light and dark need one picture.

use std::fmt::Write;

use super::wording::figures;

/// Size of a picture in its own units; it grows and shrinks with the page.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;

/// A line: its name and points.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// How the vertical axis runs.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    Linear,
    Log,
}

/// Lines over a numeric axis, whose ticks are given.
pub(crate) fn lines(
    title: &str,
    lines: &[Line],
    ticks: &[(f64, String)],
    scale: Scale,
    unit: &str,
) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let (from, to) = bounds(all().map(|point| point.0).chain(ticks.iter().map(|tick| tick.0)));
    let axis = Axis::of(all().map(|point| point.1), scale);
    let x = |value: f64| LEFT + (value - from) / (to - from).max(1e-12) * (WIDTH - LEFT - RIGHT);
    let mut body = axis.draw(unit);
    for (at, label) in ticks {
        let at = x(*at);
        let _ = write!(
            body,
            r#"<text x="{at:.1}" y="{:.1}" class="tick mid">{label}</text>"#,
            HEIGHT - 22.0
        );
    }
    for (number, line) in lines.iter().enumerate() {
        let points: Vec<String> = line
            .points
            .iter()
            .map(|(at, value)| format!("{:.1},{:.1}", x(*at), axis.y(*value)))
            .collect();
        let class = number % COLOURS;
        let _ = write!(body, r#"<polyline class="line c{class}" points="{}"/>"#, points.join(" "));
    }
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    frame(title, &body, &names)
}

/// Groups of bars: for each group a name and one value for each of `names`.
pub(crate) fn bars(
    title: &str,
    names: &[&str],
    groups: &[(String, Vec<f64>)],
    unit: &str,
) -> String {
    let axis =
        Axis::of(groups.iter().flat_map(|group| &group.1).copied().chain([0.0]), Scale::Linear);
    let mut body = axis.draw(unit);
    let wide = (WIDTH - LEFT - RIGHT) / groups.len().max(1) as f64;
    let bar = wide * 0.8 / names.len().max(1) as f64;
    for (place, (group, values)) in groups.iter().enumerate() {
        let start = LEFT + place as f64 * wide + wide * 0.1;
        for (number, value) in values.iter().enumerate() {
            let (at, top) = (start + number as f64 * bar, axis.y(*value));
            let class = number % COLOURS;
            let _ = write!(
                body,
                r#"<rect class="bar c{class}" x="{at:.1}" y="{top:.1}" width="{:.1}" height="{:.1}"/>"#,
                bar * 0.9,
                (axis.y(0.0) - top).max(0.0)
            );
        }
        let middle = start + wide * 0.4;
        let _ = write!(
            body,
            r#"<text x="{middle:.1}" y="{:.1}" class="tick mid">{}</text>"#,
            HEIGHT - 22.0,
            escape(group)
        );
    }
    frame(title, &body, names)
}

/// Classes of colour that the page knows.
pub(crate) const COLOURS: usize = 9;

fn frame(title: &str, body: &str, names: &[&str]) -> String {
    let mut legend = String::new();
    for (number, name) in names.iter().enumerate() {
        let class = number % COLOURS;
        let _ = write!(legend, r#"<span><i class="c{class}"></i>{}</span>"#, escape(name));
    }
    format!(
        r#"<figure><figcaption>{}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}">{body}</svg><div class="legend">{legend}</div></figure>"#,
        escape(title),
        escape(title)
    )
}

struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, scale: Scale) -> Self {
        let (low, high) = bounds(values);
        match scale {
            Scale::Linear => Self { low: 0.0, high: round_up(high.max(1e-9)), scale },
            Scale::Log => {
                let low = 10f64.powf(low.max(1e-3).log10().floor());
                let high = 10f64.powf(high.max(1e-2).log10().ceil());
                Self { low, high: high.max(low * 10.0), scale }
            }
        }
    }

    fn y(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn draw(&self, unit: &str) -> String {
        let mut ticks = Vec::new();
        match self.scale {
            Scale::Linear => ticks.extend((0..=4).map(|step| self.high * f64::from(step) / 4.0)),
            Scale::Log => {
                let mut tick = self.low;
                while tick <= self.high * 1.001 {
                    ticks.push(tick);
                    tick *= 10.0;
                }
            }
        }
        let mut body = String::new();
        for tick in ticks {
            let y = self.y(tick);
            let right = WIDTH - RIGHT;
            let label = figures(tick);
            let _ = write!(
                body,
                r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/><text x="{:.1}" y="{:.1}" class="tick end">{label}</text>"#,
                LEFT - 6.0,
                y + 4.0
            );
        }
        let _ = write!(
            body,
            r#"<text x="{:.1}" y="{:.1}" class="tick mid">{}</text>"#,
            WIDTH / 2.0,
            HEIGHT - 4.0,
            escape(unit)
        );
        body
    }
}

/// The least and the greatest; an empty list gives 0 and 1.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = values.filter(|value| value.is_finite());
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low.is_finite() { (low, high) } else { (0.0, 1.0) }
}

/// The next number whose quarters are short.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0];
    steps.iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(10.0 * power)
}

/// Text for a page: whatever a name holds, it stays text.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Ticks of an axis of so many seconds.
pub(super) fn seconds(end: f64) -> Vec<(f64, String)> {
    (0..=4).map(|step| end * f64::from(step) / 4.0).map(|at| (at, format!("{at:.0} s"))).collect()
}
