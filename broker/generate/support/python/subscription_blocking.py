"""Subscriptions to contracts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Optional, TypeVar

import tautwire
from tautwire import blocking

from .received import Received, received

V = TypeVar("V")
P = TypeVar("P")


class ContractSubscription(Generic[V, P]):
    """The messages of a contract, in order of arrival. For `with`, or a loop, like `blocking.Subscription`."""

    def __init__(self, subscription: blocking.Subscription[tautwire.TypedMessage[V]], parameters: Callable[..., P]) -> None:
        self.subscription = subscription
        """The client's subscription."""
        self._parameters = parameters

    def __enter__(self) -> ContractSubscription[V, P]:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.subscription.unsubscribe()

    def __iter__(self) -> Iterator[Received[V, P]]:
        return _Loop(self.subscription, self._parameters)

    def next(self, timeout: Optional[float] = None) -> Received[V, P]:
        """The next message, like `blocking.Subscription.next`."""
        return received(self.subscription.next(timeout), self._parameters)

    def unsubscribe(self) -> None:
        """Ends the subscription, like `blocking.Subscription.unsubscribe`."""
        self.subscription.unsubscribe()


class _Loop(Generic[V, P]):
    """One loop. Leaving it ends the inner loop over the subscription."""

    def __init__(self, subscription: blocking.Subscription[tautwire.TypedMessage[V]], parameters: Callable[..., P]) -> None:
        self._messages = subscription.__iter__()
        self._parameters = parameters

    def __iter__(self) -> _Loop[V, P]:
        return self

    def __next__(self) -> Received[V, P]:
        return received(self._messages.__next__(), self._parameters)
