"""Sends itself a message with the installed package, on threads and with asyncio: `uses.py ADDRESS`."""

import asyncio
import sys

import tautwire
from tautwire import blocking


def with_threads(address: str) -> None:
    with blocking.connect(address) as client, client.subscribe("demo/hello", qos=1) as messages:
        client.publish("demo/hello", "hi", qos=1)
        for message in messages:
            print(f"{message.topic}: {message.text}")
            break


async def with_asyncio(address: str) -> None:
    async with tautwire.connect(address) as client, client.subscribe("demo/hello", qos=1) as messages:
        await client.publish("demo/hello", "hi", qos=1)
        async for message in messages:
            print(f"{message.topic}: {message.text}")
            break


with_threads(sys.argv[1])
asyncio.run(with_asyncio(sys.argv[1]))
