//! Who limits the lab's processes: control groups where they can be written, else turns. This is
//! the one place that knows both.

use std::io;
use std::sync::Arc;

use super::guardian::Guardian;
use super::processes;
use super::shares::{Cgroup, Shares, Throttled};
use super::throttle::Throttle;

/// What limits processes on this machine.
pub(crate) enum Limits {
    /// Control groups.
    Groups(Shares),
    /// Stopping and continuing.
    Turns(Throttle),
}

/// A limited process's room.
pub(crate) struct Room {
    place: Option<Cgroup>,
}

impl Limits {
    /// The best that this machine has.
    pub(crate) fn find(guardian: &Arc<Guardian>) -> Self {
        let shares = Shares::make().filter(|shares| {
            let folder = shares.folder().to_string_lossy().into_owned();
            guardian.folder(&folder).is_ok()
        });
        match shares {
            Some(shares) => Self::Groups(shares),
            None => Self::Turns(Throttle::start(Arc::clone(guardian), processes::processors())),
        }
    }

    /// In words.
    pub(crate) fn about(&self) -> String {
        match self {
            Self::Groups(shares) => shares.about(),
            Self::Turns(throttle) => throttle.about(),
        }
    }

    /// Makes a room without a limit.
    pub(crate) fn room(&self, name: &str, guardian: &Guardian) -> io::Result<Room> {
        let Self::Groups(shares) = self else { return Ok(Room { place: None }) };
        let place = shares.place(name)?;
        for folder in place.folders() {
            guardian.folder(&folder.to_string_lossy())?;
        }
        Ok(Room { place: Some(place) })
    }

    /// Lets what is in a room use so many processors; `process` is its server.
    pub(crate) fn limit(&self, room: &Room, process: u32, processors: f64) -> io::Result<()> {
        match (self, &room.place) {
            (Self::Turns(throttle), _) => throttle.limit(process, processors),
            (_, Some(place)) => place.quota(processors)?,
            _ => {}
        }
        Ok(())
    }

    /// Takes the limit away.
    pub(crate) fn release(&self, room: &Room, process: u32) -> io::Result<()> {
        match (self, &room.place) {
            (Self::Turns(throttle), _) => throttle.release(process),
            (_, Some(place)) => place.free()?,
            _ => {}
        }
        Ok(())
    }

    /// A process has ended.
    pub(crate) fn forget(&self, process: u32) {
        if let Self::Turns(throttle) = self {
            throttle.forget(process);
        }
    }
}

impl Room {
    /// The place, where there are control groups.
    pub(crate) fn place(&self) -> Option<&Cgroup> {
        self.place.as_ref()
    }

    /// How often its quota ran out; none without control groups.
    pub(crate) fn throttled(&self) -> Option<Throttled> {
        self.place.as_ref().map(Cgroup::throttled)
    }

    /// Processor time of what disturbs its server, s.
    pub(crate) fn stress_cpu_s(&self) -> f64 {
        let processes = self.place.as_ref().map(Cgroup::stress_processes).unwrap_or_default();
        processes.into_iter().filter_map(processes::cpu_s).sum()
    }
}
