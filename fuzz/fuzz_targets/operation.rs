//! The decoders of operations and of kept replies.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_fuzz::operation(data));
