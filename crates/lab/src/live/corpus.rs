//! Corpora in the shapes of those that the studies searched: places for the complex query, and
//! Rally's geopoint, http_logs and pmc; drawn from a seed, or the first documents of a file that the
//! user has of Rally. A document is made or read when it is asked for, so that a corpus of any size
//! takes no memory. What is searched in them stands in `workload.rs`.

mod file;
mod given;

use std::sync::Arc;

use plimsoll_control::Random;
use serde_json::{Value, json};

use crate::LabError;
pub(crate) use given::Corpora;
use given::Given;

/// The shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Places with a group, a population and a date.
    Places,
    /// Rally's geopoint: one point a document.
    Geopoint,
    /// Rally's `http_logs`: lines of web servers.
    HttpLogs,
    /// Rally's pmc: articles.
    Pmc,
}

/// A corpus.
#[derive(Clone, Debug)]
pub(crate) struct Corpus {
    pub(crate) shape: Shape,
    /// Documents.
    pub(crate) count: usize,
    /// What they are drawn from.
    pub(crate) seed: u64,
    /// The file that they are taken from instead.
    file: Option<Arc<Given>>,
}

/// Documents as they are asked for; reading one may fail.
pub(crate) type Documents = Box<dyn Iterator<Item = Result<Value, LabError>>>;

/// Groups of places; a document belongs to one.
pub(crate) const GROUPS: usize = 2_000;
/// 2017-07-14, ms: places and articles are dated around it.
pub(crate) const DATE_MS: u64 = 1_500_000_000_000;
/// The first line of `http_logs`, s: 1998-05-01.
const LOGS_FROM_S: u64 = 893_964_617;
/// From the first line to the last, s.
const LOGS_S: u64 = 6_000_000;
/// Words that articles are made of, by rank.
const WORDS: usize = 20_000;
const ARTICLE_WORDS: usize = 400;

/// Where people live: latitude, longitude, and how far around in degrees.
const REGIONS: [(f64, f64, f64); 8] = [
    (50.0, 10.0, 8.0),
    (23.0, 79.0, 9.0),
    (33.0, 112.0, 9.0),
    (36.0, 138.0, 4.0),
    (39.0, -88.0, 10.0),
    (-15.0, -50.0, 10.0),
    (8.0, 8.0, 7.0),
    (-7.0, 110.0, 5.0),
];

impl Corpus {
    /// So many documents, drawn from a seed.
    pub(crate) fn of_seed(shape: Shape, count: usize, seed: u64) -> Self {
        Self { shape, count, seed, file: None }
    }

    /// The mapping's properties.
    pub(crate) fn properties(&self) -> Value {
        match self.shape {
            Shape::Places => json!({
                "name": { "type": "text" },
                "group": { "type": "integer" },
                "population": { "type": "long" },
                "at": { "type": "date", "format": "epoch_millis" },
                "location": { "type": "geo_point" },
            }),
            Shape::Geopoint => json!({ "location": { "type": "geo_point" } }),
            Shape::HttpLogs => json!({
                "@timestamp": { "type": "date", "format": "epoch_second" },
                "clientip": { "type": "ip" },
                "request": { "type": "text", "fields": { "raw": { "type": "keyword" } } },
                "status": { "type": "integer" },
                "size": { "type": "integer" },
            }),
            Shape::Pmc => json!({
                "name": { "type": "keyword" },
                "journal": { "type": "text" },
                "date": { "type": "text" },
                "volume": { "type": "text" },
                "issue": { "type": "text" },
                "accession": { "type": "keyword" },
                "timestamp": { "type": "date", "format": "yyyy-MM-dd HH:mm:ss" },
                "pmid": { "type": "integer" },
                "body": { "type": "text" },
            }),
        }
    }

    /// The documents, in their order.
    ///
    /// # Errors
    /// The file that they are taken from cannot be opened.
    pub(crate) fn documents(&self) -> Result<Documents, LabError> {
        let documents: Documents = match &self.file {
            Some(file) => Box::new(file.documents()?.take(self.count)),
            None => Box::new(self.generate().map(Ok::<Value, LabError>)),
        };
        Ok(documents)
    }

    /// As many documents, drawn from the seed.
    pub(crate) fn generate(&self) -> impl Iterator<Item = Value> + use<> {
        let (shape, count) = (self.shape, self.count);
        let words = if shape == Shape::Pmc { words() } else { Vec::new() };
        let mut random = Random::new(self.seed);
        (0..count).map(move |number| match shape {
            Shape::Places => place_document(number, &mut random),
            Shape::Geopoint => {
                let (lat, lon) = place(&mut random);
                json!({ "location": [lon, lat] })
            }
            Shape::HttpLogs => log_line(number, count, &mut random),
            Shape::Pmc => article(number, &words, &mut random),
        })
    }

    /// Somewhere that there may be documents: latitude and longitude.
    pub(crate) fn place(&self, random: &mut Random) -> (f64, f64) {
        match self.file.as_ref().map(|file| file.points()) {
            Some(points) if !points.is_empty() => points[random.below(points.len())],
            _ => place(random),
        }
    }

    /// The time of the first line of `http_logs`, and from there to the last, s.
    pub(crate) fn times_s(&self) -> (u64, u64) {
        let of_file = self.file.as_ref().and_then(|file| file.times_s());
        of_file.unwrap_or((LOGS_FROM_S, LOGS_S))
    }
}

/// Roughly a normal deviate: the sum of four uniform ones.
fn around(random: &mut Random) -> f64 {
    (0..4).map(|_| random.unit() - 0.5).sum::<f64>() * 1.732
}

/// Somewhere that people live: latitude and longitude, to six digits.
pub(crate) fn place(random: &mut Random) -> (f64, f64) {
    let (lat, lon, spread) = REGIONS[random.below(REGIONS.len())];
    let lat = (lat + around(random) * spread).clamp(-89.0, 89.0);
    let lon = (lon + around(random) * spread * 1.3).clamp(-179.0, 179.0);
    ((lat * 1e6).round() / 1e6, (lon * 1e6).round() / 1e6)
}

fn place_document(number: usize, random: &mut Random) -> Value {
    let (lat, lon) = place(random);
    // Few are large: the logarithm is uniform, from a thousand to ten million.
    let population = 1_000.0 * 10f64.powf(random.unit() * 4.0);
    json!({
        "name": format!("place {} of {}", number % 997, number % 31),
        "group": number % GROUPS,
        "population": plimsoll_control::average::whole(population),
        "at": DATE_MS + random.below(10_000_000_000) as u64,
        "location": { "lat": lat, "lon": lon },
    })
}

fn log_line(number: usize, count: usize, random: &mut Random) -> Value {
    const STATUS: [(f64, u32); 5] =
        [(0.87, 200), (0.97, 304), (0.99, 404), (0.997, 302), (1.0, 500)];
    let drawn = random.unit();
    let status = STATUS.iter().find(|(share, _)| drawn < *share).map_or(200, |(_, code)| *code);
    let page = zipf(random, 5_000);
    let at_s = LOGS_FROM_S + LOGS_S * number as u64 / count.max(1) as u64;
    let ip = [40, random.below(8), random.below(256), random.below(256)].map(|n| n.to_string());
    json!({
        "@timestamp": at_s,
        "clientip": ip.join("."),
        "request": format!("GET /english/images/page_{page}.gif HTTP/1.0"),
        "status": status,
        "size": if status == 200 { 200 + random.below(60_000) } else { 0 },
    })
}

/// A rank from 0, as unequally frequent as words are.
fn zipf(random: &mut Random, ranks: usize) -> usize {
    let rank = (random.unit() * (ranks as f64 + 1.0).ln()).exp() - 1.0;
    let rank = usize::try_from(plimsoll_control::average::whole(rank.floor())).unwrap_or(0);
    rank.min(ranks - 1)
}

fn words() -> Vec<String> {
    const LETTERS: &[u8; 12] = b"etaoinshrdlu";
    let mut random = Random::new(3);
    let mut all: Vec<String> = (0..WORDS)
        .map(|rank| {
            let letters = (0..3 + rank % 9).map(|_| char::from(LETTERS[random.below(12)]));
            letters.collect()
        })
        .collect();
    // In about a twentieth of the articles.
    "physician".clone_into(&mut all[WORDS / 50]);
    all
}

fn article(number: usize, words: &[String], random: &mut Random) -> Value {
    let mut body = String::with_capacity(ARTICLE_WORDS * 8);
    for at in 0..ARTICLE_WORDS {
        body.push_str(&words[zipf(random, words.len())]);
        body.push(' ');
        if at == number % ARTICLE_WORDS && number.is_multiple_of(40) {
            body.push_str("newspaper coverage ");
        }
    }
    let (year, month, day) = (1990 + number % 27, 1 + number % 12, 1 + number % 28);
    json!({
        "name": format!("PMC{number}"),
        "journal": format!("journal {}", number % 500),
        "date": format!("{year} {month} {day}"),
        "volume": (number % 60).to_string(),
        "issue": (number % 12).to_string(),
        "accession": format!("PMC{}", number + 1_000_000),
        "timestamp": format!("{year}-{month:02}-{day:02} 12:00:00"),
        "pmid": number,
        "body": body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [Shape; 4] = [Shape::Places, Shape::Geopoint, Shape::HttpLogs, Shape::Pmc];

    #[test]
    fn the_same_seed_gives_the_same_documents() {
        for shape in SHAPES {
            let of = |seed| Corpus::of_seed(shape, 50, seed).generate().collect::<Vec<_>>();
            assert_eq!(of(1), of(1));
            assert_eq!(of(1).len(), 50);
            assert_ne!(of(1), of(2), "{shape:?}");
        }
    }

    #[test]
    fn documents_have_the_fields_of_their_mapping_and_no_others() {
        for shape in SHAPES {
            let corpus = Corpus::of_seed(shape, 3, 1);
            let names = |value: &Value| -> Vec<String> {
                value.as_object().unwrap().keys().cloned().collect()
            };
            for document in corpus.generate() {
                assert_eq!(names(&document), names(&corpus.properties()), "{shape:?}");
            }
        }
    }

    #[test]
    fn words_are_as_frequent_as_the_searches_need() {
        let corpus = Corpus::of_seed(Shape::Pmc, 2_000, 1);
        let bodies: Vec<String> =
            corpus.generate().map(|d| d["body"].as_str().unwrap().to_owned()).collect();
        let having = |word: &str| bodies.iter().filter(|body| body.contains(word)).count();
        assert_eq!(having("newspaper coverage"), 50);
        assert!((20..400).contains(&having("physician")), "{}", having("physician"));
    }
}
