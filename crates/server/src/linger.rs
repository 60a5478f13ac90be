//! The end of a connection: what was written last arrives before it, whatever the peer still sends.

use std::{io, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How long a peer has to notice the end and stop sending.
pub const LINGER: Duration = Duration::from_secs(2);

/// Closes the sending half, and reads away what still comes. A system that closes a socket with
/// bytes that nobody has read resets the connection, which takes answers back that are on their way.
pub async fn linger(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    // Not within the future: every connection would hold it for as long as it is there.
    let mut unread = vec![0; 4096];
    let ending = async {
        stream.shutdown().await?;
        while stream.read(&mut unread).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    let _ = tokio::time::timeout(LINGER, ending).await;
}
