//! The start of a subscription.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tautwire_protocol::SubscribeReason;

use super::completion::Completion;
use super::handle::Handle;
use super::routes::{Granted, Target};
use super::stream::Stream;
use super::subscription::Subscription;
use crate::{Error, Subscribe};

impl Handle {
    pub(crate) fn subscribe(&self, subscribe: &Subscribe) -> Result<Subscribing, Error> {
        subscribe.check()?;
        let completion = Completion::new();
        let stream = Arc::new(Stream::new(subscribe.capacity, subscribe.overflow));
        let target = Target::Stream(stream.clone());
        let (route, asked) = self.shared.with(|state| state.ask(subscribe, target, completion.clone()))?;
        let filters = subscribe.filters.clone();
        let mut subscription = Subscription::new(self.clone(), stream, route, filters, subscribe.manual);
        asked?;
        // If dropped before the answer, it must still send UNSUBSCRIBE.
        subscription.set_granted((vec![SubscribeReason::GrantedQoS0], None));
        Ok(Subscribing { completion, subscription: Some(subscription) })
    }

    /// A stream without a SUBSCRIBE, for existing subscriptions of the session.
    pub(crate) fn listen(&self, subscribe: &Subscribe) -> Result<Subscription, Error> {
        subscribe.check()?;
        let stream = Arc::new(Stream::new(subscribe.capacity, subscribe.overflow));
        let route = self.shared.with(|state| match state.closed() {
            Some(why) => Err(why),
            None => {
                let target = Target::Stream(stream.clone());
                Ok(state.routes.listen(subscribe, target))
            }
        })?;
        Ok(Subscription::new(self.clone(), stream, route, subscribe.filters.clone(), subscribe.manual))
    }
}

/// A subscription whose SUBACK is pending. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscribing {
    completion: Arc<Completion<Result<Granted, Error>>>,
    subscription: Option<Subscription>,
}

impl Future for Subscribing {
    type Output = Result<Subscription, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let granted = match self.completion.poll(cx) {
            Poll::Ready(granted) => granted,
            Poll::Pending => return Poll::Pending,
        };
        let Some(mut subscription) = self.subscription.take() else { return Poll::Pending };
        Poll::Ready(match granted {
            Ok(granted) => {
                subscription.set_granted(granted);
                match subscription.refusal() {
                    None => Ok(subscription),
                    Some(error) => {
                        // Its filters belong together, so all end, even in a persistent session.
                        let _ = subscription.close();
                        Err(error)
                    }
                }
            }
            Err(error) => {
                subscription.set_granted((Vec::new(), None));
                Err(error)
            }
        })
    }
}
