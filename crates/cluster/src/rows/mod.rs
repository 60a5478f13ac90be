//! What clients ask of rows, beyond one partition: commands that concern several, large hashes in slices, the
//! requests of one connection side by side.

pub(crate) mod beside;
pub(crate) mod scatter;
pub(crate) mod slices;
