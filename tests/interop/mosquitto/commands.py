"""mosquitto_pub and mosquitto_sub as synchronous steps."""

from __future__ import annotations

import errno
import os
import pty
import queue
import re
import signal
import subprocess
import threading
import tty
from collections.abc import Iterator
from dataclasses import dataclass

from kit.driver import Context, Failure, expect

# The options for the TLS files, if the environment sets any.
_TLS_OPTIONS = {"TAUTWIRE_TLS_CA": "--cafile", "TAUTWIRE_TLS_CERT": "--cert", "TAUTWIRE_TLS_KEY": "--key"}
TLS_FLAGS = [word for name, option in _TLS_OPTIONS.items() if name in os.environ for word in (option, os.environ[name])]
VERSION_FLAGS = {3: ["-V", "mqttv311"], 5: ["-V", "mqttv5"]}

# A field separator that is in no topic, property or hexadecimal payload used here.
_FIELDS = "\t".join(["MESSAGE", "%t", "%q", "%r", "%x"])
_V5_FIELDS = "\t".join(["%P", "%C", "%D", "%E", "%R", "%S"])


@dataclass
class Message:
    topic: str
    qos: int
    retain: bool
    payload: bytes
    user_properties: str = ""
    content_type: str = ""
    correlation_data: str = ""
    expiry_s: str = ""
    response_topic: str = ""
    subscription_identifiers: str = ""


class Subscriber:
    """A running mosquitto_sub that is connected and, by default, subscribed."""

    def __init__(self, context: Context, version: int, *filters: str, qos: int = 0, client_id: str = "",
                 options: list[str] | None = None) -> None:
        self.context = context
        self.granted: list[int] = []
        self._version = version
        self._messages: queue.Queue[Message] = queue.Queue()
        self._events: queue.Queue[str] = queue.Queue()
        command = ["mosquitto_sub", "-h", context.host, "-p", str(context.port), *TLS_FLAGS, *VERSION_FLAGS[version],
                   "-d", "-q", str(qos), "-F", f"{_FIELDS}\t{_V5_FIELDS}" if version == 5 else _FIELDS]
        if client_id:
            command += ["-i", client_id]
        for topic_filter in filters:
            command += ["-t", topic_filter]
        # With a pipe the command would write only when its buffer is full; with a terminal it writes line by line.
        self._terminal, write_end = pty.openpty()
        tty.setraw(write_end)
        self._process = subprocess.Popen(command + (options or []), stdout=write_end, stderr=write_end)
        os.close(write_end)
        context.cleanup.callback(self.kill)
        threading.Thread(target=self._read, daemon=True).start()
        line = self.await_line(r"^Subscribed \(mid: \d+\): ")
        self.granted = [int(code) for code in line.split(": ")[-1].split(", ")]
        expect(all(code <= 2 for code in self.granted), f"subscription refused: {line}")

    def await_line(self, pattern: str) -> str:
        """Returns the next matching line of debugging output, which the command writes for each packet."""
        seen: list[str] = []
        while True:
            try:
                line = self._events.get(timeout=self.context.remaining_s())
            except queue.Empty:
                raise Failure(f"mosquitto_sub wrote no line like {pattern!r}, but {seen}") from None
            if re.search(pattern, line):
                return line
            if line == "END OF OUTPUT":
                raise Failure(f"mosquitto_sub ended before a line like {pattern!r}: {seen}")
            seen.append(line)

    def receive(self) -> Message:
        try:
            return self._messages.get(timeout=self.context.remaining_s())
        except queue.Empty:
            raise Failure("a message did not arrive") from None

    def receive_many(self, count: int) -> list[Message]:
        messages: list[Message] = []
        for _ in range(count):
            try:
                messages.append(self.receive())
            except Failure as failure:
                raise Failure(f"{failure}: {len(messages)} of {count} so far") from None
        return messages

    def receive_until(self, payload: bytes) -> list[Message]:
        """Returns everything that arrives before the message with this payload: the fence, which is not returned."""
        messages: list[Message] = []
        while (message := self.receive()).payload != payload:
            messages.append(message)
        return messages

    def leave(self) -> None:
        """Ends the command by a signal that it answers with a DISCONNECT packet."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(self.context.remaining_s())

    def kill(self) -> None:
        """Ends the command like a crash: its connection closes without DISCONNECT."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        for line in self._lines():
            if line.startswith("MESSAGE\t"):
                _, topic, qos, retain, payload, *v5 = line.split("\t")
                self._messages.put(Message(topic, int(qos), retain == "1", bytes.fromhex(payload), *v5))
            else:
                self._events.put(line)
        self._events.put("END OF OUTPUT")

    def _lines(self) -> Iterator[str]:
        with open(self._terminal, encoding="utf-8", newline="\n") as output:
            try:
                for line in output:
                    yield line.removesuffix("\n")
            except OSError as error:
                # Linux reports an I/O error at the end of a terminal whose other side is closed.
                if error.errno != errno.EIO:
                    raise


def publish(context: Context, version: int, topic: str, payload: bytes | str, qos: int = 1, *,
            options: list[str] | None = None) -> None:
    """Publishes one message, and returns when its exchange is complete."""
    _publish(context, version, topic, qos, ["-s", *(options or [])], _bytes(payload))


def publish_lines(context: Context, version: int, topic: str, payloads: list[str], qos: int = 1, *,
                  options: list[str] | None = None) -> None:
    """Publishes many messages over one connection, one for each line of standard input."""
    _publish(context, version, topic, qos, ["-l", *(options or [])], "".join(f"{p}\n" for p in payloads).encode())


def delete_retained(context: Context, version: int, topic: str) -> None:
    _publish(context, version, topic, 1, ["-n", "-r"], b"")


def properties(command: str, **values: str | list[tuple[str, str]]) -> list[str]:
    """Returns the options for MQTT 5.0 properties of one packet, such as `properties("publish", content_type="text/plain")`."""
    options: list[str] = []
    for name, value in values.items():
        for part in [[value]] if isinstance(value, str) else value:
            options += ["-D", command, name.replace("_", "-"), *part]
    return options


def _publish(context: Context, version: int, topic: str, qos: int, options: list[str], standard_input: bytes) -> None:
    command = ["mosquitto_pub", "-h", context.host, "-p", str(context.port), *TLS_FLAGS, *VERSION_FLAGS[version],
               "-t", topic, "-q", str(qos), *options]
    try:
        done = subprocess.run(command, input=standard_input, capture_output=True, timeout=context.remaining_s())
    except subprocess.TimeoutExpired:
        raise Failure(f"mosquitto_pub did not end: {' '.join(command)}") from None
    expect(done.returncode == 0, f"mosquitto_pub: status {done.returncode}: {done.stderr.decode().strip()}")


def _bytes(payload: bytes | str) -> bytes:
    return payload.encode() if isinstance(payload, str) else payload
