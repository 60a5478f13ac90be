//! The format of a store's rows, by which another node, perhaps of another cluster, knows whether it can read them.

/// The format of rows and of what a replica notes beside them: one more whenever any of their
/// formats is. A store of an earlier one is read, one of a later one is not worth carrying here.
pub const STORE_FORMAT: u8 = 2;
/// That of a store none of whose rows are packed.
const UNPACKED_FORMAT: u8 = 1;

/// The format of stores whose rows may be packed, or may not.
pub(super) fn store_format(packs: bool) -> u8 {
    if packs { STORE_FORMAT } else { UNPACKED_FORMAT }
}
