//! The room of the load generator, which is this very process: while it is in it, it has a share of
//! the processor like the nodes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::guardian::Guardian;
use super::limits::{Limits, Room};

/// This process in its room; it leaves it when this is dropped.
pub(crate) struct Generator {
    room: Option<Room>,
    back: PathBuf,
}

impl Generator {
    /// Enters a room with so many processors. Without control groups nothing is limited: a process
    /// that stops itself would not come back.
    pub(crate) fn enter(limits: &Limits, guardian: &Guardian, share: f64) -> io::Result<Self> {
        let Limits::Groups(shares) = limits else {
            return Ok(Self { room: None, back: PathBuf::new() });
        };
        let room = limits.room("generator", guardian)?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let root = shares.folder().parent().unwrap_or(Path::new("/"));
        let back = root.join(own_group(&own, "cpu")).join("cgroup.procs");
        if let Some(place) = room.place() {
            limits.limit(&room, std::process::id(), share)?;
            fs::write(place.server_file(), std::process::id().to_string())?;
        }
        Ok(Self { room: Some(room), back })
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        if self.room.is_some() {
            let _ = fs::write(&self.back, std::process::id().to_string());
        }
    }
}

/// The group that a process is in, by its `/proc/…/cgroup`, below the root of the hierarchy of a
/// controller.
pub(crate) fn own_group<'a>(text: &'a str, controller: &str) -> &'a str {
    let rows = || {
        text.lines()
            .filter_map(|line| line.splitn(3, ':').skip(1).collect::<Vec<_>>().try_into().ok())
    };
    let one = rows().find(|[names, _]: &[&str; 2]| names.split(',').any(|name| name == controller));
    let found = one.or_else(|| rows().find(|[names, _]: &[&str; 2]| names.is_empty()));
    found.map_or("", |[_, path]| path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_to_go_back_to_is_found() {
        assert_eq!(own_group("4:memory:/a\n1:cpu,cpuacct:/b/c\n0::/\n", "cpu"), "b/c");
        assert_eq!(own_group("0::/user.slice/x\n", "cpu"), "user.slice/x");
        assert_eq!(own_group("", "cpu"), "");
    }
}
