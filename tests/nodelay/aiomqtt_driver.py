"""A driver on aiomqtt: `[--nagle] self HOST PORT QOS NAME`, as in bench/rtt/README.md."""

import asyncio
import socket
import sys
from time import perf_counter_ns

import aiomqtt

PAYLOAD_BYTES = 16
AT_ONCE = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]


async def main() -> None:
    arguments = sys.argv[1:]
    nagle = arguments[0] == "--nagle"
    task, host, port, qos, name = arguments[nagle:]
    if task != "self":
        sys.exit(f"unknown task: {task}")
    topic = f"self/{qos}/{name}"
    options = {} if nagle else {"socket_options": AT_ONCE}
    async with aiomqtt.Client(host, int(port), keepalive=0, **options) as client:
        await client.subscribe(topic, int(qos))
        print("ready", flush=True)
        commands = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        while line := await commands.readline():
            _, count, limit_ms = line.split()
            print(*await exchange(client, topic, int(qos), int(count), int(limit_ms)), flush=True)


async def exchange(client: aiomqtt.Client, topic: str, qos: int, count: int, limit_ms: int) -> list[int]:
    """Returns the nanoseconds from each message to its return."""
    times: list[int] = []
    end = perf_counter_ns() + limit_ms * 1_000_000
    while len(times) < count and perf_counter_ns() < end:
        payload = f"{len(times):0{PAYLOAD_BYTES}}".encode()
        sent = perf_counter_ns()
        await client.publish(topic, payload, qos)
        message = await anext(client.messages)
        if message.payload != payload:
            sys.exit("not the last message")
        times.append(perf_counter_ns() - sent)
    return times


asyncio.run(main())
