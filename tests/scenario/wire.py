"""In which order messages are acknowledged, as the network sees it."""

from __future__ import annotations

PUBLISH, PUBACK, PUBREC = 3, 4, 5
NAMES = {PUBACK: "PUBACK", PUBREC: "PUBREC"}


class Acknowledgements:
    """Reads both directions of one connection from its start."""

    def __init__(self) -> None:
        self._rest = {True: bytearray(), False: bytearray()}
        # Packet identifiers of what the broker has sent, in its order.
        self._sent: list[int] = []
        self._given: list[tuple[int, int]] = []

    def given(self) -> list[str]:
        """What has left the client, in its order: `PUBREC 2` acknowledges the second message of QoS 1 or 2."""
        return [f"{NAMES[kind]} {self._sent.index(packet_id) + 1}" for kind, packet_id in self._given]

    def passes(self, chunk: bytes, is_of_client: bool) -> None:
        rest = self._rest[is_of_client]
        rest += chunk
        while (packet := _first(rest)) is not None:
            kind, qos = packet[0] >> 4, packet[0] >> 1 & 3
            body = packet[_header_bytes(packet) :]
            if is_of_client and kind in NAMES:
                self._given.append((kind, int.from_bytes(body[:2], "big")))
            elif not is_of_client and kind == PUBLISH and qos > 0:
                at = 2 + int.from_bytes(body[:2], "big")
                self._sent.append(int.from_bytes(body[at : at + 2], "big"))


def _first(stream: bytearray) -> bytes | None:
    """Takes the first packet off, if all of it is there."""
    header = _header_bytes(stream)
    if header == 0:
        return None
    length = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(stream[1:header]))
    if len(stream) < header + length:
        return None
    packet = bytes(stream[: header + length])
    del stream[: header + length]
    return packet


def _header_bytes(stream: bytes | bytearray) -> int:
    """The length of the fixed header; 0 if it is not all there."""
    return next((at + 1 for at, byte in enumerate(stream) if at > 0 and byte < 0x80), 0)
