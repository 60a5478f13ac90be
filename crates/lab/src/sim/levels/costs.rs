//! What requests cost, and which part of it each step of theirs is.

/// Of what a read costs its server, the part of the connection's thread; a client's is as long.
pub(super) const READ_IO: f64 = 0.25;
/// Parts of what a write costs its servers: of the connections' threads at the first copy for the request
/// and for each answer of another copy, and at each other copy; of the processors to prepare, to commit, and
/// at each other copy.
pub(super) const WRITE_IO: f64 = 0.16;
pub(super) const ACK_IO: f64 = 0.08;
pub(super) const COPY_IO: f64 = 0.14;
pub(super) const PREPARE: f64 = 0.10;
pub(super) const COMMIT: f64 = 0.08;
pub(super) const COPY: f64 = 0.11;
/// Of what a write to three copies costs, what is left of it where there is one.
const ALONE: f64 = WRITE_IO + PREPARE + COMMIT;

/// What requests cost; the two are what is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    /// Of a read at its server.
    pub(crate) read_us: f64,
    /// Of a write to three copies, at all its servers together.
    pub(crate) write_us: f64,
}

impl Costs {
    /// Where there is one copy, and a write costs its server so much.
    pub(crate) fn of_one_copy(read_us: f64, write_us: f64) -> Self {
        Self { read_us, write_us: write_us / ALONE }
    }
}
