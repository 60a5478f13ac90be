//! What a command asks for: to read rows, or to change them. How arguments become it stands beside each of the two.

use super::read::Read;
use super::write::Write;

/// What a command asks for.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// It changes nothing.
    Read(Read<'a>),
    /// It may change rows.
    Write(Write<'a>),
}
