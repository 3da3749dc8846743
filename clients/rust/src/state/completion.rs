//! A result that the driver passes to a waiting caller.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::Error;
use crate::machine::Published;
use crate::sync::lock;

#[derive(Debug)]
pub(crate) struct Completion<R>(Mutex<Inner<R>>);

#[derive(Debug)]
enum Inner<R> {
    Waiting(Option<Waker>),
    Done(R),
    Taken,
}

impl<R> Completion<R> {
    pub(crate) fn new() -> Arc<Completion<R>> {
        Arc::new(Completion(Mutex::new(Inner::Waiting(None))))
    }

    /// Sets the result; returns the waker to call.
    pub(crate) fn complete(&self, result: R) -> Option<Waker> {
        match std::mem::replace(&mut *lock(&self.0), Inner::Done(result)) {
            Inner::Waiting(waker) => waker,
            Inner::Done(_) | Inner::Taken => None,
        }
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<R> {
        let mut inner = lock(&self.0);
        match std::mem::replace(&mut *inner, Inner::Taken) {
            Inner::Done(result) => Poll::Ready(result),
            Inner::Waiting(_) => {
                *inner = Inner::Waiting(Some(cx.waker().clone()));
                Poll::Pending
            }
            // Polled again after the result was taken: there is nothing more.
            Inner::Taken => Poll::Pending,
        }
    }
}

/// The handle of a published message. It resolves when the server has completely acknowledged the message, across lost
/// connections. Dropping it does not cancel the message.
///
/// At QoS 0 it resolves when the message has been written to the connection, because there is no acknowledgement.
#[derive(Debug)]
pub struct Publishing(pub(super) PublishState);

#[derive(Debug)]
pub(super) enum PublishState {
    Sent,
    Tracked(Arc<Completion<Result<Published, Error>>>),
}

impl Future for Publishing {
    type Output = Result<Published, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &self.0 {
            PublishState::Sent => Poll::Ready(Ok(Published { reason: tautwire_protocol::ReasonCode::Success })),
            PublishState::Tracked(completion) => completion.poll(cx),
        }
    }
}
