//! Tests of copies whose chunks are compressed: what is asked for is what comes, whatever the level,
//! and what a source does wrong is found.

use super::*;
use crate::recovery::window::Window;
use crate::wire::{Encoding, chunk_checksum};

/// A source abroad whose rows shrink, and their digest.
fn abroad(dir: &Path, seed: u64) -> (Network, u64) {
    let mut source = Source::new(&dir.join("rows"), seed);
    for _ in 0..3 {
        // A table's blocks are compressed already: what shrinks is beside them.
        source.grow(40, 200, true);
    }
    let network = Network::new(source.replica.store(), seed);
    *network.0.is_abroad.lock() = true;
    (network, source.digest())
}

/// The link is the bound, however slow the disk is: what waits to be written holds nothing back.
fn packed(compression: CopyCompression, link_bytes_s: u64) -> CopyOptions {
    let window = Some(Window::known(2_000, 8, link_bytes_s));
    CopyOptions { compression, window, chunks_max: 10_000, ..small() }
}

async fn copied(network: &Network, options: &CopyOptions) -> (u64, RecoveryStatus) {
    let target = Target::new();
    let replica = target.recover(network, options).await;
    (replica.digest().unwrap(), target.status())
}

#[tokio::test]
async fn what_is_asked_for_is_what_comes_whatever_the_level() {
    for seed in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let (network, digest) = abroad(dir.path(), seed);
        for (compression, link_bytes_s) in [
            (CopyCompression::Off, 1),
            (CopyCompression::Deflate, 1),
            (CopyCompression::Measured, 1_000),
            (CopyCompression::Measured, 10_000_000),
            (CopyCompression::Measured, u64::MAX),
        ] {
            let (found, status) = copied(&network, &packed(compression, link_bytes_s)).await;
            let what = format!("{seed} {compression:?} {link_bytes_s}: {status:?}");
            assert_eq!(found, digest, "{what}");
            assert_eq!(status.bytes_wire, network.take_bytes(), "{what}");
            assert_eq!(status.bytes_recovered, status.bytes_total, "{what}");
            let is_less = status.bytes_wire < status.bytes_total;
            let is_off = compression == CopyCompression::Off || link_bytes_s == u64::MAX;
            assert_eq!(is_less, !is_off, "{what}");
        }
    }
}

#[tokio::test]
async fn a_link_that_is_not_known_yet_carries_chunks_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (network, digest) = abroad(dir.path(), 3);
    let time = Time::of_the_machine();
    for window in [Window::measured(&time), Window::published(&time, 2_000, 5)] {
        let compression = CopyCompression::Measured;
        let options = CopyOptions { compression, window: Some(window), ..small() };
        let (found, status) = copied(&network, &options).await;
        assert_eq!((found, status.bytes_wire), (digest, status.bytes_total));
    }
}

#[tokio::test]
async fn within_a_cluster_and_by_an_older_source_nothing_is_compressed() {
    let dir = tempfile::tempdir().unwrap();
    let (network, digest) = abroad(dir.path(), 4);
    let options = packed(CopyCompression::Deflate, 1);
    // A node of the same cluster is not asked for that, and would not answer.
    *network.0.is_abroad.lock() = false;
    let target = Target::new();
    assert!(target.copy(&network, &options).await.is_err());
    *network.0.is_abroad.lock() = true;
    let unread = |reply: &mut Reply| {
        let is_packed = matches!(reply, Reply::PackedChunk { .. });
        if is_packed {
            let message = "a node's message cannot be read: of a later version".to_owned();
            *reply = Reply::Problem(Problem::Row { kind: ErrorKind::General, message });
        }
        false
    };
    *network.0.alter.lock() = Some(unread);
    let _ = network.take_bytes();
    let (found, status) = copied(&network, &options).await;
    assert_eq!((found, status.bytes_wire), (digest, status.bytes_total));
}

#[tokio::test]
async fn faults_on_the_way_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (network, digest) = abroad(dir.path(), 5);
    for (seed, compression) in
        [(1, CopyCompression::Deflate), (2, CopyCompression::Measured), (3, CopyCompression::Off)]
    {
        *network.0.faults.lock() =
            Faults { lost: 0.05, cut: 0.05, damaged: 0.1, late: 0.2, ..Faults::default() };
        let options = CopyOptions { attempts_max: 100, seed, ..packed(compression, 1_000) };
        let (found, status) = copied(&network, &options).await;
        assert_eq!(found, digest, "{compression:?}");
        assert!(status.bytes_recovered == status.bytes_total, "{status:?}");
    }
}

/// Copies from a source that alters every compressed chunk, and says how that ends.
async fn refused(alter: Alter) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (network, _) = abroad(dir.path(), 6);
    *network.0.alter.lock() = Some(alter);
    let options = packed(CopyCompression::Deflate, 1);
    let refused = Target::new().copy(&network, &options).await;
    refused.err().expect("it is refused").to_string()
}

#[tokio::test]
async fn a_source_that_sends_what_was_not_asked_for_is_refused_by_name() {
    let bomb = |reply: &mut Reply| {
        if let Reply::PackedChunk { encoding, bytes, .. } = reply {
            let huge = packing::tests::deflated_zeros();
            (*encoding, *bytes) = (Encoding::Deflate, huge);
        }
        false
    };
    let words = refused(bomb).await;
    assert!(words.contains("does not become") && words.contains("it becomes more"), "{words}");
    let other = |reply: &mut Reply| {
        if let Reply::PackedChunk { encoding, .. } = reply {
            *encoding = Encoding::Zstd;
        }
        false
    };
    let words = refused(other).await;
    assert!(words.contains("not asked for"), "{words}");
    let flipped = |reply: &mut Reply| {
        if let Reply::PackedChunk { bytes, .. } = reply
            && let Some(byte) = bytes.get_mut(20)
        {
            *byte ^= 4;
        }
        false
    };
    let words = refused(flipped).await;
    assert!(words.contains("damaged") || words.contains("does not become"), "{words}");
    // The right length and another content, with a checksum of its own: only the file's tells.
    let forged = |reply: &mut Reply| {
        if let Reply::PackedChunk { encoding, bytes, file_checksum, checksum } = reply
            && *encoding == Encoding::Plain
        {
            bytes.iter_mut().for_each(|byte| *byte ^= 1);
            *checksum = chunk_checksum(bytes, *file_checksum);
        }
        false
    };
    let words = refused(forged).await;
    assert!(words.contains("was wrong"), "{words}");
}
