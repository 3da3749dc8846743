"""A publisher that tests kill: `publisher.py ADDRESS STORE TOPIC QOS FIRST`. It starts when it is connected and standard input has ended, and
prints each number before and after publishing it."""

import asyncio
import itertools
import sys

import tautwire

OPEN_AT_A_TIME = 40
"""The maximum number of messages in flight."""


async def main(address: str, store: str, topic: str, qos: int, first: int) -> None:
    client = tautwire.start(address, store=tautwire.FileStore(store), reconnect=(0.01, 0.05))
    await client.connected()
    print("connected", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    room = asyncio.Semaphore(OPEN_AT_A_TIME)

    async def publish(number: int) -> None:
        await client.publish(topic, str(number), qos=qos)
        say("acknowledged", number)
        room.release()

    publishing = set()
    for number in itertools.count(first):
        await room.acquire()
        # Printed before publishing, so that the next process does not reuse a published number.
        say("publishing", number)
        task = asyncio.ensure_future(publish(number))
        publishing.add(task)
        task.add_done_callback(lambda done: (publishing.discard(done), done.result()))


def say(what: str, number: int) -> None:
    print(what, number, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])))
