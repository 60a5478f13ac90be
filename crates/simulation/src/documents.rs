//! What clients of documents ask a node for: an index made, a document put, deleted and read. What has to come of
//! it is judged by those who ask (`searches.rs`, `tables.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_cluster::{
    Condition, Coordinator, Error, IndexBody, IndexMetadata, WriteKind, WriteRequest, WriteResult,
};
use serde_json::{Map, Value, json};

use crate::clients::Client;

/// How long an answer is waited for: longer than a node takes to say that it has none.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long a client rests after what failed, or what does not fit yet.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);

/// Does something on a node, as its front end would; none where it does not answer.
pub(crate) async fn at<T, F>(
    client: &Client,
    address: &str,
    work: impl FnOnce(Arc<Coordinator>) -> F + Send + 'static,
) -> Option<Result<T, Error>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send,
{
    let Some((coordinator, tasks)) = client.network.coordinator(address) else {
        return Some(Err(Error::overloaded("nobody", "nobody listens there")));
    };
    client.time.sleep(client.network.way()).await;
    let answered = tasks.spawn("request", async move {
        if !coordinator.become_current().await {
            return Err(Error::unavailable(
                "not_current",
                "which indices there are is not known here",
            ));
        }
        work(coordinator).await
    });
    let answered = client.time.timeout(PATIENCE, answered).await;
    client.time.sleep(client.network.way()).await;
    answered.ok()?.ok()
}

/// Makes an index whose documents have one number.
pub(crate) async fn make(
    coordinator: &Coordinator,
    name: &str,
    settings: impl IntoIterator<Item = (&str, Value)>,
) -> Result<Arc<IndexMetadata>, Error> {
    let settings: Map<String, Value> =
        settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mappings = json!({ "properties": { "value": { "type": "long" } } });
    let body = IndexBody { settings, mappings, aliases: BTreeMap::new() };
    coordinator.documents().create_index(name, body).await
}

/// The number that a document has; none where it is not there.
pub(crate) async fn read(
    coordinator: &Coordinator,
    index: &Arc<IndexMetadata>,
    id: &str,
) -> Result<Option<u64>, Error> {
    let found = coordinator.documents().get_document(index, id, None, true).await?;
    let source = found.and_then(|it| serde_json::from_slice::<Value>(&it.source).ok());
    Ok(source.and_then(|it| it["value"].as_u64()))
}

/// Gives a document a number, or deletes it where none is given.
pub(crate) async fn write(
    coordinator: &Coordinator,
    index: &Arc<IndexMetadata>,
    id: &str,
    value: Option<u64>,
) -> Result<WriteResult, Error> {
    let (action, source) = match value {
        Some(value) => (WriteKind::Index, Bytes::from(json!({ "value": value }).to_string())),
        None => (WriteKind::Delete, Bytes::new()),
    };
    let (id, condition) = (id.to_owned(), Condition::default());
    let write = WriteRequest { id, routing: None, action, source, condition };
    let mut written = coordinator.documents().write_documents(index, vec![write]).await;
    let none = || Err(Error::internal("there is no outcome"));
    written.pop().unwrap_or_else(none).map(|written| written.result)
}
