"""Helpers for cases: packets by keyword, and the file that collects the vectors."""

from encoder import encode

# Runs of one byte at least this long are written as {"repeat", "count"}.
RUN_BYTES = 64

# Fields with binary data, and fields with text that can be long.
BINARY_FIELDS = ("payload", "password")
TEXT_FIELDS = ("topic", "client_id", "user_name", "filter")


def properties(*items):
    return [{"name": name, "value": value} for name, value in items]


def connect(client_id="c", *items, clean_start=True, keep_alive_s=60, will=None, user_name=None, password=None):
    return {
        "type": "connect",
        "clean_start": clean_start,
        "keep_alive_s": keep_alive_s,
        "client_id": client_id,
        "will": will,
        "user_name": user_name,
        "password": password,
        "properties": properties(*items),
    }


def will(topic="w", payload=b"bye", *items, qos=0, retain=False):
    return {"topic": topic, "payload": payload, "qos": qos, "retain": retain, "properties": properties(*items)}


def connack(reason=0, *items, session_present=False):
    return {"type": "connack", "session_present": session_present, "reason": reason, "properties": properties(*items)}


def publish(topic="t", payload=b"hi", *items, qos=0, packet_id=None, dup=False, retain=False):
    if qos and packet_id is None:
        packet_id = 1
    return {
        "type": "publish",
        "dup": dup,
        "qos": qos,
        "retain": retain,
        "packet_id": packet_id,
        "topic": topic,
        "properties": properties(*items),
        "payload": payload,
    }


def ack(kind, packet_id=1, reason=0, *items):
    return {"type": kind, "packet_id": packet_id, "reason": reason, "properties": properties(*items)}


def request(topic_filter, qos=0, no_local=False, retain_as_published=False, retain_handling=0):
    return {
        "filter": topic_filter,
        "qos": qos,
        "no_local": no_local,
        "retain_as_published": retain_as_published,
        "retain_handling": retain_handling,
    }


def subscribe(*requests, packet_id=1, items=()):
    return {"type": "subscribe", "packet_id": packet_id, "properties": properties(*items), "requests": list(requests)}


def unsubscribe(*filters, packet_id=1, items=()):
    return {"type": "unsubscribe", "packet_id": packet_id, "properties": properties(*items), "filters": list(filters)}


def suback(*reasons, packet_id=1, items=()):
    return {"type": "suback", "packet_id": packet_id, "properties": properties(*items), "reasons": list(reasons)}


def unsuback(*reasons, packet_id=1, items=()):
    return {"type": "unsuback", "packet_id": packet_id, "properties": properties(*items), "reasons": list(reasons)}


def disconnect(reason=0, *items):
    return {"type": "disconnect", "reason": reason, "properties": properties(*items)}


def auth(reason=0, *items):
    return {"type": "auth", "reason": reason, "properties": properties(*items)}


class VectorFile:
    """One file under `mqtt/`."""

    def __init__(self, name):
        self.name = name
        self.notes = {}
        self.vectors = []

    def note(self, flag, description, statement=None, effect=None):
        """Explains a flag: its meaning, its statement, and the effect on a codec that ignores it."""
        self.notes[flag] = {"description": description, "statement": statement, "effect": effect}

    def valid(self, id, comment, version, packet, *, data=None, encode_too=True, **rest):
        """Checks that `data` written by hand encodes the packet; with `encode_too`, that the encoder writes the same bytes."""
        canonical = encode(packet, version)
        data = canonical if data is None else data
        if encode_too:
            assert data == canonical, f"{id}: {data.hex()} != {canonical.hex()}"
        else:
            assert data != canonical and len(data) >= len(canonical), f"{id}: this is the canonical form"
        self._add(id, comment, version, data, "valid", encode=encode_too, packet=packet, **rest)

    def malformed(self, id, comment, version, data, **rest):
        self._add(id, comment, version, data, "malformed", reason=0x81, **rest)

    def protocol_error(self, id, comment, version, data, reason=0x82, **rest):
        self._add(id, comment, version, data, "protocol_error", reason=reason, **rest)

    def too_large(self, id, comment, version, data, max_packet_size, **rest):
        self._add(id, comment, version, data, "too_large", reason=0x95, max_packet_size=max_packet_size, **rest)

    def incomplete(self, id, comment, version, data, **rest):
        self._add(id, comment, version, data, "incomplete", **rest)

    def _add(
        self,
        id,
        comment,
        version,
        data,
        result,
        *,
        reason=None,
        flags=(),
        statement=None,
        rest=None,
        max_packet_size=None,
        encode=None,
        packet=None,
    ):
        for flag in flags:
            assert flag in self.notes, f"{id}: flag {flag} has no note"
        vector = {"id": id, "comment": comment, "version": version, **hex_field("hex", "hex_parts", data)}
        if rest is not None:
            vector["rest_hex"] = rest.hex()
        if max_packet_size is not None:
            vector["max_packet_size"] = max_packet_size
        vector["result"] = result
        if reason is not None:
            vector["reason"] = reason
        vector["flags"] = list(flags)
        vector["statement"] = None if statement is None else "MQTT-" + statement
        if packet is not None:
            vector["encode"] = encode
            vector["packet"] = packet_json(packet)
        self.vectors.append(vector)

    def document(self):
        for flag in self.notes:
            assert any(flag in v["flags"] for v in self.vectors), f"{self.name}: note {flag} is not used"
        return {"schema": "../schema/mqtt.schema.json", "notes": self.notes, "vectors": self.vectors}


def packet_json(packet):
    """Returns the packet in the format of the file."""
    out = {}
    for key, value in packet.items():
        if key == "properties":
            out[key] = [{"name": p["name"], "value": property_json(p["value"])} for p in value]
        elif key == "will" and value is not None:
            out[key] = packet_json(value)
        elif key == "requests":
            out[key] = [packet_json(r) for r in value]
        elif key == "filters":
            out[key] = [text_json(f) for f in value]
        elif key in BINARY_FIELDS:
            out.update({key + "_hex": None} if value is None else hex_field(key + "_hex", key + "_parts", value))
        elif key in TEXT_FIELDS and value is not None and is_long(value.encode()):
            out[key + "_parts"] = parts(value.encode())
        else:
            out[key] = value
    return out


def property_json(value):
    if isinstance(value, bytes):
        return {"parts": parts(value)} if is_long(value) else {"hex": value.hex()}
    if isinstance(value, tuple):
        assert not any(is_long(v.encode()) for v in value), "a pair has no long form"
        return list(value)
    return text_json(value) if isinstance(value, str) else value


def text_json(value):
    return {"parts": parts(value.encode())} if is_long(value.encode()) else value


def hex_field(plain, in_parts, data):
    return {in_parts: parts(data)} if is_long(data) else {plain: data.hex()}


def is_long(data):
    return len(data) >= RUN_BYTES and any("repeat" in p for p in parts(data))


def parts(data):
    """Splits bytes into long runs of one byte and the bytes between them."""
    out = []
    plain = bytearray()
    at = 0
    while at < len(data):
        run = run_length(data, at)
        if run < RUN_BYTES:
            plain += data[at : at + run]
        else:
            if plain:
                out.append({"hex": plain.hex()})
                plain = bytearray()
            out.append({"repeat": data[at : at + 1].hex(), "count": run})
        at += run
    if plain:
        out.append({"hex": plain.hex()})
    return out


def run_length(data, start):
    byte = data[start : start + 1]
    stripped = data[start : start + RUN_BYTES]
    if stripped != byte * len(stripped):
        return len(stripped) - len(stripped.lstrip(byte))
    return len(data) - start - len(data[start:].lstrip(byte))
