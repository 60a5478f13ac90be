//! What a run is made of: how large, for how long, who asks for what, and what goes wrong. Drawn from the seed
//! before it begins.

use std::time::Duration;

use plimsoll_base::Random;

use crate::faults::{Faults, Side};
use crate::following::shape::Shape as FollowingShape;
use crate::log::Delays;
use crate::searches::{self, Shape};

/// One seed in so many is a long one; clients do as much in it as in another.
const LONG: u64 = 4;
const LONG_DURATION: Duration = Duration::from_secs(270);
const LONG_REST: Duration = Duration::from_millis(900);
/// One seed in so many has more nodes than copies, up to so many.
const LARGER: u64 = 5;
const NODES_MAX: u64 = 9;
/// One seed in so many has documents as well, and so many clients of them.
const DOCUMENTS: u64 = 3;
const SEARCHERS: usize = 3;
/// One in so many has tables that come and go.
const MAKES_TABLES: u64 = 4;
/// One in so many has a second cluster, whose tables follow: a run of two costs twice as much.
const FOLLOWER: u64 = 8;
/// One in so many has a log that is far away.
const FAR: u64 = 5;
/// One in so many makes rows durable often.
const TRIMS: u64 = 2;
/// One in so many has an outage of all nodes.
const OUTAGE: u64 = 8;
/// So many clients set rows that expire, where it can be said which clock is wrong.
const EXPIRING: usize = 2;

/// What a run is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What chance comes from.
    pub seed: u64,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many clients of rows.
    pub clients: usize,
    /// How many clients of documents, where there is an index.
    pub searchers: usize,
    /// How many clients of rows that expire.
    pub expiring: usize,
    /// For how long they ask, and things go wrong.
    pub duration: Duration,
    /// How long a client rests between two operations, at most.
    pub rest: Duration,
    /// How many partitions the rows are in.
    pub partitions: u32,
    /// The index that there is beside them.
    pub documents: Option<Shape>,
    /// Whether tables are made and deleted.
    pub makes_tables: bool,
    /// How often rows are made durable, s: what is durable is trimmed. None is the default, which is longer than
    /// most runs.
    pub flush_interval_s: Option<u64>,
    /// The cluster whose tables follow this one's.
    pub follower: Option<FollowingShape>,
    /// What a way between nodes carries of one message, bytes a second.
    pub way_bytes_s: u64,
    /// How long the log's ways take.
    pub log_delays: Delays,
    /// What goes wrong.
    pub faults: Faults,
}

fn flush_interval_s(random: &Random) -> u64 {
    2 + random.of("flush interval").below(15)
}

impl Plan {
    /// Three nodes, five clients and a minute in which nothing goes wrong.
    #[must_use]
    pub fn calm(seed: u64) -> Self {
        let (duration, rest) = (Duration::from_secs(60), Duration::from_millis(200));
        Self {
            seed,
            nodes: 3,
            clients: 5,
            searchers: 0,
            expiring: EXPIRING,
            duration,
            rest,
            partitions: 1,
            documents: None,
            makes_tables: false,
            flush_interval_s: None,
            follower: None,
            way_bytes_s: u64::MAX,
            log_delays: Delays::default(),
            faults: Faults::default(),
        }
    }

    /// The same with the faults of the seed; one in so many is of minutes, in which nodes are away for longer
    /// than the log is kept for them, and one in so many has a second cluster that follows this one.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        match Random::seeded(seed).of("follower").once_in(FOLLOWER) {
            true => Self::of_two(seed),
            false => Self::of_one(seed).spared(),
        }
    }

    /// The same, with a second cluster in any case.
    #[must_use]
    pub fn of_two(seed: u64) -> Self {
        let (plan, random) = (Self::of_one(seed), Random::seeded(seed));
        let shape = FollowingShape::drawn(&random, plan.duration);
        let is_long = plan.duration == LONG_DURATION;
        let faults =
            plan.faults.clone().with_follower(&random, shape.nodes, (plan.duration, is_long));
        let flush_interval_s = Some(flush_interval_s(&random));
        Self { follower: Some(shape), faults, flush_interval_s, ..plan }.spared()
    }

    /// The same, where no file rots of which there is no other: what it held would be lost rightly.
    fn spared(mut self) -> Self {
        if self.documents.as_ref().is_some_and(|shape| shape.replicas == 0) {
            self.faults.due.iter_mut().for_each(|due| due.fault.spare_files());
        }
        self
    }

    /// The same without the second cluster, and what goes wrong in it.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.follower = None;
        self.faults.due.retain(|due| due.side == Side::Leader && !due.fault.is_of_link());
        self
    }

    fn of_one(seed: u64) -> Self {
        let (mut plan, random) = (Self::calm(seed), Random::seeded(seed));
        let mut chance = random.of("plan");
        plan.partitions = if chance.once_in(2) { 1 } else { 4 };
        let is_long = chance.once_in(LONG);
        if is_long {
            (plan.duration, plan.rest) = (LONG_DURATION, LONG_REST);
            // A copy takes seconds then, in which something may befall it.
            if chance.once_in(2) {
                plan.way_bytes_s = 2_000 + chance.below(30_000);
            }
        }
        let mut size = random.of("nodes");
        if size.once_in(LARGER) {
            plan.nodes = usize::try_from(4 + size.below(NODES_MAX - 3)).unwrap_or(plan.nodes);
        }
        let mut of_documents = random.of("documents");
        plan.documents =
            of_documents.once_in(DOCUMENTS).then(|| searches::shape(&mut of_documents));
        let mut outages = random.of("outages");
        let has_outage = outages.once_in(OUTAGE);
        // Of three copies one mostly has what the others lost.
        if has_outage && outages.once_in(2) {
            let shape = plan.documents.get_or_insert_with(|| searches::shape(&mut of_documents));
            shape.replicas = 0;
        }
        let is_trimmed = has_outage || random.of("trims").once_in(TRIMS);
        plan.flush_interval_s = is_trimmed.then(|| flush_interval_s(&random));
        plan.makes_tables = random.of("tables").once_in(MAKES_TABLES);
        plan.searchers = if plan.documents.is_some() { SEARCHERS } else { 0 };
        plan.faults = Faults::drawn(&random, plan.nodes, plan.duration);
        if is_long {
            plan.faults = plan.faults.with_absences(&random, plan.nodes);
        }
        if has_outage {
            plan.faults = plan.faults.with_outage(&random, plan.nodes, plan.duration);
        }
        if random.of("log delays").once_in(FAR) {
            plan.log_delays = Delays::far();
        }
        if plan.faults.leave_clocks_undecided(plan.nodes) {
            plan.expiring = 0;
        }
        plan
    }
}
