//! A second cluster, whose tables follow those of the first over a link that misbehaves.
//!
//! | file | owns |
//! |---|---|
//! | [`shape`] | how a run has a second cluster |
//! | [`link`] | the way from one cluster to the other |
//! | [`leader`] | the first cluster, as a node of the second asks it |
//! | [`diaries`] | what a follower shows while all of it goes on |
//! | [`level`] | what it has to be in the end |

pub mod diaries;
pub mod leader;
mod level;
pub mod link;
pub mod shape;

use std::sync::Arc;
use std::time::Duration;

use plimsoll_base::Random;
use plimsoll_base::tasks::{Executor, Stuck};
use plimsoll_base::time::Instant;
use plimsoll_cluster::following::FollowRequest;
use plimsoll_cluster::{LOG_GROUPS, Preference, ReadLevel};

use crate::clients::{Client, History};
use crate::documents::PAUSE;
use crate::faults::Fault;
use crate::heal::{self, CLIENTS};
use crate::log::{Delays, Servers};
use crate::network::{Network, Services};
use crate::nodes::{Cluster, Names};
use crate::plan::Plan;
use crate::searches::{self, INDEX};

pub use diaries::Diaries;
pub use leader::LeaderCluster;
pub use link::{Link, LinkTroubles};
pub use shape::Shape;

/// The process of the second log's servers; those of its nodes come after it.
const SERVERS: u64 = 1 << 32;
/// How many read what follows.
const READERS: usize = 2;
/// The database that follows the leader's first: its own first is written to, to see that it is well.
const DATABASE: u32 = 1;
/// How long the leader has to say what it has in the end.
const KEPT_WITHIN: Duration = Duration::from_secs(60);
/// How long searches have to show the leader's documents.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// A table that follows.
pub(crate) struct Followed {
    /// Its name at the leader.
    leader: &'static str,
    /// Its name here.
    follower: &'static str,
}

/// The second cluster.
pub struct Follower {
    /// Its nodes.
    pub cluster: Cluster,
    /// The way to the leader.
    pub link: Arc<Link>,
    tables: Vec<Followed>,
    diaries: Diaries,
    /// Where the leader is asked.
    client: Client,
    /// Where the follower is.
    here: Client,
}

impl Follower {
    /// Starts its nodes and those who write at the leader, have it followed and read what follows. `client` asks
    /// the leader.
    pub fn start(executor: &Executor, (plan, shape): (&Plan, &Shape), client: &Client) -> Self {
        let random = Random::seeded(plan.seed).part("follower");
        let time = executor.time().clone();
        let (tasks, delays) = (executor.process(SERVERS), Delays::default());
        let servers = Servers::new(LOG_GROUPS, delays, time.clone(), tasks, &random);
        servers.trouble(plan.faults.follower_troubles);
        let network = Network::new(time.clone(), &random, plan.way_bytes_s);
        let (to, addresses) = (Arc::clone(&client.network), client.addresses.clone());
        let link = Arc::new(Link::new(time, &random, to, addresses));
        link.trouble(plan.faults.link);
        let names = Names { prefix: "f", first_process: SERVERS + 1 };
        let of = (Arc::new(servers), Arc::clone(&network));
        let machines = (&random, shape.nodes);
        let mut cluster =
            Cluster::new(names, of, machines, plan.partitions, Some(Arc::clone(&link)));
        (0..shape.nodes).for_each(|at| cluster.start(executor, at));

        let clients = executor.process(CLIENTS);
        let mut tables = vec![Followed { leader: "db0", follower: "db1" }];
        if plan.documents.is_some() && plan.searchers > 0 {
            tables.push(Followed { leader: INDEX, follower: INDEX });
        }
        let diaries = Diaries::default();
        let write = diaries.clone().write(client.clone(), random.part("diaries"));
        clients.spawn("diaries", write);
        let (addresses, history) = (cluster.addresses(), History::default());
        let here = Client { network, addresses, history, database: DATABASE, ..client.clone() };
        for Followed { leader, follower } in &tables {
            let begins = Instant::default() + Duration::from_millis(shape.begins_ms);
            clients.spawn("follow", follow(here.clone(), begins, (*leader, *follower)));
        }
        for number in 0..READERS {
            let random = random.part(&format!("reader {number}"));
            let read = diaries.clone().read(here.clone(), random, client.history.clone());
            clients.spawn("reader", read);
        }
        Self { cluster, link, tables, diaries, client: client.clone(), here }
    }

    /// What a fault between the clusters does: it begins, or it ends.
    pub fn go_wrong(&self, fault: &Fault, begins: bool) {
        match fault {
            Fault::NoLink => self.link.cut(begins),
            Fault::Forgotten if begins => {
                let there = self.client.addresses.iter();
                let found = there.filter_map(|it| self.client.network.services(it)).next();
                if let Some(services) = found {
                    services.tasks.clone().spawn("forget", forget(services));
                }
            }
            _ => {}
        }
    }

    /// Says what is not well in time, once all is mended.
    ///
    /// # Errors
    /// [`Stuck`]: a task never waits.
    pub fn is_well(&self, executor: &mut Executor, leader: &Cluster) -> Result<Vec<String>, Stuck> {
        let both = (leader, &self.cluster);
        let mut wrong = level::level(executor, both, &self.tables)?;
        let client = self.client.clone();
        let kept = executor.process(CLIENTS).spawn("diaries", async move {
            let mut kept = std::collections::BTreeMap::new();
            for (key, address) in Diaries::names().zip(client.addresses.iter().cycle()) {
                let text = loop {
                    match diaries::get(&client, address, &key, ReadLevel::Strong).await {
                        Some(text) => break text,
                        None => client.pause().await,
                    }
                };
                kept.insert(key, text);
            }
            kept
        });
        match heal::told(executor, kept, KEPT_WITHIN)? {
            Some(kept) => wrong.extend(self.diaries.judged(&kept)),
            None => wrong.push("the leader does not say what it has".to_owned()),
        }
        if wrong.is_empty() && self.tables.iter().any(|it| it.leader == INDEX) {
            let shows_all = shows_all(self.client.clone(), self.here.clone());
            let shows_all = executor.process(CLIENTS).spawn("searches", shows_all);
            if heal::told(executor, shows_all, SHOWN_WITHIN)?.is_none() {
                wrong.push("not every node that follows shows the leader's documents".to_owned());
            }
        }
        Ok(wrong)
    }
}

/// Has the leader keep nothing for its followers, as `POST /<table>/_ccr/forget_follower` does.
async fn forget(services: Services) {
    for hold in services.leading.holds().unwrap_or_default() {
        let uuid = hold.follower_uuid();
        let forgotten = services.leading.forget(&hold.name, &hold.follower, &uuid).await;
        tracing::debug!(follower = hold.follower, ?forgotten, "a follower is forgotten");
    }
}

/// Searches at the leader and at each node that follows, until each has shown what the leader does.
async fn shows_all(leader: Client, here: Client) {
    for (own, theirs) in here.addresses.iter().zip(leader.addresses.iter().cycle()) {
        loop {
            let shown = searches::shown(&leader, theirs, None, Preference::Best).await;
            let followed = searches::shown(&here, own, None, Preference::Local).await;
            if let (Ok(shown), Ok(followed)) = (&shown, &followed)
                && shown == followed
            {
                break;
            }
            tracing::debug!(own, ?shown, ?followed, "searches differ");
            here.pause().await;
        }
    }
}

/// Has a table follow, as `PUT /<table>/_ccr/follow` does, until it is known to.
async fn follow(client: Client, begins: Instant, (leader, follower): (&'static str, &'static str)) {
    client.time.sleep_until(begins).await;
    for address in client.addresses.iter().cycle() {
        let found = client.network.services(address);
        if let Some((following, tasks)) = found.and_then(|it| Some((it.following?, it.tasks))) {
            let request = FollowRequest {
                remote: leader::NAME.to_owned(),
                leader: leader.to_owned(),
                ..FollowRequest::default()
            };
            let asked =
                tasks.spawn("follow", async move { following.follow(follower, request).await });
            match client.within_patience(asked).await {
                Some(Ok(())) => return,
                // An earlier try was carried out, and not answered.
                Some(Err(error)) if error.kind == "resource_already_exists_exception" => return,
                Some(Err(error)) => tracing::debug!(follower, %error, "it does not follow yet"),
                None => {}
            }
        }
        client.time.sleep(PAUSE).await;
    }
}
