//! Pacing at work: once a second a role looks at what this node's clients felt and at how much was copied,
//! followed and compacted meanwhile, asks the laws (`plimsoll_control::pacing`), and sets how fast that may go
//! (`crate::pacing`, [`compactions`]). It decides nothing itself.

mod compactions;

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use plimsoll_base::Time;
use plimsoll_base::tasks::{Role, Stopping};
use plimsoll_control::pacing::CopyPacer;

use self::compactions::Compactions;
use crate::node::shared::Shared;
use crate::settings;

/// How often the law is asked.
const INTERVAL: Duration = Duration::from_secs(1);

/// Begins the role that asks the law.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Role> {
    let (weak, time) = (Arc::downgrade(shared), shared.world.time.clone());
    shared.world.tasks.role("pacing", move |stopping| run(weak, time, stopping))
}

async fn run(shared: Weak<Shared>, time: Time, mut stopping: Stopping) {
    let mut pacer = CopyPacer::default();
    let mut compactions = Compactions::default();
    while !stopping.told_within(&time, INTERVAL).await {
        let Some(shared) = shared.upgrade() else { return };
        let mode = settings::cluster::pacing(&shared.metadata);
        let felt = shared.router.felt();
        shared.copies.pacing.step(&mut pacer, felt, mode);
        compactions.step(&shared, &felt);
    }
    if let Some(shared) = shared.upgrade() {
        // Nobody waits for what is held when the node stops.
        shared.replication.resources.compactions().set(None, true);
    }
}
