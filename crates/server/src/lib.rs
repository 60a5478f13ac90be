//! The one crate that knows the network, the command line and the settings file. It turns bytes
//! into commands ([`resp`], [`commands`]), runs them for each connection ([`connection`],
//! [`handlers`]) with the coordinator below, answers REST ([`rest`]), carries what nodes say to each
//! other ([`rpc`]) and what other clusters ask ([`remote`]), and says how the node is ([`metrics`]).
//!
//! It knows nothing of rows, logs or partitions.

#![expect(
    clippy::disallowed_methods,
    reason = "connections and requests are the machine's; a simulation asks the coordinator"
)]

mod accept;
pub mod auth;
pub mod certificates;
pub mod cli;
pub mod clients;
pub mod commands;
pub mod connection;
pub mod data_folder;
pub mod handlers;
pub mod lab;
pub mod linger;
pub mod listen;
pub mod logins;
pub mod metrics;
pub mod node;
mod places;
pub mod process;
pub mod remote;
pub mod resp;
pub mod rest;
pub mod rpc;
pub mod secure;
pub mod security;
pub mod serve;
pub mod settings;
pub mod spans;
pub mod tls;
pub mod usage;
pub mod users;
pub mod workers;
