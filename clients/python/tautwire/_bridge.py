"""Delivers the results of the native client to an event loop, which is woken once for all of them."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any, Optional

from ._native import Client, Inbox, Message, Operation
from .errors import MqttError

WATCH_S = 0.25
"""The interval at which a watching thread checks whether the program is about to end."""


class Bridge:
    """Connects one client with one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.inbox = Inbox()
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._keys = itertools.count(1)
        self._fileno: Optional[int] = None
        self._drained = threading.Event()
        self._holding: Optional[Client] = None
        self.is_stopped = False
        self._listen()

    def key(self) -> int:
        """Returns a new key for something that can be awaited."""
        return next(self._keys)

    async def run(self, operation: Operation) -> Any:
        """Waits for an operation, and returns its result or raises its error. Cancelling drops it."""
        key = next(self._keys)
        done = operation.start(self.inbox, key)
        if done is not None:
            value, error = done
            if error is not None:
                raise error
            return value
        if self.is_stopped:
            # The result would never be delivered.
            self.inbox.forget(key)
            raise MqttError("closed")
        future = self.loop.create_future()
        self._futures[key] = future
        try:
            return await future
        finally:
            if self._futures.pop(key, None) is not None:
                self.inbox.forget(key)

    def future(self, operation: Operation) -> asyncio.Future[Any]:
        """Like `run`, but returns a future."""
        key = next(self._keys)
        future = self.loop.create_future()
        done = operation.start(self.inbox, key)
        if done is not None:
            _settle(future, *done)
        elif self.is_stopped:
            self.inbox.forget(key)
            _settle(future, None, MqttError("closed"))
        else:
            self._futures[key] = future
        return future

    async def called(self, key: int) -> None:
        """Waits until the inbox has received this key."""
        if self.is_stopped:
            return
        future = self.loop.create_future()
        self._futures[key] = future
        try:
            await future
        except MqttError:
            # The bridge was stopped, which the callers check.
            pass
        finally:
            self._futures.pop(key, None)

    def acknowledge(self, core: Client, message: Message) -> None:
        """Acknowledges together with what the rest of this turn of the loop sends, so that the connection's thread wakes once. One at a
        time waits so: a program that holds up the loop holds up one acknowledgement."""
        if self._holding is not None:
            core.acknowledge(message)
            return
        core.acknowledge_with_next(message)
        self._holding = core
        self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Sends the held acknowledgement."""
        core, self._holding = self._holding, None
        if core is not None:
            core.flush()

    def wake(self, key: int) -> None:
        """Wakes the task that waits for this key."""
        future = self._futures.pop(key, None)
        if future is not None:
            _settle(future, None, None)

    def abandon(self) -> None:
        """Like `stop`, but from any thread."""
        try:
            self.loop.call_soon_threadsafe(self.stop)
        except RuntimeError:
            # The loop is closed.
            pass

    def stop(self) -> None:
        """Stops the bridge: pending futures fail with `closed`."""
        if self.is_stopped:
            return
        self.is_stopped = True
        if self._fileno is not None and not self.loop.is_closed():
            self.loop.remove_reader(self._fileno)
        self._drain_watched()
        futures, self._futures = self._futures, {}
        for future in futures.values():
            _settle(future, None, MqttError("closed"))

    def _listen(self) -> None:
        fileno = self.inbox.fileno()
        if fileno is not None:
            try:
                self.loop.add_reader(fileno, self._drain)
            except NotImplementedError:
                pass
            else:
                self._fileno = fileno
                return
        # Some loops, such as that of Windows, do not support `add_reader`.
        threading.Thread(target=self._watch, name="tautwire-inbox").start()

    def _watch(self) -> None:
        program = threading.main_thread()
        while program.is_alive() and not self.is_stopped and not self.loop.is_closed():
            if self.inbox.wait(WATCH_S):
                self._drained.clear()
                try:
                    self.loop.call_soon_threadsafe(self._drain_watched)
                except RuntimeError:
                    return
                self._drained.wait(WATCH_S)

    def _drain_watched(self) -> None:
        self._drain()
        self._drained.set()

    def _drain(self) -> None:
        futures = self._futures
        for key, (value, error) in self.inbox.drain():
            future = futures.pop(key, None)
            if future is not None:
                _settle(future, value, error)


def retrieve_exception(done: asyncio.Future[Any]) -> None:
    """Marks the exception of a future as retrieved, so that asyncio does not report it if nothing awaits the future."""
    if not done.cancelled():
        done.exception()


def _settle(future: asyncio.Future[Any], value: Any, error: Optional[BaseException]) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
