//! Whether the log went on without this node while it stood still (a frozen process, a machine
//! that slept): what it has not read was trimmed. The node must be opened anew then, which copies
//! what it lacks from others; that is for the process to do.

use std::sync::Arc;

use tokio::sync::watch;

/// Told once by an applier, waited for by whoever runs the node.
#[derive(Clone)]
pub(crate) struct FellBehind {
    why: Arc<watch::Sender<Option<String>>>,
}

impl Default for FellBehind {
    fn default() -> Self {
        Self { why: Arc::new(watch::Sender::new(None)) }
    }
}

impl FellBehind {
    /// The log no longer holds what the node has to read next.
    pub(crate) fn tell(&self, why: &str) {
        tracing::error!(why, "the log went on without this node, which must be opened anew");
        self.why.send_replace(Some(why.to_owned()));
    }

    /// What it lacks, if that is so.
    pub(crate) fn why(&self) -> Option<String> {
        self.why.borrow().clone()
    }

    /// Waits until that is so, for as long as the node runs, and says why.
    pub(crate) async fn told(&self) -> String {
        let mut told = self.why.subscribe();
        match told.wait_for(Option::is_some).await.map(|why| why.clone()) {
            Ok(Some(why)) => why,
            // The sender is here: it cannot be gone.
            _ => std::future::pending().await,
        }
    }
}
