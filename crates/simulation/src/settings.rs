//! Settings of a cluster that a run begins with.

use serde_json::{Value, json};

use crate::clients::Client;
use crate::plan::Plan;

/// Has a cluster take the settings of a plan.
pub(crate) async fn set(client: Client, plan: Plan) {
    let mut settings = json!({});
    if let Some(seconds) = plan.flush_interval_s {
        settings["log.flush_interval"] = json!(format!("{seconds}s"));
    }
    if plan.follower.is_some() {
        settings["ccr.retention.max_bytes"] = json!("1mb");
    }
    if settings != json!({}) {
        store(client, settings).await;
    }
}

async fn store(client: Client, settings: Value) {
    for address in client.addresses.iter().cycle() {
        if let Some((coordinator, tasks)) = client.network.coordinator(address) {
            let settings = settings.clone();
            let set = tasks.spawn("settings", async move {
                coordinator.store("settings", "persistent", Some(settings)).await
            });
            if client.within_patience(set).await.is_some_and(|it| it.is_ok()) {
                return;
            }
        }
        client.pause().await;
    }
}
