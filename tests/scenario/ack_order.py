"""The order of acknowledgements on the network."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "mqtt"))

import wire  # noqa: E402

NAMES = {wire.PUBACK: "PUBACK", wire.PUBREC: "PUBREC"}


class Acknowledgements:
    """Reads both directions of one connection from its start."""

    def __init__(self) -> None:
        self._rest = {True: bytearray(), False: bytearray()}
        # The packet identifiers of the broker's messages, in order.
        self._sent: list[int] = []
        self._given: list[tuple[int, int]] = []

    def given(self) -> list[str]:
        """The acknowledgements sent by the client, in order: `PUBREC 2` acknowledges the second QoS 1 or 2 message."""
        return [f"{NAMES[kind]} {self._sent.index(packet_id) + 1}" for kind, packet_id in self._given]

    def passes(self, chunk: bytes, is_of_client: bool) -> None:
        rest = self._rest[is_of_client]
        rest += chunk
        while (packet := wire.take(rest)) is not None:
            if is_of_client and packet.type in NAMES:
                self._given.append((packet.type, packet.packet_id))
            elif not is_of_client and packet.type == wire.PUBLISH:
                # Only the identifier is needed, so the version does not matter.
                publish = wire.parse_publish(packet, version=4)
                if publish.qos > 0:
                    self._sent.append(publish.packet_id)
