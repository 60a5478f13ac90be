//! How much a request may announce, and the words for what is no request. It reads nothing
//! itself; [`super::decode`] does.

/// The longest line: a header or a whole inline command, in bytes. Redis' own limit.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// How much one command may announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most arguments, the name included.
    pub args_max: usize,
    /// Most bytes of one argument.
    pub bulk_bytes_max: usize,
    /// Most bytes of all arguments together.
    pub command_bytes_max: usize,
    /// Whether these are the limits before authentication; changes the words of the refusal.
    pub unauthenticated: bool,
}

impl Limits {
    /// After authentication, or where none is asked for: an argument of 8 MiB, as a log record
    /// takes; 1,048,576 arguments; 64 MiB together.
    pub const FULL: Self = Self {
        args_max: 1024 * 1024,
        bulk_bytes_max: 8 * 1024 * 1024,
        command_bytes_max: 64 * 1024 * 1024,
        unauthenticated: false,
    };

    /// Before authentication: Redis' 10 arguments of 16 KiB, but 48 KiB together, so that with the
    /// headers and what is read at once a connection holds 64 KiB at most.
    pub const UNAUTHENTICATED: Self = Self {
        args_max: 10,
        bulk_bytes_max: 16 * 1024,
        command_bytes_max: 48 * 1024,
        unauthenticated: true,
    };
}

/// Bytes that are no request. The stream cannot be understood from here on, so the connection
/// is closed after the words, which are Redis' own where it has the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A count that is no number or over the limit.
    #[error("Protocol error: invalid multibulk length")]
    MultibulkLength,
    /// A length that is no number, negative or over the limit.
    #[error("Protocol error: invalid bulk length")]
    BulkLength,
    /// A count over what is allowed before authentication.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// A length over what is allowed before authentication.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// An argument that is no bulk string.
    #[error("Protocol error: expected '$', got '{}'", .0.escape_ascii())]
    ExpectedBulk(u8),
    /// A count header without an end.
    #[error("Protocol error: too big mbulk count string")]
    MultibulkHeader,
    /// A length header without an end.
    #[error("Protocol error: too big bulk count string")]
    BulkHeader,
    /// An inline command without an end.
    #[error("Protocol error: too big inline request")]
    InlineLength,
    /// An inline command with an open quote, or text right after a closing one.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// All arguments together announce more than the limit.
    #[error("Protocol error: command exceeds {0} bytes")]
    CommandLength(usize),
}
