//! Commands in any words, run on rows in memory.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_fuzz::commands(data));
