//! A whole cluster under one seed: three or more nodes of the code that ships, in one process and one thread, on
//! virtual time, and a second such cluster whose tables follow those of the first ([`following`]). Their time, chance, tasks and disk are simulated (`plimsoll_base`), and so are the log's
//! servers ([`log`]) and the network between them ([`network`]). Clients write and read rows ([`clients`]) and
//! documents ([`searches`]), make and delete tables ([`tables`]), things go wrong ([`faults`]), and what clients saw is judged ([`linearizable`]).
//!
//! What stays outside: RESP, HTTP, gRPC, RocksDB, NATS. Tests on real processes see to those.

pub mod clients;
mod documents;
mod expiring;
pub mod faults;
pub mod following;
mod freed;
mod heal;
pub mod linearizable;
pub mod log;
pub mod messages;
pub mod network;
pub mod nodes;
pub mod plan;
pub mod run;
pub mod searches;
mod settings;
pub mod shrink;
pub mod tables;
