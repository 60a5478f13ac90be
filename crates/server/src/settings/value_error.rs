//! Why a setting does not take a value. Which setting, and who gave it, is said around it.

use std::num::{ParseIntError, TryFromIntError};

use plimsoll_cluster::SettingError;
use plimsoll_log::jetstream::AddressError;
use plimsoll_stdx::units::UnitError;

use super::table::{PASSWORD_BYTES_MAX, ROLES};

/// Why a value does not fit its setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// There is none.
    #[error("lacks its value; write --set key=value")]
    Missing,
    /// There are several.
    #[error("takes one value, not a list")]
    List,
    /// It is no whole number.
    #[error("`{0}` is not a whole number")]
    NotWhole(String),
    /// It is no number that the setting can hold.
    #[error(transparent)]
    Number(#[from] ParseIntError),
    /// It is more than this machine can address.
    #[error(transparent)]
    TooLarge(#[from] TryFromIntError),
    /// It is no size or duration.
    #[error("`{text}` {why}")]
    Unit {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        why: UnitError,
    },
    /// It is out of its range, whose ends are shown as people write them.
    #[error("`{text}` is not between {min} and {max}")]
    Outside {
        /// What was given.
        text: String,
        /// The least.
        min: String,
        /// The most.
        max: String,
    },
    /// It is none of the words that the setting takes.
    #[error("`{text}` is none of {}", words.join(", "))]
    NoneOf {
        /// What was given.
        text: String,
        /// What it takes.
        words: &'static [&'static str],
    },
    /// It is neither 0 nor large enough to be of use.
    #[error("it is 0 or at least {0}")]
    BelowLeast(&'static str),
    /// It is no address of a port.
    #[error("`{0}` is not an address such as 127.0.0.1:6380")]
    Address(String),
    /// It is no address of a network card.
    #[error("`{0}` is no address such as 127.0.0.1")]
    Card(String),
    /// Nobody can be told to connect to it.
    #[error("`{0}` is no name of a host and no address")]
    PublishHost(String),
    /// It names no log; `shown` is what of it may be repeated.
    #[error("{0} is no log; write `embedded`, `nats://host:port[,…]` or `plimsoll://host:port`")]
    NoLog(String),
    /// Files of TLS or a login are given for a log that has neither.
    #[error(
        "is no log of NATS servers, and files to reach such a log are given (log.tls.*, log.*_file)"
    )]
    NoNats,
    /// It is no address of NATS servers.
    #[error(transparent)]
    Nats(#[from] AddressError),
    /// It is no role of a node.
    #[error("`{0}` is none of {roles}", roles = ROLES.join(", "))]
    Role(String),
    /// Nobody else could hold what the node serves.
    #[error("`data` is wanted: with a log of its own the node is alone")]
    DataIsWanted,
    /// The controllers do not take it.
    #[error(transparent)]
    Work(#[from] SettingError),
    /// The file that holds a secret cannot be read.
    #[error("{path}: {why}")]
    SecretFile {
        /// The file.
        path: String,
        /// What the system says.
        why: String,
    },
    /// The file that is to hold a secret holds nothing.
    #[error("{0} is empty")]
    EmptySecretFile(String),
    /// A secret is given twice; names the other setting.
    #[error("is set, and so is {0}; keep one")]
    TwoSecrets(&'static str),
    /// A secret is too long to be compared in constant time.
    #[error("is longer than {PASSWORD_BYTES_MAX} bytes")]
    SecretTooLong,
    /// The port for other clusters has TLS; names the setting that it lacks.
    #[error("wants {0}: the port has TLS always (`plimsoll certificates` makes the files)")]
    NoTls(&'static str),
    /// TLS is asked for; names the setting that it lacks.
    #[error("wants {0} (`plimsoll certificates` makes the files)")]
    TlsWants(&'static str),
    /// Nodes show certificates, and a secret is set that nobody would ask for.
    #[error(
        "is of no use beside rpc.tls.mode required: nodes know each other by their certificates"
    )]
    SecretBesideTls,
    /// Files of TLS are named that nobody would read.
    #[error("is off, and {0} is set: set both or neither")]
    TlsIsOff(&'static str),
    /// It is no name of a host.
    #[error("`{0}` is no name of a host, such as search.example")]
    HostName(String),
    /// Any page could act with the password that its visitor has given once.
    #[error("`*` and http.cors.allow-credentials: name the origins instead")]
    AnyOriginWithCredentials,
    /// It is a regular expression.
    #[error("`{0}`: regular expressions are not supported, list the origins")]
    OriginPattern(String),
    /// It is no origin.
    #[error("`{0}` is no origin, such as https://kibana.example:5601")]
    Origin(String),
    /// It cannot stand in a header.
    #[error("`{0}` is no word of a header")]
    HeaderWord(String),
}
