//! Files that a user has in the place of generated documents, `SHAPE=FILE` each. It owns the names
//! of the shapes, what a document of each must have, and one reading of every file before a cluster
//! is started, which finds what is wrong with it, how many documents there are, and where and when
//! they are, so that searches find some. It keeps no documents: loading reads the file once more.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_control::Random;
use serde_json::Value;

use super::file::Reader;
use super::{Corpus, Shape};
use crate::{LabError, Progress};

/// Names of the shapes: those of Rally's tracks.
const NAMES: [(&str, Shape); 3] =
    [("geopoint", Shape::Geopoint), ("http_logs", Shape::HttpLogs), ("pmc", Shape::Pmc)];
const WRITE: &str = "write SHAPE=FILE, with geopoint, http_logs or pmc as the shape";
const TWICE: &str = "its shape has a file already";
const UNUSED: &str = "this run searches no documents of its shape; replica-selection --full \
                      searches those of pmc, sick-node --full those of geopoint and http_logs";
/// Points of a file that searches are made around.
const POINTS: usize = 1_000;
/// Which points are kept is no matter of the run's seed: the file is the same in all runs.
const POINTS_SEED: u64 = 1;

/// The files of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Corpora {
    files: Vec<Arc<Given>>,
}

/// A file for a shape, and what stands in the part of it that a run uses.
#[derive(Debug)]
pub(crate) struct Given {
    shape: Shape,
    path: PathBuf,
    /// Documents that a run uses at most.
    wanted: usize,
    /// Documents that there are, up to those that are used.
    count: usize,
    /// The first and the last time, s.
    ends_s: Option<(u64, u64)>,
    /// Latitude and longitude of some documents.
    points: Vec<(f64, f64)>,
}

impl Corpora {
    /// Reads of every file as many documents as the run will use: `words` are the user's, `used` is
    /// what the run searches.
    ///
    /// # Errors
    /// A word of another form, a shape that is unknown, not searched or given twice; a file that
    /// cannot be read, has no documents, or has a line that is none.
    pub(crate) fn open(
        words: &[String],
        used: &[(Shape, usize)],
        progress: &mut dyn Progress,
    ) -> Result<Self, LabError> {
        let mut all: Vec<(Shape, &Path, usize)> = Vec::new();
        for word in words {
            let refuse = |why: &str| LabError::Corpus { given: word.clone(), why: why.to_owned() };
            let parts = word.split_once('=').filter(|(_, path)| !path.is_empty());
            let (name, path) = parts.ok_or_else(|| refuse(WRITE))?;
            let known = NAMES.iter().find(|(known, _)| *known == name);
            let (_, shape) = *known.ok_or_else(|| refuse(WRITE))?;
            if all.iter().any(|(other, ..)| *other == shape) {
                return Err(refuse(TWICE));
            }
            let wanted = used.iter().filter(|(one, _)| *one == shape).map(|(_, count)| *count);
            let wanted = wanted.max().ok_or_else(|| refuse(UNUSED))?;
            all.push((shape, Path::new(path), wanted));
        }
        let mut files = Vec::new();
        for (shape, path, wanted) in all {
            progress.note(&format!("reading documents of `{}`", path.display()));
            files.push(Arc::new(Given::read(shape, path, wanted)?));
        }
        Ok(Self { files })
    }

    /// A corpus of this shape: the first documents of its file, or as many drawn from the seed.
    pub(crate) fn of(&self, shape: Shape, count: usize, seed: u64) -> Corpus {
        let file = self.files.iter().find(|file| file.shape == shape).cloned();
        let count = file.as_ref().map_or(count, |file| count.min(file.count));
        Corpus { shape, count, seed, file }
    }

    /// Which files stand for what, for the report.
    pub(crate) fn notes(&self) -> Vec<String> {
        let note = |file: &Arc<Given>| {
            let name = NAMES.iter().find(|(_, shape)| *shape == file.shape).map_or("", |one| one.0);
            let part = match file.count < file.wanted {
                true => format!("all {} (fewer than the {} wanted)", file.count, file.wanted),
                false => format!("the first {}", file.count),
            };
            format!("documents of {name}: {part} of `{}`", file.path.display())
        };
        self.files.iter().map(note).collect()
    }
}

impl Given {
    fn read(shape: Shape, path: &Path, wanted: usize) -> Result<Self, LabError> {
        let path = path.to_owned();
        let mut file = Self { shape, path, wanted, count: 0, ends_s: None, points: Vec::new() };
        let mut documents = Reader::open(&file.path)?;
        let mut random = Random::new(POINTS_SEED);
        while file.count < wanted {
            let Some(document) = documents.next().transpose()? else { break };
            file.see(&document, &mut random).map_err(|why| documents.wrong(why))?;
            file.count += 1;
        }
        match file.count {
            0 => Err(LabError::NoDocuments { path: file.path }),
            _ => Ok(file),
        }
    }

    /// Takes note of a document that has what its shape must have.
    fn see(&mut self, document: &Value, random: &mut Random) -> Result<(), String> {
        let field = |name: &str| document.get(name).ok_or_else(|| format!("no `{name}`"));
        match self.shape {
            Shape::Places => {}
            Shape::Geopoint => {
                let point = point(field("location")?);
                let point =
                    point.ok_or("`location` is not [lon, lat], \"lat,lon\" or an object")?;
                // Any document is as likely as any other to be among those that are kept.
                let at = random.below(self.count + 1);
                if self.points.len() < POINTS {
                    self.points.push(point);
                } else if let Some(kept) = self.points.get_mut(at) {
                    *kept = point;
                }
            }
            Shape::HttpLogs => {
                field("status")?;
                let at_s = seconds(field("@timestamp")?);
                let at_s = at_s.ok_or("`@timestamp` is not in seconds since 1970")?;
                let (first_s, last_s) = self.ends_s.unwrap_or((at_s, at_s));
                self.ends_s = Some((first_s.min(at_s), last_s.max(at_s)));
            }
            Shape::Pmc => {
                if !field("body")?.is_string() {
                    return Err("`body` is not a string".to_owned());
                }
                if !field("timestamp")?.as_str().is_some_and(is_date) {
                    return Err("`timestamp` is not of the form yyyy-MM-dd HH:mm:ss".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Its documents from the first.
    ///
    /// # Errors
    /// The file cannot be read any more; a line likewise.
    pub(crate) fn documents(
        &self,
    ) -> Result<impl Iterator<Item = Result<Value, LabError>> + use<>, LabError> {
        Reader::open(&self.path)
    }

    /// Where some of its documents are; none where they have no place.
    pub(crate) fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The first time of its documents, and from it to the end of the last, s.
    pub(crate) fn times_s(&self) -> Option<(u64, u64)> {
        self.ends_s.map(|(first_s, last_s)| (first_s, last_s - first_s + 1))
    }
}

/// Latitude and longitude.
fn point(value: &Value) -> Option<(f64, f64)> {
    let (lat, lon) = match value {
        Value::Array(both) => match both.as_slice() {
            [lon, lat] => (lat.as_f64()?, lon.as_f64()?),
            _ => return None,
        },
        Value::String(both) => {
            let (lat, lon) = both.split_once(',')?;
            (lat.trim().parse().ok()?, lon.trim().parse().ok()?)
        }
        _ => (value["lat"].as_f64()?, value["lon"].as_f64()?),
    };
    let is_on_earth = (-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&lon);
    is_on_earth.then_some((lat, lon))
}

fn seconds(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Whether it looks like a date as the mapping wants it.
fn is_date(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00 00:00:00";
    let is_like = |(byte, form): (u8, &u8)| match *form {
        b'0' => byte.is_ascii_digit(),
        form => byte == form,
    };
    text.len() == FORM.len() && text.bytes().zip(FORM).all(is_like)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use serde_json::json;

    use super::*;
    use crate::live::workload::{self, Operation};

    struct Silent;

    impl Progress for Silent {
        fn note(&mut self, _: &str) {}

        fn step(&mut self, _: usize, _: usize, _: &str) -> bool {
            true
        }
    }

    const USED: [(Shape, usize); 4] =
        [(Shape::Places, 9), (Shape::Geopoint, 3), (Shape::HttpLogs, 2), (Shape::HttpLogs, 3)];

    fn open(words: &[&str]) -> Result<Corpora, LabError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Corpora::open(&words, &USED, &mut Silent)
    }

    /// What becomes of a file with these lines; it is gone afterwards.
    fn with<T>(lines: &str, then: impl FnOnce(&str) -> T) -> T {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("documents");
        std::fs::write(&path, lines).unwrap();
        then(path.to_str().unwrap())
    }

    fn logs(count: u64) -> String {
        (0..count).fold(String::new(), |mut text, n| {
            writeln!(text, r#"{{"@timestamp": {}, "status": 200}}"#, 5_000 - n * 10).unwrap();
            text
        })
    }

    #[test]
    fn words_are_taken_or_refused_with_a_reason() {
        let refused = |words: &[&str]| open(words).unwrap_err().to_string();
        for (words, why) in [
            (&["geopoint"][..], WRITE),
            (&["geopoint="], WRITE),
            (&["places=/x"], WRITE),
            (&["pmc=/x"], UNUSED),
            (&["geopoint=/x", "geopoint=/y"], TWICE),
        ] {
            let said = refused(words);
            assert!(said.ends_with(why) && said.contains(words[words.len() - 1]), "{said}");
        }
        assert!(refused(&["geopoint=/nonexistent"]).starts_with("cannot read `/nonexistent`: "));
        assert!(open(&[]).unwrap().notes().is_empty());
    }

    #[test]
    fn the_first_documents_stand_for_as_many_generated_ones() {
        let of = |in_file: u64, asked: usize| {
            with(&logs(in_file), |path| {
                let corpora = open(&[&format!("http_logs={path}")]).unwrap();
                let corpus = corpora.of(Shape::HttpLogs, asked, 1);
                let found: Vec<Value> = corpus.documents().unwrap().map(Result::unwrap).collect();
                assert_eq!(found.len(), corpus.count);
                let times = found.iter().map(|one| one["@timestamp"].as_u64().unwrap());
                let note = corpora.notes().concat().replace(path, "F");
                (times.collect::<Vec<_>>(), corpus.times_s(), note)
            })
        };
        let first = "documents of http_logs: the first 3 of `F`".to_owned();
        assert_eq!(of(5, 3), (vec![5_000, 4_990, 4_980], (4_980, 21), first.clone()));
        assert_eq!(of(5, 2), (vec![5_000, 4_990], (4_980, 21), first));
        let all = "documents of http_logs: all 2 (fewer than the 3 wanted) of `F`".to_owned();
        assert_eq!(of(2, 3), (vec![5_000, 4_990], (4_990, 11), all));
    }

    #[test]
    fn a_shape_without_a_file_is_drawn_from_the_seed() {
        with(&logs(3), |path| {
            let corpora = open(&[&format!("http_logs={path}")]).unwrap();
            let drawn = corpora.of(Shape::Geopoint, 7, 5);
            let found: Vec<Value> = drawn.documents().unwrap().map(Result::unwrap).collect();
            let wanted: Vec<Value> = Corpus::of_seed(Shape::Geopoint, 7, 5).generate().collect();
            assert_eq!((found, drawn.count), (wanted, 7));
        });
    }

    #[test]
    fn searches_look_where_and_when_there_are_documents() {
        let bodies = |word: &str, lines: &str, operation: &'static str| {
            with(lines, |path| {
                let corpora = open(&[&format!("{word}={path}")]).unwrap();
                let operation = Operation::Named(operation);
                let corpus = corpora.of(operation.shape(), 9, 1);
                let all = workload::requests(operation, &corpus, "i", "h", 1).rendered;
                let body = |bytes: &Vec<u8>| {
                    let text = std::str::from_utf8(bytes).unwrap();
                    let (_, body) = text.split_once("\r\n\r\n").unwrap();
                    serde_json::from_str::<Value>(body).unwrap()
                };
                all.iter().map(body).collect::<Vec<_>>()
            })
        };
        for body in bodies("geopoint", "{\"location\": [7.5, -88.0]}\n", "bbox") {
            let found = &body["query"]["geo_bounding_box"]["location"];
            assert_eq!(found["top_left"], json!({ "lat": -83.0, "lon": 2.5 }));
            assert_eq!(found["bottom_right"], json!({ "lat": -90.0, "lon": 12.5 }));
        }
        for body in bodies("http_logs", &logs(3), "range") {
            let range = &body["query"]["range"]["@timestamp"];
            let from_s = range["gte"].as_u64().unwrap();
            assert!((4_980..4_990).contains(&from_s) && range["lt"] == from_s + 1, "{range}");
        }
    }

    #[test]
    fn only_what_is_used_is_read() {
        let bad = |before: u64| {
            with(&(logs(before) + "x\n"), |path| open(&[&format!("http_logs={path}")]).map(|_| ()))
        };
        bad(3).unwrap();
        let said = bad(2).unwrap_err().to_string();
        assert!(said.starts_with("line 3 of `") && said.contains("not JSON"), "{said}");
    }

    #[test]
    fn a_file_without_documents_is_refused() {
        for text in ["", "\n\n", "{\"index\": {}}\n"] {
            let said =
                with(text, |path| open(&[&format!("geopoint={path}")]).unwrap_err().to_string());
            assert!(said.ends_with("documents` has no documents"), "{said}");
        }
    }

    #[test]
    fn documents_that_searches_would_not_find_are_refused() {
        let see = |shape: Shape, document: &Value| {
            let path = PathBuf::new();
            let mut file =
                Given { shape, path, wanted: 1, count: 0, ends_s: None, points: Vec::new() };
            file.see(document, &mut Random::new(1)).map(|()| (file.ends_s, file.points))
        };
        for (shape, document, why) in [
            (Shape::Geopoint, json!({ "message": "x" }), "no `location`"),
            (Shape::Geopoint, json!({ "location": [1.0] }), "`location` is not "),
            (Shape::Geopoint, json!({ "location": [50.0, 100.0] }), "`location` is not "),
            (Shape::Geopoint, json!({ "location": { "lat": 1 } }), "`location` is not "),
            (Shape::HttpLogs, json!({ "@timestamp": 1 }), "no `status`"),
            (Shape::HttpLogs, json!({ "status": 200 }), "no `@timestamp`"),
            (
                Shape::HttpLogs,
                json!({ "status": 1, "@timestamp": "1998-05-01" }),
                "`@timestamp` is",
            ),
            (Shape::Pmc, json!({ "timestamp": "2015-10-30 20:08:11" }), "no `body`"),
            (Shape::Pmc, json!({ "body": 7 }), "`body` is not "),
            (Shape::Pmc, json!({ "body": "" }), "no `timestamp`"),
            (Shape::Pmc, json!({ "body": "", "timestamp": "2015-10-30" }), "`timestamp` is not "),
            (
                Shape::Pmc,
                json!({ "body": "", "timestamp": "2015-10-30T20:08:11" }),
                "`timestamp` is",
            ),
        ] {
            let said = see(shape, &document).unwrap_err();
            assert!(said.starts_with(why), "{document}: {said}");
        }
        for location in [json!([7.5, 50.0]), json!("50.0, 7.5"), json!({ "lat": 50, "lon": 7.5 })] {
            let found = see(Shape::Geopoint, &json!({ "location": location }));
            assert_eq!(found, Ok((None, vec![(50.0, 7.5)])));
        }
        for time in [json!(898_459_201), json!("898459201")] {
            let found = see(Shape::HttpLogs, &json!({ "@timestamp": time, "status": 304 }));
            assert_eq!(found, Ok((Some((898_459_201, 898_459_201)), Vec::new())));
        }
        let article = json!({ "body": "x", "timestamp": "2015-10-30 20:08:11" });
        assert_eq!(see(Shape::Pmc, &article), Ok((None, Vec::new())));
    }
}
