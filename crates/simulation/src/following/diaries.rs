//! Keys that are appended to at the leader and read at the follower. Each entry is written once, so that what a
//! follower shows of a key tells what it has taken: a record that it took twice, left out or took before another
//! shows, whatever comes later. A strong read shows no less than one that was answered before it began.
//!
//! What clients of rows set is read there as well: it has to be something that the leader was given.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use plimsoll_base::Random;
use plimsoll_cluster::{ReadLevel, Request};
use plimsoll_storage::{Argv, Reply};

use crate::clients::{Client, History, Sent};

/// How many diaries there are.
const DIARIES: u64 = 4;
/// One write in so many is of a key that goes by itself, within so long, ms.
const EXPIRE: u64 = 5;
const EXPIRE_MS_MAX: u64 = 20_000;
/// How much longer than a client of rows a reader rests.
const RESTS: u64 = 3;
/// One read in so many waits for nothing, and may show less than the one before.
const EVENTUAL: u64 = 3;

/// What is known of all diaries.
#[derive(Clone, Default)]
pub struct Diaries {
    known: Arc<Mutex<BTreeMap<String, Known>>>,
}

#[derive(Clone, Default)]
struct Known {
    /// The entries that the leader acknowledged.
    written: Vec<u64>,
    /// The most that a follower showed.
    shown: String,
}

impl Diaries {
    /// Appends entries at the leader until it is over.
    pub async fn write(self, client: Client, random: Random) {
        let (mut chance, mut entry, mut connection) = (random.of("writer"), 0_u64, None);
        while client.time.now() < client.until {
            client.rest(&mut chance, 1).await;
            if connection.is_none() {
                connection = client.connect(&mut chance);
            }
            let Some(asked) = &connection else {
                client.pause().await;
                continue;
            };
            entry += 1;
            if chance.once_in(EXPIRE) {
                let key = format!("gone-{}", chance.below(DIARIES));
                let within_ms = (1 + chance.below(EXPIRE_MS_MAX)).to_string();
                let set = ["SET", &key, &entry.to_string(), "PX", &within_ms];
                // When it goes is the leader's to say: the contents of both are compared in the end.
                if !matches!(client.send(asked, Argv::of(&set)).await, Sent::Answered(_)) {
                    connection = None;
                }
                continue;
            }
            let key = name(chance.below(DIARIES));
            let append = Argv::of(&["APPEND", &key, &format!("{entry},")]);
            match client.send(asked, append).await {
                Sent::Answered(Reply::Integer(_)) => {
                    self.known.lock().entry(key).or_default().written.push(entry);
                }
                // It may have been appended, or may be later.
                _ => connection = None,
            }
        }
    }

    /// Reads diaries and rows at the follower until it is over. What should not be is noted in the history of
    /// the leader's rows.
    pub async fn read(self, client: Client, random: Random, rows: History) {
        let mut chance = random.of("reader");
        while client.time.now() < client.until {
            client.rest(&mut chance, RESTS).await;
            let address = client.any(&mut chance).to_owned();
            if chance.once_in(2) {
                let key = rows.any_key(&mut chance);
                let Some(value) = get(&client, &address, &key, ReadLevel::Strong).await else {
                    continue;
                };
                let is_known = value.is_empty()
                    || value.parse().is_ok_and(|value| rows.was_given(&key, value));
                if !is_known {
                    rows.note(format!("{address} shows {key} = {value}, which was never given"));
                }
                continue;
            }
            let level = match chance.once_in(EVENTUAL) {
                true => ReadLevel::Eventual,
                false => ReadLevel::Strong,
            };
            let key = name(chance.below(DIARIES));
            let before = self.known.lock().get(&key).map(|it| it.shown.clone()).unwrap_or_default();
            if let Some(text) = get(&client, &address, &key, level).await {
                self.see(&rows, &address, &key, (level, &before, text));
            }
        }
    }

    /// A follower showed a diary, of which `before` had been shown when it was asked.
    fn see(
        &self,
        rows: &History,
        address: &str,
        key: &str,
        (level, before, text): (ReadLevel, &str, String),
    ) {
        if level == ReadLevel::Strong && !text.starts_with(before) {
            rows.note(format!("{address} shows {key} as {text} after {before}"));
        }
        let mut known = self.known.lock();
        let shown = &mut known.entry(key.to_owned()).or_default().shown;
        if text.starts_with(&**shown) {
            *shown = text;
        } else if !shown.starts_with(&text) {
            rows.note(format!("{address} shows {key} as {text}, and {shown} was shown"));
        }
    }

    /// Compares what was shown with what the leader has in the end, which is `kept` by key; says what should not
    /// be.
    pub(super) fn judged(&self, kept: &BTreeMap<String, String>) -> Vec<String> {
        let mut wrong = Vec::new();
        for (key, Known { written, shown }) in &*self.known.lock() {
            let text = kept.get(key).map_or("", String::as_str);
            let mut entries: Vec<u64> = text.split(',').filter_map(|it| it.parse().ok()).collect();
            entries.sort_unstable();
            if let Some(twice) = entries.windows(2).find(|pair| pair[0] == pair[1]) {
                wrong.push(format!("the leader has entry {} of {key} twice: {text}", twice[0]));
            }
            if let Some(lost) = written.iter().find(|it| entries.binary_search(it).is_err()) {
                wrong.push(format!("the leader has lost entry {lost} of {key}: {text}"));
            }
            if !text.starts_with(&**shown) {
                wrong.push(format!("a follower showed {key} as {shown}, the leader has {text}"));
            }
        }
        wrong
    }

    /// The names of all of them.
    pub(super) fn names() -> impl Iterator<Item = String> {
        (0..DIARIES).map(name)
    }
}

fn name(number: u64) -> String {
    format!("diary-{number}")
}

/// What a node has of a key, nothing for none; none where it does not answer.
pub(super) async fn get(
    client: &Client,
    address: &str,
    key: &str,
    level: ReadLevel,
) -> Option<String> {
    let (coordinator, tasks) = client.network.coordinator(address)?;
    let (requests, database) = ([Request::Command(Argv::of(&["GET", key]))], client.database);
    let asked = tasks.spawn("reader", async move {
        let (mut session, mut replies) = (coordinator.session(), Vec::new());
        session.set_read_level(level);
        coordinator.execute(&mut session, database, &requests, &mut replies).await;
        replies.pop()
    });
    match client.within_patience(asked).await? {
        Some(Reply::Nil) => Some(String::new()),
        Some(Reply::Bulk(value)) => String::from_utf8(value.to_vec()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(written: &[u64], shown: &str) -> Diaries {
        let diaries = Diaries::default();
        let known = Known { written: written.to_vec(), shown: shown.to_owned() };
        diaries.known.lock().insert(name(0), known);
        diaries
    }

    #[test]
    fn a_follower_shows_a_beginning_of_what_the_leader_has() {
        let kept = |text: &str| [(name(0), text.to_owned())].into_iter().collect();
        let is_wrong = |written: &[u64], shown: &str, text: &str| {
            !known(written, shown).judged(&kept(text)).is_empty()
        };
        assert!(!is_wrong(&[1, 3], "1,", "1,3,2,"));
        assert!(is_wrong(&[], "1,2,", "1,3,2,"), "a gap");
        assert!(is_wrong(&[], "1,1,", "1,2,"), "taken twice");
        assert!(is_wrong(&[], "1,2,", "1,"), "the leader does not have it");
        assert!(is_wrong(&[4], "", "1,"), "lost");
        assert!(is_wrong(&[1], "", "1,1,"), "twice at the leader");
    }

    #[test]
    fn strong_reads_never_go_back() {
        let see = |shown: &str, before: &str, text: &str, level| {
            let (diaries, rows) = (known(&[], shown), History::default());
            diaries.see(&rows, "f1", &name(0), (level, before, text.to_owned()));
            rows.wrong().len()
        };
        assert_eq!(see("1,2,", "1,", "1,", ReadLevel::Strong), 0, "another began before it ended");
        assert_eq!(see("1,2,", "1,2,", "1,", ReadLevel::Strong), 1);
        assert_eq!(see("1,2,", "1,2,", "1,", ReadLevel::Eventual), 0);
        assert_eq!(see("1,2,", "", "1,3,", ReadLevel::Eventual), 1);
    }
}
