"""Subscriptions to contracts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, Generic, Optional, TypeVar

import tautwire

from .received import Received, received

V = TypeVar("V")
P = TypeVar("P")


class ContractSubscription(Generic[V, P]):
    """The messages of a contract, in order of arrival. For `async with`, `await`, or a loop, like `tautwire.Subscription`."""

    def __init__(self, subscription: tautwire.Subscription[tautwire.TypedMessage[V]], parameters: Callable[..., P]) -> None:
        self.subscription = subscription
        """The client's subscription."""
        self._parameters = parameters

    def __await__(self) -> Generator[Any, None, ContractSubscription[V, P]]:
        return self._begun().__await__()

    async def __aenter__(self) -> ContractSubscription[V, P]:
        return await self._begun()

    async def __aexit__(self, *_raised: object) -> None:
        await self.subscription.unsubscribe()

    def __aiter__(self) -> AsyncIterator[Received[V, P]]:
        return _Loop(self.subscription, self._parameters)

    async def next(self, timeout: Optional[float] = None) -> Received[V, P]:
        """The next message, like `tautwire.Subscription.next`."""
        return received(await self.subscription.next(timeout), self._parameters)

    async def unsubscribe(self) -> None:
        """Ends the subscription, like `tautwire.Subscription.unsubscribe`."""
        await self.subscription.unsubscribe()

    async def _begun(self) -> ContractSubscription[V, P]:
        await self.subscription
        return self


class _Loop(Generic[V, P]):
    """One loop. Leaving it ends the inner loop over the subscription."""

    def __init__(self, subscription: tautwire.Subscription[tautwire.TypedMessage[V]], parameters: Callable[..., P]) -> None:
        self._messages = subscription.__aiter__()
        self._parameters = parameters

    def __aiter__(self) -> _Loop[V, P]:
        return self

    async def __anext__(self) -> Received[V, P]:
        return received(await self._messages.__anext__(), self._parameters)
