//! The settings that are kept in the metadata: names, values, defaults. Who reads them is whom they steer.

pub(crate) mod cluster;
pub(crate) mod error;
pub(crate) mod work;
