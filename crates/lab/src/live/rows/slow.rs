//! Laps on one node that begin from the same files, on a disk of so many bytes a second or on the machine's
//! own, with an arm's rule of how fast files are rewritten: what `limiter`, `burst` and `large-values` share.
//! What they ask and what they aim at is theirs.

use std::time::Instant;

use super::arms;
use super::plan::{self, Ask, Lengths, Looks};
use super::server::Server;
use super::source::Rows;
use super::store::{REST, Store};
use crate::LabError;
use crate::live::context::{Arm, Context};
use crate::live::load::Pace;
use crate::live::measure::Measured;
use crate::live::options::LiveOptions;

/// Bytes of a key, about.
const KEY_BYTES: u64 = 23;
/// What the disk takes, bytes a second.
pub(super) const DISK_BYTES_S: u64 = 60_000_000;
/// The most requests that are under way at once.
pub(super) const CLIENTS: usize = 64;
/// Settings of all arms: files as small beside the rows as the study's were, so that a lap of seconds sees
/// all levels rewritten.
const SETTINGS: [&str; 4] =
    ["cache.size=64mb", "write_buffer.size=32mb", "logger.level=warn", "resp.number_of_shards=4"];

/// What the store is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// The scenario.
    pub(super) name: &'static str,
    pub(super) keys: u64,
    pub(super) value_bytes: usize,
    /// What the disk takes, bytes a second; none where it is as fast as it is.
    pub(super) disk_bytes_s: Option<u64>,
}

/// A store with prepared files.
pub(super) struct Slow<'a> {
    options: &'a LiveOptions,
    form: Form,
    store: Store,
    rows: Rows,
    write_bytes: u64,
    /// What comes in, where that is known.
    pub(super) ingest_bytes_s: f64,
}

/// How many writes a second a store took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    /// In a closed loop.
    pub(super) closed_ops_s: f64,
    /// What can be gone on with.
    pub(super) lasting_ops_s: f64,
}

impl<'a> Slow<'a> {
    /// Fills a store; none where the disk cannot be held, of which the run is told.
    ///
    /// # Errors
    /// The node does not start, or takes a row not.
    pub(super) fn start(context: &mut Context<'a>, form: Form) -> Result<Option<Self>, LabError> {
        Self::start_from(context, form, form.value_bytes)
    }

    /// The same with values from so many bytes up to the form's.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(super) fn start_from(
        context: &mut Context<'a>,
        form: Form,
        value_bytes_min: usize,
    ) -> Result<Option<Self>, LabError> {
        let options = context.options;
        let rows = Rows::new(form.keys, form.value_bytes, 0.0, options.seed);
        let rows = rows.of_at_least(value_bytes_min);
        let name = form.name;
        context.progress.note(&format!("{name}: filling a store with {} rows", form.keys));
        let settings = SETTINGS.map(str::to_owned).to_vec();
        let mut store = Store::start(&options.binary, &options.folder, settings)?;
        if store.disk.is_none() && form.disk_bytes_s.is_some() {
            context.note(format!("{name}: left out, as control groups cannot hold a disk here"));
            return Ok(None);
        }
        store.prepare(&rows, form.keys, options.seed, &options.stop)?;
        // The mean of what is as likely from end to end.
        let value_bytes = (value_bytes_min + form.value_bytes) / 2;
        let write_bytes = value_bytes as u64 + KEY_BYTES;
        Ok(Some(Self { options, form, store, rows, write_bytes, ingest_bytes_s: 0.0 }))
    }

    /// Keys and values of a write, bytes.
    pub(super) fn write_bytes(&self) -> u64 {
        self.write_bytes
    }

    /// Starts the node from the prepared files with an arm's settings.
    ///
    /// # Errors
    /// The node does not start.
    pub(super) fn begin(&mut self, arm: &Arm) -> Result<(), LabError> {
        let settings = arms::started_with(&arm.name, self.ingest_bytes_s);
        self.store.begin(&settings, self.form.disk_bytes_s)?;
        self.store.cluster.set(&arm.settings)
    }

    /// A lap of writes on the node as it runs.
    ///
    /// # Errors
    /// The load cannot be started.
    pub(super) fn goes_on(
        &self,
        pace: Pace,
        lengths: Lengths,
        block: usize,
    ) -> Result<Measured, LabError> {
        let looks = Looks {
            disk: self.store.disk.clone(),
            disk_bytes_s: self.form.disk_bytes_s,
            write_bytes: self.write_bytes(),
        };
        let ask = Ask::closed(&self.store.cluster, &self.rows, CLIENTS);
        let ask = Ask { pace, lengths, looks: Some(looks), ..ask };
        let mut measured = plan::lap(self.options, &ask, block)?;
        if let Some(rows) = &mut measured.lap.rows {
            rows.log_bytes = Some(self.store.log_bytes());
        }
        Ok(measured)
    }

    /// Ends the node and removes its files.
    pub(super) fn end(&mut self) {
        self.store.end();
    }

    /// A lap of writes from the prepared files.
    ///
    /// # Errors
    /// The node does not start, or the load cannot.
    pub(super) fn one(
        &mut self,
        arm: &Arm,
        pace: Pace,
        lengths: Lengths,
        block: usize,
    ) -> Result<Measured, LabError> {
        self.begin(arm)?;
        let lap = self.goes_on(pace, lengths, block);
        self.store.end();
        lap
    }

    /// How many writes a second can be gone on with without limits, which the run is told of.
    ///
    /// # Errors
    /// As [`Self::most`].
    pub(super) fn most_of_off(
        &mut self,
        context: &mut Context<'_>,
        lengths: Lengths,
    ) -> Result<Most, LabError> {
        let (_, most) = self.most(&arms::arms(&[arms::OFF])[0], lengths, 0)?;
        context.step(&format!("{}: the most, {:.1} writes/s", self.form.name, most.lasting_ops_s));
        Ok(most)
    }

    /// A lap of a closed loop from the prepared files, and how many writes a second can be gone on with: what
    /// the lap took, or what the disk takes of them with all that they have written anew, of which a short
    /// lap puts much off: that is waited for. Where the disk is not held, the waiting counts as time.
    ///
    /// # Errors
    /// The node does not start, or the load cannot.
    pub(super) fn most(
        &mut self,
        arm: &Arm,
        lengths: Lengths,
        block: usize,
    ) -> Result<(Measured, Most), LabError> {
        self.begin(arm)?;
        let told = self.store.cluster.told(self.store.disk.clone());
        let (first, began) = (told.figures(), Instant::now());
        let lap = self.goes_on(Pace::Closed { clients: CLIENTS }, lengths, block)?;
        self.store.await_rest(&self.options.stop);
        let took_s = began.elapsed().saturating_sub(REST.look).as_secs_f64();
        let last = told.figures();
        self.store.end();
        let writes = last.writes.saturating_sub(first.writes).max(1) as f64;
        let each = last.written_bytes.saturating_sub(first.written_bytes) as f64 / writes;
        let lasting_ops_s = match self.form.disk_bytes_s {
            Some(disk_bytes_s) => disk_bytes_s as f64 / each.max(1.0),
            None => writes / took_s.max(1e-9),
        };
        let closed_ops_s = lap.lap.throughput_ops_s.mean;
        Ok((lap, Most { closed_ops_s, lasting_ops_s: closed_ops_s.min(lasting_ops_s) }))
    }
}
