//! Records applied to a replica, within a limit of memory.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_fuzz::apply::apply(data));
