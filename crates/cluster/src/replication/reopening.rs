//! Whether this node has to be closed and opened anew, and why: the log went on without it while it stood still (a
//! frozen process, a machine that slept), so that it has to copy what it lacks from others; the cluster's version now
//! decides what it stopped at; or a store writes no files any more until it is opened. That is for the process to do.

use std::sync::Arc;

use tokio::sync::watch;

/// Told by whoever finds it out, waited for by whoever runs the node.
#[derive(Clone)]
pub(crate) struct Reopening {
    why: Arc<watch::Sender<Option<String>>>,
}

impl Default for Reopening {
    fn default() -> Self {
        Self { why: Arc::new(watch::Sender::new(None)) }
    }
}

impl Reopening {
    /// It has to be, for this reason.
    pub(crate) fn tell(&self, why: &str) {
        tracing::error!(why, "this node must be opened anew");
        self.why.send_replace(Some(why.to_owned()));
    }

    /// Why it has to be, if that is so.
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
