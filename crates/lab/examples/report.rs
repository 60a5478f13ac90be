//! x
fn main() { let d = std::env::args().nth(1).expect("dir"); plimsoll_lab::report(d.as_ref()).expect("ok"); }
