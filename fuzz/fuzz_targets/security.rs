//! Users, roles and rules of strangers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_fuzz::security(data));
