//! Connecting to the servers: who one is, TLS, and the limits that are checked at the start.

use std::time::{Duration, Instant};

use async_nats::{AuthError, Client, ConnectOptions, Event};

use super::address::Address;
use crate::{LogError, RECORD_BYTES_MAX};

/// How long one try may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How often the server is asked whether it is there: after three times without an answer
/// another one is tried. A server that is stopped keeps its connections.
const PING_INTERVAL: Duration = Duration::from_millis(700);
/// Waits between tries: the first, and the longest.
const RECONNECT_MIN: Duration = Duration::from_millis(20);
const RECONNECT_MAX: Duration = Duration::from_secs(2);
/// Messages that may wait for one of the engine's tasks; more than there are appends in flight.
const SUBSCRIPTION_CAPACITY: usize = 1 << 17;
/// Commands that may wait for the connection.
const CLIENT_CAPACITY: usize = 1 << 12;

/// Connects, and checks what the server takes.
///
/// # Errors
/// Where no server answers until `deadline`, one refuses the client, or takes too small messages.
pub(super) async fn connect(address: &Address, deadline: Instant) -> Result<Client, LogError> {
    let mut is_said = false;
    loop {
        // Files are read as they are now; those that do not do are named at once.
        address.login.show(b"").map_err(|error| LogError::Failed(error.to_string()))?;
        match options(address).connect(urls(address)).await {
            Ok(client) => return check(client),
            Err(error) => {
                use async_nats::ConnectErrorKind::{Authentication, AuthorizationViolation};
                let is_final = matches!(error.kind(), Authentication | AuthorizationViolation);
                let hint = hint(&error.to_string());
                if is_final || Instant::now() >= deadline {
                    let why = format!("cannot connect to {address}: {error}{hint}");
                    return Err(LogError::Failed(why));
                }
                // Most start at the same time as their servers: said once, so that who waits knows what for.
                if !std::mem::replace(&mut is_said, true) {
                    tracing::warn!(%address, "no log server answers yet: {error}{hint}");
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What to look at where TLS comes to nothing.
fn hint(error: &str) -> &'static str {
    if error.contains("CertificateRequired") {
        " (the servers ask for a certificate: log.tls.certificate and log.tls.key)"
    } else if error.contains("KeyMismatch") {
        " (log.tls.key does not belong to log.tls.certificate)"
    } else if error.contains("invalid peer certificate") {
        " (who may have signed theirs says log.tls.certificate_authorities)"
    } else {
        ""
    }
}

fn urls(address: &Address) -> Vec<String> {
    let scheme = if address.is_tls { "tls" } else { "nats" };
    address.servers.iter().map(|server| format!("{scheme}://{server}")).collect()
}

fn options(address: &Address) -> ConnectOptions {
    let mut options = match address.login.is_anybody() {
        true => {
            let login = address.login.clone();
            ConnectOptions::with_auth_callback(move |nonce| {
                let shown = login.show(&nonce);
                async move { shown.map_err(AuthError::new) }
            })
        }
        false => ConnectOptions::new(),
    };
    options = options
        .name("plimsoll")
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        .client_capacity(CLIENT_CAPACITY)
        .max_reconnects(None)
        .reconnect_delay_callback(|tries| {
            let doubled = RECONNECT_MIN * 2_u32.saturating_pow(u32::try_from(tries).unwrap_or(16));
            if tries <= 1 { Duration::ZERO } else { doubled.min(RECONNECT_MAX) }
        })
        .event_callback(|event| async move {
            match event {
                Event::Connected => tracing::info!("connected to a log server"),
                Event::Disconnected => tracing::warn!("the connection to the log server is lost"),
                event => tracing::debug!(%event, "log server"),
            }
        });
    if let Some(file) = &address.ca_file {
        options = options.add_root_certificates(file.clone());
    }
    if let Some((certificate, key)) = &address.certificate_files {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    options.require_tls(address.is_tls)
}

fn check(client: Client) -> Result<Client, LogError> {
    let info = client.server_info();
    if info.max_payload < RECORD_BYTES_MAX {
        return Err(LogError::Failed(format!(
            "nats-server `{}` takes messages of at most {} bytes, a record has up to \
             {RECORD_BYTES_MAX}: set `max_payload: 8MB` in the configuration of every server",
            info.server_name, info.max_payload
        )));
    }
    if !info.jetstream {
        return Err(LogError::Failed(format!(
            "nats-server `{}` has JetStream switched off: set `jetstream {{ … }}` in the \
             configuration of every server",
            info.server_name
        )));
    }
    Ok(client)
}
