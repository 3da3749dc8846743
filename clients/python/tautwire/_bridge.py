"""What has happened in the native client, brought to an event loop: the loop is woken once, however much it is."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any, Optional

from ._native import Client, Inbox, Message, Operation
from .errors import MqttError

WATCH_S = 0.25
"""Where a thread has to watch, so often it looks whether the program is about to end."""


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
        """A new name for something that can be waited for."""
        return next(self._keys)

    async def run(self, operation: Operation) -> Any:
        """Waits for an operation, and gives or raises what it came to. Cancelled, it is forgotten."""
        key = next(self._keys)
        done = operation.start(self.inbox, key)
        if done is not None:
            value, error = done
            if error is not None:
                raise error
            return value
        if self.is_stopped:
            # Nobody would be told.
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
        """As `run`, without waiting."""
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
        """Waits until the inbox has had this key."""
        if self.is_stopped:
            return
        future = self.loop.create_future()
        self._futures[key] = future
        try:
            await future
        except MqttError:
            # The bridge has been stopped, which its callers see.
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
        """Sends what has been held."""
        core, self._holding = self._holding, None
        if core is not None:
            core.flush()

    def wake(self, key: int) -> None:
        """Wakes who waits for this key."""
        future = self._futures.pop(key, None)
        if future is not None:
            _settle(future, None, None)

    def abandon(self) -> None:
        """As `stop`, from any thread."""
        try:
            self.loop.call_soon_threadsafe(self.stop)
        except RuntimeError:
            # The loop is closed, and listens to nothing.
            pass

    def stop(self) -> None:
        """Nothing more will come."""
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
        # Loops that cannot listen to it, such as that of Windows.
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


def noticed(done: asyncio.Future[Any]) -> None:
    """For what several may wait for, or nobody any more: asyncio does not report that nobody has asked for its error."""
    if not done.cancelled():
        done.exception()


def _settle(future: asyncio.Future[Any], value: Any, error: Optional[BaseException]) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
