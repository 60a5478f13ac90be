//! What a refusal says, in Elasticsearch's words. Who is refused is decided in `breakers.rs`.

/// What a refusal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trip {
    /// The breaker's name.
    pub breaker: &'static str,
    /// Whose memory it was about.
    pub label: String,
    /// Bytes that would be held.
    pub bytes_wanted: u64,
    /// The most that may be.
    pub bytes_limit: u64,
    /// Bytes that were asked for, of these.
    pub bytes_new: u64,
    /// The requests that hold most and what they hold, bytes; the largest first.
    pub largest: Vec<(String, u64)>,
    /// Whether trying again later may help: what requests hold goes, what lasts stays.
    pub is_transient: bool,
}

impl Trip {
    /// `TRANSIENT` or `PERMANENT`.
    #[must_use]
    pub fn durability(&self) -> &'static str {
        if self.is_transient { "TRANSIENT" } else { "PERMANENT" }
    }
}

impl std::fmt::Display for Trip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { breaker, label, bytes_wanted, bytes_limit, bytes_new, .. } = self;
        write!(
            f,
            "[{breaker}] Data too large, data for [{label}] would be \
             [{bytes_wanted}/{}], which is larger than the limit of [{bytes_limit}/{}], \
             new bytes reserved: [{bytes_new}/{}], largest: [",
            Size(*bytes_wanted),
            Size(*bytes_limit),
            Size(*bytes_new)
        )?;
        for (at, (title, bytes)) in self.largest.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{title}={bytes}/{}", Size(*bytes))?;
        }
        f.write_str("]")
    }
}

/// Bytes for people, as Elasticsearch writes them.
struct Size(u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = [(1u64 << 40, "tb"), (1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")];
        match units.iter().find(|(unit, _)| self.0 >= *unit) {
            None => write!(f, "{}b", self.0),
            Some((unit, name)) => {
                let tenths = u128::from(self.0) * 10 / u128::from(*unit);
                match tenths % 10 {
                    0 => write!(f, "{}{name}", tenths / 10),
                    tenth => write!(f, "{}.{tenth}{name}", tenths / 10),
                }
            }
        }
    }
}
