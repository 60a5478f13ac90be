//! Runs an experiment.
use plimsoll_lab::{Progress, SimulateOptions, Size};
struct P;
impl Progress for P { fn note(&mut self, w: &str) { eprintln!("{w}"); } fn step(&mut self, _: usize, _: usize, _: &str) -> bool { true } }
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let size = match a.get(2).map(String::as_str) { Some("full") => Size::Full, Some("quick") => Size::Quick, _ => Size::Study };
    let t = std::time::Instant::now();
    let o = plimsoll_lab::simulate(&SimulateOptions { experiment: a[1].clone(), nodes: None, size, seed: 1, out: Some(format!("/tmp/lab/{}", a[1]).into()) }, &mut P).unwrap();
    eprintln!("{} took {:?}, {} chars", a[1], t.elapsed(), o.text.len());
}
