//! Clients of rows that expire: each sets rows of its own, with a time to live, and looks for them before and after
//! that is over. What they check is log time (rule 7): no clock that is wrong ends a row early, or keeps it.

use std::time::Duration;

use plimsoll_base::Random;
use plimsoll_base::time::Instant;
use plimsoll_storage::{Argv, Reply};

use crate::clients::{Client, Sent};

/// How long a row lives, ms: from, and by how much more at most.
const LIVES_MS: (u64, u64) = (1_500, 8_000);
/// How long after its end a row is looked for at the latest, ms.
const AFTER_MS: u64 = 4_000;
/// By how much rows may end early or late: a clock may be wrong by half a second, and the one that it is compared
/// with by as much the other way.
const SLACK: Duration = Duration::from_millis(1_500);

/// Sets rows that expire and looks for them until the client's time is over.
pub async fn run(client: Client, number: usize, random: Random) {
    let mut chance = random.of("expiring");
    let mut value = 0_u64;
    while client.time.now() < client.until {
        client.rest(&mut chance, 1).await;
        value += 1;
        let (key, lives_ms) = (format!("e{number}-{value}"), LIVES_MS.0 + chance.below(LIVES_MS.1));
        let Some(connection) = client.connect(&mut chance) else {
            client.pause().await;
            continue;
        };
        let lives = lives_ms.to_string();
        let set = Argv::of(&[
            b"SET",
            key.as_bytes(),
            value.to_string().as_bytes(),
            b"PX",
            lives.as_bytes(),
        ]);
        let called = client.time.now();
        let Sent::Answered(Reply::Status("OK")) = client.send(&connection, set).await else {
            client.pause().await;
            continue;
        };
        let row =
            Row { lives: Duration::from_millis(lives_ms), called, answered: client.time.now() };
        client.time.sleep(Duration::from_millis(chance.below(lives_ms + AFTER_MS))).await;
        let Some(connection) = client.connect(&mut chance) else { continue };
        let asked = client.time.now();
        let told = client.send(&connection, Argv::of(&[b"GET", key.as_bytes()])).await;
        let is_there = match told {
            Sent::Answered(Reply::Nil) => false,
            Sent::Answered(Reply::Bulk(_)) => true,
            _ => continue,
        };
        if let Some(why) = row.is_wrong(is_there, asked, client.time.now()) {
            client.history.note(format!("{key}, which lives {lives_ms} ms, {why}"));
        }
    }
}

/// A row that was set.
struct Row {
    lives: Duration,
    called: Instant,
    answered: Instant,
}

impl Row {
    /// Why a look between two moments cannot have found this.
    fn is_wrong(&self, is_there: bool, asked: Instant, told: Instant) -> Option<String> {
        let (least, most) = (told - self.called, asked - self.answered);
        match is_there {
            false if least + SLACK < self.lives => Some(format!("was gone after {least:?}")),
            true if most > self.lives + SLACK => Some(format!("was there after {most:?}")),
            _ => None,
        }
    }
}
