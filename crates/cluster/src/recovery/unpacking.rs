//! Chunks as they come: the bytes of a file that they hold, of the length that was asked for, and with
//! the right checksum. Those that are compressed are unpacked where that may block. A source is not
//! trusted with the memory here: whatever would become longer is refused before it does.

use std::io::Read;

use flate2::read::DeflateDecoder;
use plimsoll_base::Tasks;

use crate::wire::{CallError, Encoding, Packing, Reply, chunk_checksum};

/// Why a chunk is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnpackError {
    /// Another encoding than any that was asked for.
    #[error("a chunk in an encoding that was not asked for: {0:?}")]
    NotAskedFor(Encoding),
    /// The bytes are none of that encoding, or would become more than was asked for.
    #[error("a chunk that does not become {asked} bytes by {encoding:?}: {why}")]
    Wrong {
        /// What it should be.
        encoding: Encoding,
        /// How many bytes were asked for.
        asked: usize,
        /// What is wrong.
        why: String,
    },
}

/// What came of asking for a chunk.
pub(super) enum Heard {
    /// All of it.
    Chunk(Arrived),
    /// What is not taken, and why.
    Wrong { why: String, wire_bytes: u64 },
    /// No chunk.
    Other(Result<Reply, CallError>),
}

/// A chunk that is as it should be.
pub(super) struct Arrived {
    pub bytes: Vec<u8>,
    /// Of all of the file.
    pub file_checksum: Option<u64>,
    /// How many bytes it was on the way.
    pub wire_bytes: u64,
    pub is_packed: bool,
}

/// Looks at an answer to a question for so many bytes, compressed or not.
pub(super) async fn heard(
    tasks: &Tasks,
    answer: Result<Reply, CallError>,
    packing: Option<Packing>,
    asked: usize,
) -> Heard {
    let (encoding, bytes, file_checksum, checksum) = match answer {
        Ok(Reply::Chunk { bytes, checksum }) => (Encoding::Plain, bytes, None, checksum),
        Ok(Reply::CopyChunk { bytes, file_checksum, checksum }) => {
            (Encoding::Plain, bytes, file_checksum, checksum)
        }
        Ok(Reply::PackedChunk { encoding, bytes, file_checksum, checksum }) => {
            (encoding, bytes, file_checksum, checksum)
        }
        other => return Heard::Other(other),
    };
    let (wire_bytes, is_packed) = (bytes.len() as u64, encoding != Encoding::Plain);
    let wrong = |why: String| Heard::Wrong { why, wire_bytes };
    let checked = move || {
        let bytes = unpack(encoding, packing, bytes, asked).map_err(|error| error.to_string())?;
        let is_right = chunk_checksum(&bytes, file_checksum) == checksum;
        if is_right { Ok(bytes) } else { Err("a damaged chunk".to_owned()) }
    };
    let checked = match is_packed {
        true => tasks.blocking(checked).await,
        false => Ok(checked()),
    };
    match checked {
        Ok(Ok(bytes)) => Heard::Chunk(Arrived { bytes, file_checksum, wire_bytes, is_packed }),
        Ok(Err(why)) => wrong(why),
        Err(error) => wrong(error.to_string()),
    }
}

/// The bytes of a file that a chunk holds: as many as were asked for.
fn unpack(
    encoding: Encoding,
    packing: Option<Packing>,
    bytes: Vec<u8>,
    asked: usize,
) -> Result<Vec<u8>, UnpackError> {
    let is_asked_for = match encoding {
        Encoding::Plain => true,
        Encoding::Zstd => matches!(packing, Some(Packing::Measured { .. })),
        Encoding::Deflate => packing == Some(Packing::Deflate),
    };
    if !is_asked_for {
        return Err(UnpackError::NotAskedFor(encoding));
    }
    let wrong = |why: String| UnpackError::Wrong { encoding, asked, why };
    let unpacked = match encoding {
        Encoding::Plain => bytes,
        // Into a buffer of that length, beyond which nothing is written.
        Encoding::Zstd => {
            zstd::bulk::decompress(&bytes, asked).map_err(|error| wrong(error.to_string()))?
        }
        Encoding::Deflate => {
            let mut unpacked = Vec::with_capacity(asked);
            let one_more = (asked as u64).saturating_add(1);
            let read = DeflateDecoder::new(bytes.as_slice()).take(one_more);
            read_all(read, &mut unpacked).map_err(|error| wrong(error.to_string()))?;
            unpacked
        }
    };
    match unpacked.len() {
        found if found == asked => Ok(unpacked),
        found if found > asked => Err(wrong("it becomes more".to_owned())),
        found => Err(wrong(format!("it becomes {found}"))),
    }
}

fn read_all(mut from: impl Read, to: &mut Vec<u8>) -> std::io::Result<usize> {
    from.read_to_end(to)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    const MEASURED: Option<Packing> = Some(Packing::Measured { link_bytes_s: 1 });
    const DEFLATE: Option<Packing> = Some(Packing::Deflate);

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(9));
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_was_asked_for_comes_out_and_nothing_else() {
        let text = b"one two three ".repeat(1_000);
        for (encoding, packing, bytes) in [
            (Encoding::Plain, MEASURED, text.clone()),
            (Encoding::Plain, DEFLATE, text.clone()),
            (Encoding::Zstd, MEASURED, zstd::bulk::compress(&text, 9).unwrap()),
            (Encoding::Deflate, DEFLATE, deflate(&text)),
        ] {
            let unpack = |bytes: &[u8], asked| unpack(encoding, packing, bytes.to_vec(), asked);
            assert_eq!(unpack(&bytes, text.len()).as_ref(), Ok(&text));
            for asked in [0, 1, text.len() - 1, text.len() + 1] {
                assert!(unpack(&bytes, asked).is_err(), "{encoding:?} {asked}");
            }
            if encoding != Encoding::Plain {
                assert!(unpack(&bytes[..bytes.len() / 2], text.len()).is_err(), "{encoding:?}");
                assert!(unpack(&text, text.len()).is_err(), "{encoding:?}");
            }
        }
    }

    #[test]
    fn an_answer_that_would_become_huge_is_refused_by_name() {
        let zeros = vec![0; 64 << 20];
        for (encoding, packing, bomb) in [
            (Encoding::Zstd, MEASURED, zstd::bulk::compress(&zeros, 9).unwrap()),
            (Encoding::Deflate, DEFLATE, deflate(&zeros)),
        ] {
            assert!(bomb.len() < 100_000);
            let refused = unpack(encoding, packing, bomb, 4_096).unwrap_err();
            assert!(matches!(refused, UnpackError::Wrong { asked: 4_096, .. }), "{refused}");
            assert!(refused.to_string().contains("does not become 4096 bytes"), "{refused}");
        }
    }

    #[test]
    fn an_encoding_that_was_not_asked_for_is_refused_by_name() {
        for (encoding, packing) in
            [(Encoding::Zstd, DEFLATE), (Encoding::Deflate, MEASURED), (Encoding::Zstd, None)]
        {
            let refused = unpack(encoding, packing, vec![1; 10], 10).unwrap_err();
            assert_eq!(refused, UnpackError::NotAskedFor(encoding));
        }
    }
}
