//! The distributions of keys beside what YCSB core 0.17.0 drew itself (`ycsb/Draws.java` says how).

use plimsoll_control::Random;
use plimsoll_lab::keys::{Distribution, Zipfian, name};

const ITEMS: u32 = 100;

fn counts_of(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|count| count.parse().expect("a count")).collect()
}

fn drawn(draws: usize, mut next: impl FnMut() -> u64) -> Vec<f64> {
    let mut counts = vec![0.0; ITEMS as usize];
    for _ in 0..draws {
        counts[usize::try_from(next()).expect("an item")] += 1.0;
    }
    counts
}

/// Chi-square of two samples of equal size, over the items.
fn chi_square(ours: &[f64], theirs: &[f64]) -> f64 {
    ours.iter().zip(theirs).map(|(a, b)| (a - b) * (a - b) / (a + b)).sum()
}

/// With 99 degrees of freedom a chi-square above this comes once in 100,000 draws.
const CHI_SQUARE_MAX: f64 = 168.0;

#[test]
fn zipfian_draws_are_ycsbs() {
    let theirs = counts_of(include_str!("ycsb/zipfian.txt"));
    let (zipfian, mut random) = (Zipfian::new(ITEMS), Random::new(1));
    let ours = drawn(1_000_000, || zipfian.next(&mut random));
    let distance = chi_square(&ours, &theirs);
    assert!(distance < CHI_SQUARE_MAX, "{distance}");
}

#[test]
fn scrambled_draws_are_ycsbs_key_by_key() {
    let theirs = counts_of(include_str!("ycsb/scrambled.txt"));
    let (distribution, mut random) = (Distribution::scrambled_zipfian(), Random::new(2));
    let ours = drawn(1_000_000, || distribution.next(u64::from(ITEMS), &mut random));
    let distance = chi_square(&ours, &theirs);
    assert!(distance < CHI_SQUARE_MAX, "{distance}");
    // The test can tell: uniform draws are far away.
    let uniform = drawn(1_000_000, || Distribution::Uniform.next(u64::from(ITEMS), &mut random));
    assert!(chi_square(&uniform, &theirs) > 100.0 * CHI_SQUARE_MAX);
}

#[test]
fn keys_are_called_as_ycsb_calls_them() {
    // `CoreWorkload.buildKeyName(0..2)` of YCSB core 0.17.0, insertorder=hashed.
    assert_eq!(name(0), "user6284781860667377211");
    assert_eq!(name(1), "user8517097267634966620");
    assert_eq!(name(2), "user1820151046732198393");
}
