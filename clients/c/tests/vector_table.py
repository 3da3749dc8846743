"""Converts spec/vectors to C: `vector_table.py VECTORS_FOLDER OUTPUT.c`. See vectors.h for the
types."""

import json
import sys
from pathlib import Path
from typing import Any

VERSIONS = {"3.1": "TW_V3_1", "3.1.1": "TW_V3_1_1", "5.0": "TW_V5"}
TYPES = [
    "will", "connect", "connack", "publish", "puback", "pubrec", "pubrel", "pubcomp", "subscribe", "suback",
    "unsubscribe", "unsuback", "pingreq", "pingresp", "disconnect", "auth",
]
VERDICTS = {
    "valid": "TW_FAULT_NONE", "incomplete": "TW_FAULT_INCOMPLETE", "malformed": "TW_FAULT_MALFORMED",
    "protocol_error": "TW_FAULT_PROTOCOL_ERROR", "too_large": "TW_FAULT_TOO_LARGE",
}
NUMBERS = {
    "payload_format_indicator", "message_expiry_interval", "subscription_identifier", "session_expiry_interval",
    "server_keep_alive", "request_problem_information", "will_delay_interval", "request_response_information",
    "receive_maximum", "topic_alias_maximum", "topic_alias", "maximum_qos", "retain_available", "maximum_packet_size",
    "wildcard_subscription_available", "subscription_identifier_available", "shared_subscription_available",
}


class Table:
    """Collects bytes in one pool, and the lists that entries point to."""

    def __init__(self) -> None:
        self.pool = bytearray()
        self.places: dict[bytes, int] = {}
        self.arrays: list[str] = []

    def place(self, data: bytes) -> int:
        if data not in self.places:
            self.places[data] = len(self.pool)
            self.pool += data
        return self.places[data]

    def array(self, ctype: str, rows: list[str]) -> str:
        """Returns the initialiser of a pointer to the rows and their number."""
        if not rows:
            return "NULL, 0"
        name = f"a{len(self.arrays)}"
        self.arrays.append(f"static const {ctype} {name}[] = {{\n    " + ",\n    ".join(rows) + "\n};")
        return f"{name}, {len(rows)}"

    def blob(self, parts: list[tuple[bytes, int]] | None) -> str:
        if parts is None:
            return "{NULL, 0, false}"
        rows = [f"{{{self.place(data)}, {len(data)}, {count}}}" for data, count in parts if data]
        return f"{{{self.array('blob_part', rows)}, true}}"


def unpacked(parts: list[dict[str, Any]]) -> list[tuple[bytes, int]]:
    return [(bytes.fromhex(part.get("hex") or part["repeat"]), part.get("count", 1)) for part in parts]


def text(holder: dict[str, Any], key: str) -> list[tuple[bytes, int]] | None:
    """A text field, in full or in parts."""
    if f"{key}_parts" in holder:
        return unpacked(holder[f"{key}_parts"])
    value = holder.get(key)
    return None if value is None else [(value.encode("utf-8", "surrogatepass"), 1)]


def data(holder: dict[str, Any], key: str) -> list[tuple[bytes, int]] | None:
    """A binary field, in hex or in parts."""
    if f"{key}_parts" in holder:
        return unpacked(holder[f"{key}_parts"])
    value = holder.get("hex" if key == "hex" else f"{key}_hex")
    return None if value is None else [(bytes.fromhex(value), 1)]


def value_of(value: Any) -> list[tuple[bytes, int]]:
    if isinstance(value, dict):
        return unpacked(value["parts"]) if "parts" in value else [(bytes.fromhex(value["hex"]), 1)]
    return [(value.encode(), 1)]


def properties(table: Table, listed: list[dict[str, Any]]) -> str:
    rows = []
    for entry in listed:
        name, value = entry["name"], entry["value"]
        number, key, content = 0, None, None
        if name in NUMBERS:
            number = value
        elif name == "user_property":
            key, content = value_of(value[0]), value_of(value[1])
        else:
            content = value_of(value)
        rows.append(f"{{TW_{name.upper()}, {number}u, {table.blob(key)}, {table.blob(content)}}}")
    return table.array("vector_property", rows)


def flag(holder: dict[str, Any], key: str) -> str:
    return "true" if holder.get(key) else "false"


def requests(table: Table, packet: dict[str, Any]) -> str:
    rows = []
    for entry in packet.get("requests", []):
        rows.append(
            f"{{{table.blob(text(entry, 'filter'))}, {entry['qos']}, {flag(entry, 'no_local')}, "
            f"{flag(entry, 'retain_as_published')}, {entry['retain_handling']}}}"
        )
    for entry in packet.get("filters", []):
        rows.append(f"{{{table.blob(value_of(entry))}, 0, false, false, 0}}")
    return table.array("vector_request", rows)


def fields(table: Table, packet: dict[str, Any]) -> str:
    will = packet.get("will")
    reasons = bytes(packet.get("reasons", []))
    nested = "NULL"
    if will is not None:
        nested = table.array("vector_packet", [fields(table, {"type": "will", **will})]).partition(",")[0]
    return (
        f"{{{TYPES.index(packet['type'])}, {packet.get('packet_id') or 0}, {packet.get('reason') or 0}, "
        f"{packet.get('qos') or 0}, {packet.get('keep_alive_s') or 0}, {flag(packet, 'clean_start')}, "
        f"{flag(packet, 'session_present')}, {flag(packet, 'dup')}, {flag(packet, 'retain')},\n     "
        f"{table.blob(text(packet, 'topic'))}, {table.blob(data(packet, 'payload'))}, "
        f"{table.blob(text(packet, 'client_id'))}, {table.blob(text(packet, 'user_name'))}, "
        f"{table.blob(data(packet, 'password'))},\n     {table.blob([(reasons, 1)])}, "
        f"{properties(table, packet.get('properties', []))}, {requests(table, packet)}, {nested}}}"
    )


def packet_vectors(table: Table, folder: Path) -> str:
    rows = []
    for path in sorted((folder / "mqtt").glob("*.json")):
        for vector in json.loads(path.read_text())["vectors"]:
            packet = "NULL"
            if vector["result"] == "valid":
                packet = table.array("vector_packet", [fields(table, vector["packet"])]).partition(",")[0]
            rest = vector.get("rest_hex")
            rows.append(
                f"{{\"{vector['id']}\", {VERSIONS[vector['version']]}, {table.blob(data(vector, 'hex'))}, "
                f"{table.blob([(bytes.fromhex(rest), 1)] if rest else None)},\n     "
                f"{vector.get('max_packet_size', 'TW_MAX_PACKET_BYTES')}, {VERDICTS[vector['result']]}, "
                f"{vector.get('reason') or 0}, {flag(vector, 'encode')}, {packet}}}"
            )
    return table.array("vector", rows)


def topic_vectors(table: Table, path: Path, key: str) -> str:
    rows = []
    for vector in json.loads(path.read_text())["vectors"]:
        answer = vector["matches"] if "matches" in vector else vector["result"] == "valid"
        rows.append(
            f"{{\"{vector['id']}\", {table.blob(text(vector, key))}, {table.blob(text(vector, 'topic'))}, "
            f"{'true' if answer else 'false'}, \"{vector.get('cause') or 'ok'}\"}}"
        )
    return table.array("topic_vector", rows)


def main() -> int:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    table = Table()
    lists = {
        "vector PACKET": packet_vectors(table, folder),
        "topic_vector NAME": topic_vectors(table, folder / "topics/names.json", "topic"),
        "topic_vector FILTER": topic_vectors(table, folder / "topics/filters.json", "filter"),
        "topic_vector MATCHING": topic_vectors(table, folder / "topics/matching.json", "filter"),
    }
    lines = ['#include "vectors.h"', "", "const uint8_t VECTOR_POOL[] = {"]
    for at in range(0, len(table.pool), 32):
        lines.append("    " + ",".join(str(byte) for byte in table.pool[at : at + 32]) + ",")
    lines += ["};", "", *table.arrays, ""]
    for name, initialiser in lists.items():
        ctype, _, title = name.partition(" ")
        array, _, count = initialiser.partition(", ")
        lines.append(f"const {ctype} *const {title}_VECTORS = {array};")
        lines.append(f"const size_t {title}_VECTOR_COUNT = {count};")
    out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
