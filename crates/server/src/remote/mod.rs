//! The way to and from other clusters. It has the making of certificates; it opens no port yet.

pub mod certificates;
