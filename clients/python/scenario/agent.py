"""The agent of the scenario in tests/scenario, with the client for asyncio: `agent.py ADDRESS`. The README there has the commands."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Optional

import tautwire
from tautwire import MqttError

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0


class Agent:
    def __init__(self, address: str) -> None:
        self.address = address
        self.client: asyncio.Future[tautwire.Client] = asyncio.get_running_loop().create_future()
        self.subscriptions: list[tuple[str, Any]] = []
        # Messages that wait for `acknowledge`, by payload, and their subscriptions.
        self.held: dict[str, tuple[tautwire.Message, Any]] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.timeout_s = 30.0
        self.capacity = 10_000

    def run(self, command: str) -> None:
        """Starts a command. Its output follows later."""
        name, _, rest = command.partition(" ")
        task = asyncio.ensure_future(getattr(self, f"do_{name}")(rest))
        self.tasks.add(task)
        task.add_done_callback(self.ended)

    def ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A bug in this program: the runner shows it.
            print(f"agent: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    async def do_connect(self, rest: str) -> None:
        try:
            client = await tautwire.connect(self.address, **self.options(rest))
        except MqttError as error:
            say("failed connect", told(error))
            return
        await self.follow(client)

    async def do_start(self, rest: str) -> None:
        await self.follow(tautwire.start(self.address, **self.options(rest)))

    def options(self, rest: str) -> Any:
        given: dict[str, Any] = {}
        for option in rest.split():
            name, _, value = option.partition("=")
            if name == "client":
                given["client_id"] = value
            elif name == "version":
                given["version"] = int(value)
            elif name == "expiry":
                given["session_expiry"] = int(value)
            elif name == "resume":
                given["clean_start"] = False
            elif name == "user":
                given["user_name"] = value
            elif name == "password":
                given["password"] = value
            elif name == "attempts_ms":
                longest_s = int(value) / 1000
                given["reconnect"] = (min(FIRST_PAUSE_S, longest_s), longest_s)
            elif name == "connect_ms":
                given["connect_timeout"] = int(value) / 1000
            elif name == "queue":
                self.capacity = int(value)
            elif name == "timeout_ms":
                self.timeout_s = int(value) / 1000
            else:
                raise ValueError(f"no option {name}")
        return given

    async def follow(self, client: tautwire.Client) -> None:
        """Prints the events of the connection."""
        if self.client.done():
            self.client = asyncio.get_running_loop().create_future()
        self.client.set_result(client)
        async for event in client.events():
            if event.kind == "held_up":
                say("held_up", *event.filters)
            elif event.kind == "connected":
                say("connected", str(int(event.session_present)))
            elif event.error is not None:
                word = {"attempt_failed": "attempt"}.get(event.kind, event.kind)
                say(word, told(event.error))

    async def do_subscribe(self, rest: str) -> None:
        await self.receive(rest, holds=False)

    async def do_hold(self, rest: str) -> None:
        await self.receive(rest, holds=True)

    async def do_stall(self, rest: str) -> None:
        if (subscription := await self.granted(rest)) is not None:
            self.subscriptions.append((subscription.filters[0], subscription))

    async def do_stumble(self, rest: str) -> None:
        if (subscription := await self.granted(rest)) is not None:
            self.tasks.add(asyncio.ensure_future(self.stumble(subscription)))

    async def stumble(self, subscription: Any) -> None:
        try:
            async for message in subscription:
                say("message", message.topic, str(message.qos), str(int(message.retain)), message.text)
                raise RuntimeError(message.text)
        except RuntimeError as error:
            text = str(error)
        # The exception held the loop.
        say("stumbled", text)

    async def granted(self, rest: str) -> Any:
        qos, filter_ = rest.split(" ", 1)
        subscription = (await self.client).subscribe(filter_, qos=int(qos), capacity=self.capacity)
        try:
            await subscription
        except MqttError as error:
            say("failed subscribe", told(error))
            return None
        say("subscribed", filter_, str(subscription.granted[filter_]))
        return subscription

    async def receive(self, rest: str, holds: bool) -> None:
        qos, filter_ = rest.split(" ", 1)
        subscription = (await self.client).subscribe(filter_, qos=int(qos), manual_acknowledgement=holds)
        try:
            await subscription
        except MqttError as error:
            say("failed subscribe", told(error))
            return
        self.subscriptions.append((filter_, subscription))
        say("subscribed", filter_, str(subscription.granted[filter_]))
        try:
            async for message in subscription:
                if holds:
                    self.held[message.text] = (message, subscription)
                say("message", message.topic, str(message.qos), str(int(message.retain)), message.text)
        except MqttError as error:
            if error.code != "subscribe_refused":
                raise
            say("lost", filter_, told(error))

    async def do_acknowledge(self, payload: str) -> None:
        message, subscription = self.held[payload]
        subscription.acknowledge(message)
        say("acknowledged", payload)

    async def do_unsubscribe(self, filter_: str) -> None:
        at = max(at for at, (known, _) in enumerate(self.subscriptions) if known == filter_)
        _, subscription = self.subscriptions.pop(at)
        try:
            await subscription.unsubscribe()
        except MqttError as error:
            say("failed unsubscribe", told(error))
        else:
            say("unsubscribed", filter_)

    async def do_publish(self, rest: str) -> None:
        qos, topic, payload = rest.split(" ", 2)
        try:
            reason = await (await self.client).publish(topic, payload, qos=int(qos))
        except MqttError as error:
            say("failed publish", told(error), payload)
        else:
            say("published", payload, f"0x{reason:02x}")

    async def do_respond(self, rest: str) -> None:
        filter_, behaviour, *text = rest.split(" ", 2)

        def answer(request: tautwire.Message) -> bytes:
            if behaviour == "failure":
                raise tautwire.ResponseFailure(text[0])
            if behaviour == "crash":
                raise RuntimeError(text[0])
            return request.payload

        try:
            responder = await (await self.client).respond(filter_, answer)
        except MqttError as error:
            say("failed subscribe", told(error))
            return
        say("subscribed", filter_, str(responder.granted[filter_]))

    async def do_request(self, rest: str) -> None:
        qos, topic, payload = rest.split(" ", 2)
        try:
            response = await (await self.client).request(topic, payload, qos=int(qos), timeout=self.timeout_s)
        except MqttError as error:
            sentence = error.detail if error.code == "request_failed" else None
            say("failed request", told(error), sentence)
        else:
            say("response", response.text)

    async def do_close(self, _rest: str) -> None:
        await (await self.client).close()
        say("closed")


def told(error: MqttError) -> str:
    return error.code if error.reason is None else f"{error.code} 0x{error.reason:02x}"


def say(*words: Optional[str]) -> None:
    print(" ".join(word for word in words if word is not None), flush=True)


async def main(address: str) -> None:
    loop = asyncio.get_running_loop()
    # An unexpected exception of a responder is reported only to the requester.
    loop.set_exception_handler(lambda _loop, _context: None)
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    agent = Agent(address)
    while line := (await commands.readline()).decode().rstrip("\n"):
        agent.run(line)
        # It starts before the next command is read.
        await asyncio.sleep(0)
    if agent.client.done():
        await agent.client.result().close()
    for task in agent.tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
