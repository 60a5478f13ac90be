//! Scenarios of copies: one that counts for nothing and tells how large the table is, a raw one that
//! warms up, then laps of all arms in turns.

use std::sync::atomic::AtomicU64;

use super::arms::RemoteArm;
use super::scenarios::Plan;
use super::{Run, copying, laps, verdict};
use crate::LabError;
use crate::live::measure::Measured;
use crate::live::method;
use crate::live::options::LiveSize;
use crate::result::LoadNote;

/// The first copy is waited for so long.
const FIRST_SECONDS_MAX: f64 = 300.0;
/// Laps that may be made again because something disturbed them, of all.
const AGAIN_SHARE: usize = 4;
const AGAIN_SHARE_QUICK: usize = 8;

impl Run<'_, '_> {
    /// Runs a scenario of copies.
    pub(super) fn copies(&mut self, plan: &Plan) -> Result<(), LabError> {
        let arms = self.leave_out_unsupported(plan.arms(self.context.options));
        let stop = std::sync::Arc::clone(&self.context.options.stop);
        let name = plan.name;
        self.pair.forget()?;
        let first = copying::copy(&self.pair, FIRST_SECONDS_MAX, &AtomicU64::new(0), &stop)?;
        let bytes = match first.cut {
            Some(_) if self.context.is_stopped() => return Err(LabError::Stopped),
            Some(why) => return Err(LabError::live("copy the table once".to_owned(), why)),
            None => first.bytes,
        };
        self.context.step(&format!("{name} first copy"));
        self.pair.serve_raw(bytes)?;
        let warm = laps::lap(&mut self.pair, &arms[0], bytes, f64::INFINITY, &stop)?;
        let raw_seconds = warm.lap.recovery.map_or(0.0, |it| it.recovery_seconds);
        self.context.note(format!(
            "{name}: {:.1} MB of files in {} partitions; the first raw copy took {raw_seconds:.2} s",
            bytes as f64 / 1e6,
            plan.shards
        ));
        self.context.step(&format!("{name} raw warm-up"));
        let mut laps = self.turns(plan, &arms, (bytes, raw_seconds))?;
        if laps.iter().all(Vec::is_empty) {
            return Err(LabError::Stopped);
        }
        verdict::shares(&arms, &mut laps);
        let fit = [
            ("link_bytes_s", plan.link.rate_bytes_s as f64),
            ("trip_ms", (plan.link.delay * 2).as_secs_f64() * 1e3),
            ("jitter_ms", plan.link.jitter.as_secs_f64() * 1e3),
            ("loss", plan.link.loss),
            ("processors", plan.share),
            ("partitions", plan.shards as f64),
            ("table_bytes", bytes as f64),
        ];
        self.push(name, LoadNote::Clients(0), &fit, &arms, &laps);
        self.tell_cut(plan, &arms, &laps);
        Ok(())
    }

    /// The laps of all arms, in turns; what there is when it is stopped.
    fn turns(
        &mut self,
        plan: &Plan,
        arms: &[RemoteArm],
        (bytes, raw_seconds): (u64, f64),
    ) -> Result<Vec<Vec<Measured>>, LabError> {
        let stop = std::sync::Arc::clone(&self.context.options.stop);
        let mut all: Vec<Vec<Measured>> = arms.iter().map(|_| Vec::new()).collect();
        let (options, laps) = (self.context.options, self.context.laps());
        let share = if options.size == LiveSize::Quick { AGAIN_SHARE_QUICK } else { AGAIN_SHARE };
        let mut again = plan.laps_of_all(options, laps).div_ceil(share);
        for block in 0..plan.laps(options, laps) {
            for at in method::order(arms.len(), block) {
                let arm = &arms[at];
                if block >= plan.laps_of(arm, options, laps) {
                    continue;
                }
                loop {
                    if self.context.is_stopped() {
                        return Ok(all);
                    }
                    let limit = arm.seconds_max(raw_seconds);
                    let mut lap = laps::lap(&mut self.pair, arm, bytes, limit, &stop)?;
                    lap.block = block;
                    // One that was stopped before it was done tells nothing.
                    if self.context.is_stopped() && lap.lap.recovery.is_none() {
                        return Ok(all);
                    }
                    let why = lap.lap.reason.clone().unwrap_or_default();
                    let is_good = lap.lap.valid || again == 0;
                    all[at].push(lap);
                    if is_good || self.context.is_stopped() {
                        break;
                    }
                    again -= 1;
                    self.context.progress.note(&format!("{}: once more, {why}", arm.name));
                }
                let last = all[at].last().and_then(|one| one.lap.recovery);
                let took = last.map_or("nothing came".to_owned(), |it| {
                    format!("{:.1} s", it.recovery_seconds)
                });
                let what = format!("{} {} lap {} ({took})", plan.name, arm.name, block + 1);
                self.context.step(&what);
            }
        }
        Ok(all)
    }

    /// Says which laps were cut: their times are no measurements.
    fn tell_cut(&mut self, plan: &Plan, arms: &[RemoteArm], laps: &[Vec<Measured>]) {
        for (arm, laps) in arms.iter().zip(laps) {
            let reasons = laps.iter().filter_map(|one| one.lap.reason.as_deref());
            let reasons: Vec<&str> = reasons.filter(|why| why.contains("cut after")).collect();
            if let Some(first) = reasons.first() {
                let count = reasons.len();
                self.context.notes.push(format!(
                    "{} {}: {count} of {} laps were cut and their times extrapolated (the \
                     first: {first})",
                    plan.name,
                    arm.name,
                    laps.len()
                ));
            }
        }
    }
}
