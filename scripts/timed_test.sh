#!/usr/bin/env bash
# What `cargo test` runs each test program with, for it to say how long each test took: the harness can, and
# calls it unstable.
RUSTC_BOOTSTRAP=1 exec "$@" -Z unstable-options --report-time
