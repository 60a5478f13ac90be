//! Connections of followers as they come in: so many at once, so many of them strangers, and each
//! with its handshake beside the others. One that is no TLS, or shows the wrong certificate, is told
//! so and ends here.

use std::io;
use std::sync::Arc;

use futures_util::future::OptionFuture;
use futures_util::stream::{Stream, unfold};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::connection::{Connection, KEY_TIME, KeyPlaces, MOVED, Standing};
use crate::accept::{Acceptor, Refusals};
use crate::places::{Places, SHARES_OF_CLUSTERS, within_files};
use crate::tls::door::shake_hands;
use crate::tls::watched::Watched;

/// Connections at once, where the process may have files enough open; one more is closed.
const CONNECTIONS_MAX: usize = 256;
/// The part of them that have shown no key yet, one in so many; one address has a part of these.
const STRANGERS_PART: usize = 4;
/// What these are, in messages.
const WHOSE: &str = "other clusters";
/// How many connections wait to be served; none should.
const WAITING_MAX: usize = 16;

/// The connections of a port, ready to be served. They are taken in for as long as somebody takes
/// them from here.
pub(super) fn incoming(
    listener: TcpListener,
    tls: Arc<Watched<ServerConfig>>,
) -> impl Stream<Item = io::Result<Connection>> {
    let (ready, taken) = mpsc::channel(WAITING_MAX);
    let time = tls.time().clone();
    let most = within_files(CONNECTIONS_MAX, SHARES_OF_CLUSTERS);
    let door = Arc::new(Door {
        tls,
        places: Arc::new(KeyPlaces {
            room: Arc::new(Semaphore::new(most)),
            shares: Arc::default(),
        }),
        strangers: Places::new((most / STRANGERS_PART).max(1)),
        refusals: Arc::new(Refusals::new(WHOSE, &time)),
    });
    tokio::spawn(async move {
        let acceptor = Acceptor::new(listener, WHOSE, &time);
        tokio::select! {
            () = door.accept(&acceptor, &ready) => {}
            () = ready.closed() => {}
        }
    });
    unfold(taken, |mut taken| async move {
        let connection = taken.recv().await?;
        Some((Ok(connection), taken))
    })
}

/// What all connections have to pass.
struct Door {
    tls: Arc<Watched<ServerConfig>>,
    places: Arc<KeyPlaces>,
    strangers: Arc<Places>,
    refusals: Arc<Refusals>,
}

impl Door {
    async fn accept(self: &Arc<Self>, acceptor: &Acceptor, ready: &mpsc::Sender<Connection>) {
        loop {
            let (stream, remote) = acceptor.next().await;
            let Ok(room) = Arc::clone(&self.places.room).try_acquire_owned() else {
                acceptor.refuse(remote, &"as many connections are open as there may be");
                continue;
            };
            let stranger = match self.strangers.take(remote.ip()) {
                Ok(place) => place,
                Err(why) => {
                    acceptor.refuse(remote, &why);
                    continue;
                }
            };
            let standing = Standing::new(
                remote,
                stranger,
                Arc::clone(&self.places),
                Arc::clone(&self.refusals),
            );
            let (door, ready) = (Arc::clone(self), ready.clone());
            tokio::spawn(async move {
                let shaken = timeout(KEY_TIME, shake_hands(door.tls.get(), stream));
                let shaken = tokio::select! {
                    shaken = shaken => shaken,
                    Some(()) = OptionFuture::from(standing.moved()) => return standing.say_refused(MOVED),
                };
                match shaken {
                    Ok(Ok(stream)) => {
                        // Nobody takes it where the node stops.
                        let _ = ready.send(Connection::new(stream, standing, room)).await;
                    }
                    Ok(Err(why)) => standing.say_refused(&why.to_string()),
                    Err(_) => standing.say_refused("the handshake of TLS took too long"),
                }
            });
        }
    }
}
