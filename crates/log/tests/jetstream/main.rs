//! The JetStream engine on real servers, the oldest supported version and a current one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod client;
mod faults;
mod gates;
mod opening;
mod servers;
mod streams;
mod use_of_it;

/// Runs each test on both versions.
#[macro_export]
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod oldest {
            $(#[test] fn $name() {
                if $crate::servers::are_there() {
                    super::$name($crate::servers::Version::Oldest);
                }
            })+
        }
        mod current {
            $(#[test] fn $name() {
                if $crate::servers::are_there() {
                    super::$name($crate::servers::Version::Current);
                }
            })+
        }
    };
}
