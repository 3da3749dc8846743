"""Uses of the package for type checkers. mypy and pyright check it; it is never run."""

from __future__ import annotations

import asyncio
from typing import Any, Optional

from typing_extensions import assert_type

import tautwire
from tautwire import blocking


class Ticket:
    method = "GS2-KRB5"

    def begin(self) -> bytes:
        return b""

    def respond(self, data: Optional[bytes]) -> Optional[bytes]:
        return data

    def finish(self, data: Optional[bytes]) -> None:
        pass


async def newest() -> tautwire.Credentials:
    return tautwire.Credentials(password="token")


async def uses() -> None:
    reading: tautwire.Topic[float] = tautwire.Topic("a/{id}", tautwire.json(float))
    async with tautwire.connect("mqtt://h", keep_alive=5, will=tautwire.Will("a")) as client:
        assert_type(client, tautwire.Client)
        assert_type(await client.publish("a", "b", qos=1), int)
        assert_type(await client.publish(reading.at(id=1), 21.5), int)
        assert_type(await client.enqueue("a"), asyncio.Future[int])
        async for message in client.subscribe("a"):
            assert_type(message, tautwire.Message)
            assert_type(message.payload, bytes)
        async for typed in client.subscribe(reading):
            assert_type(typed.value, float)
            assert_type(typed.params, dict[str, str])
        assert_type(await client.request("a"), tautwire.Message)
        await client.publish(reading.at(id=1), "no number")  # type: ignore[misc]
        await client.enqueue(reading.at(id=1), "no number")  # type: ignore[misc]
        await client.request(reading.at(id=1), "no number")  # type: ignore[misc]
        await client.respond(reading, lambda request: request.value)
    tautwire.connect("mqtt://h", credentials=lambda: tautwire.Credentials("a"), store=tautwire.FileStore("a"))
    tautwire.connect("mqtt://h", authenticator=Ticket())
    tautwire.connect("mqtt://h", credentials=newest, websocket_headers={"a": "b"})
    tautwire.connect("mqtt://h", credentials=lambda: "a")  # type: ignore[arg-type, return-value]
    tautwire.connect("mqtt://h", username="x")  # type: ignore[call-arg]
    assert_type(await tautwire.connect("mqtt://h"), tautwire.Client)
    assert_type(tautwire.start("mqtt://h"), tautwire.Client)


def waits() -> None:
    pack: tautwire.Codec[Any] = tautwire.msgpack()
    with blocking.connect("mqtt://h") as client:
        assert_type(client, blocking.Client)
        assert_type(client.publish("a", b"b", timeout=1.0), int)
        assert_type(client.enqueue("a").wait(), int)
        client.enqueue("a", 5)  # type: ignore[call-overload]
        client.request("a", 5)  # type: ignore[call-overload]
        for message in client.subscribe(["a", "b"]):
            assert_type(message, tautwire.Message)
        assert_type(client.subscribe(tautwire.Topic("a", pack)).next().value, Any)
