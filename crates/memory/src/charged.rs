//! A future that works for an account whenever it is polled, and ends early when the account is
//! told to stop: its state is dropped then, for the account too, and with it the guards by which
//! work elsewhere learns that nobody waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use crate::account::{Account, Standing, Stop};

static ASIDE: OnceLock<fn(&mut dyn FnMut())> = OnceLock::new();

/// How a future is dropped that did not end, which may take long: the runtime is not known here.
pub fn drop_with(aside: fn(&mut dyn FnMut())) {
    let _ = ASIDE.set(aside);
}

/// A future of an account's.
#[derive(Debug)]
pub struct Charged<F> {
    account: Account,
    /// None once it has ended.
    future: Option<Pin<Box<F>>>,
}

/// On a thread that works for the future's account.
fn drop_future<F>(future: &mut Option<Pin<Box<F>>>) {
    match ASIDE.get() {
        Some(aside) if future.is_some() => aside(&mut || *future = None),
        _ => *future = None,
    }
}

impl<F: Future> Charged<F> {
    /// Has `make` and what it makes work for an account.
    pub fn new(account: Account, make: impl FnOnce() -> F) -> Self {
        let future = {
            let _working = account.enter();
            Some(Box::pin(make()))
        };
        Self { account, future }
    }
}

impl<F: Future> Future for Charged<F> {
    /// Of the future, or why the account was told to stop before.
    type Output = Result<F::Output, Stop>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let _working = this.account.enter();
        let _clock = this.account.clock();
        if this.account.standing() == Standing::Read {
            this.account.wake(context.waker());
            if let Some(stop) = this.account.stop_reason() {
                drop_future(&mut this.future);
                return Poll::Ready(Err(stop));
            }
        }
        let Some(future) = &mut this.future else { return Poll::Pending };
        let polled = future.as_mut().poll(context);
        if polled.is_ready() {
            this.future = None;
        }
        polled.map(Ok)
    }
}

impl<F> Drop for Charged<F> {
    fn drop(&mut self) {
        let _working = self.account.enter();
        drop_future(&mut self.future);
    }
}
