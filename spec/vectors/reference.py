"""A plain, strict decoder that implements the table of results in README.md.

It is the check on the cases, not a codec to use: it favours a reader who compares it with the standard line by line.
The only thing it shares with the encoder is the tables.
"""

from encoder import ACKS, LEVELS, PACKET_TYPES, PROPERTIES, REASONS, RETURN_CODES

NAMES = {number: name for name, (number, _flags) in PACKET_TYPES.items()}
BY_IDENTIFIER = {row.identifier: name for name, row in PROPERTIES.items()}
REASON_OF_RETURN_CODE = {code: reason for reason, code in RETURN_CODES.items()}
NOT_ZERO = ("receive_maximum", "maximum_packet_size", "subscription_identifier")


class Refused(Exception):
    """A result other than valid."""

    def __init__(self, result, reason=None):
        super().__init__(result, reason)
        self.result = result
        self.reason = reason


def malformed():
    return Refused("malformed", 0x81)


def protocol_error(reason=0x82):
    return Refused("protocol_error", reason)


def decode(data, version, max_packet_size=None):
    """Returns the first packet in `data` and its length in bytes."""
    if not data:
        raise Refused("incomplete")
    kind = NAMES.get(data[0] >> 4)
    if kind is None or (kind == "auth" and version != "5.0"):
        raise malformed()
    flags = data[0] & 0x0F
    if kind == "publish":
        if flags & 0x06 == 0x06 or (flags & 0x08 and not flags & 0x06):
            raise malformed()
    elif flags != PACKET_TYPES[kind][1] and not (version == "3.1" and is_sent_again(kind, flags)):
        raise malformed()
    remaining_length, at = varint(data, 1, Refused("incomplete"))
    end = at + remaining_length
    if max_packet_size is not None and end > max_packet_size:
        raise Refused("too_large", 0x95)
    if end > len(data):
        raise Refused("incomplete")
    body = Body(data[at:end])
    packet = READERS[kind](kind, flags, body, version)
    if body.left():
        raise malformed()
    return packet, end


def is_sent_again(kind, flags):
    """3.1 also sets DUP on the other packets that it sends at QoS 1; later versions set it only on PUBLISH."""
    return kind in ("pubrel", "subscribe", "unsubscribe") and flags == 0b1010


def varint(data, at, when_short):
    value = 0
    for index in range(4):
        if at + index >= len(data):
            raise when_short
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            if index and byte == 0:
                raise malformed()
            return value, at + index + 1
    raise malformed()


class Body:
    """Reads fields one after the other; a missing byte is malformed."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def left(self):
        return len(self.data) - self.at

    def take(self, count):
        if self.left() < count:
            raise malformed()
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size):
        return int.from_bytes(self.take(size), "big")

    def varint(self):
        value, self.at = varint(self.data, self.at, malformed())
        return value

    def binary(self):
        return self.take(self.number(2))

    def text(self):
        try:
            value = self.binary().decode("utf-8")
        except UnicodeDecodeError:
            raise malformed() from None
        if "\0" in value:
            raise malformed()
        return value

    def pair(self):
        return (self.text(), self.text())

    def packet_id(self):
        value = self.number(2)
        if value == 0:
            raise protocol_error()
        return value

    def properties(self, owner, version):
        if version != "5.0":
            return []
        block = Body(self.take(self.varint()))
        found = []
        while block.left():
            name = BY_IDENTIFIER.get(block.varint())
            if name is None or owner not in PROPERTIES[name].packets:
                raise malformed()
            if owner not in PROPERTIES[name].repeatable and any(p["name"] == name for p in found):
                raise protocol_error()
            found.append({"name": name, "value": property_value(name, block)})
        names = {p["name"] for p in found}
        if "authentication_data" in names and "authentication_method" not in names:
            raise protocol_error()
        return found


def property_value(name, block):
    kind = PROPERTIES[name].kind
    if kind in ("text", "binary", "pair", "varint"):
        value = getattr(block, kind)()
    else:
        value = block.number({"bool": 1, "u16": 2, "u32": 4}[kind])
    if (kind == "bool" and value > 1) or (name in NOT_ZERO and value == 0):
        raise protocol_error()
    if name == "topic_alias" and value == 0:
        raise protocol_error(0x94)
    if name == "response_topic" and name_fault(value):
        raise protocol_error(0x90)
    return value


def read_connect(kind, _flags, body, _told):
    name, level = body.text(), body.number(1)
    known = {("MQIsdp", 3): "3.1", ("MQTT", 4): "3.1.1", ("MQTT", 5): "5.0"}
    version = known.get((name, level))
    if version is None:
        raise protocol_error(0x84)
    flags = body.number(1)
    has_will, will_qos, will_retain = bool(flags & 0x04), flags >> 3 & 3, bool(flags & 0x20)
    has_password, has_user_name = bool(flags & 0x40), bool(flags & 0x80)
    if flags & 1 or will_qos == 3 or (not has_will and (will_qos or will_retain)):
        raise malformed()
    if has_password and not has_user_name and version != "5.0":
        raise malformed()
    packet = {
        "type": kind,
        "clean_start": bool(flags & 0x02),
        "keep_alive_s": body.number(2),
        "properties": body.properties(kind, version),
        "client_id": body.text(),
        "will": None,
    }
    if has_will:
        will = {"qos": will_qos, "retain": will_retain, "properties": body.properties("will", version)}
        will["topic"] = body.text()
        if name_fault(will["topic"]):
            raise protocol_error(0x90)
        will["payload"] = body.binary()
        packet["will"] = will
    packet["user_name"] = body.text() if has_user_name else None
    packet["password"] = body.binary() if has_password else None
    return packet


def read_connack(kind, _flags, body, version):
    flags, code = body.number(1), body.number(1)
    if flags > 1:
        raise malformed()
    reason = legal(kind, code) if version == "5.0" else REASON_OF_RETURN_CODE.get(code)
    if reason is None or (flags and reason):
        raise protocol_error()
    properties = body.properties(kind, version)
    return {"type": kind, "session_present": bool(flags), "reason": reason, "properties": properties}


def read_publish(kind, flags, body, version):
    topic, qos = body.text(), flags >> 1 & 3
    packet = {"type": kind, "dup": bool(flags & 8), "qos": qos, "retain": bool(flags & 1), "topic": topic or None}
    packet["packet_id"] = body.packet_id() if qos else None
    packet["properties"] = body.properties(kind, version)
    if topic and name_fault(topic):
        raise protocol_error(0x90)
    if not topic and not any(p["name"] == "topic_alias" for p in packet["properties"]):
        raise protocol_error()
    packet["payload"] = body.take(body.left())
    return packet


def read_ack(kind, _flags, body, version):
    packet = {"type": kind, "packet_id": body.packet_id(), "reason": 0, "properties": []}
    if version == "5.0" and body.left():
        packet["reason"] = legal(kind, body.number(1))
        if body.left():
            packet["properties"] = body.properties(kind, version)
    return packet


def read_subscribe(kind, _flags, body, version):
    packet = {"type": kind, "packet_id": body.packet_id(), "properties": body.properties(kind, version), "requests": []}
    while body.left():
        topic_filter, options = body.text(), body.number(1)
        if filter_fault(topic_filter):
            raise protocol_error(0x8F)
        if options & (0xC0 if version == "5.0" else 0xFC) or (version != "5.0" and options == 3):
            raise malformed()
        request = {
            "filter": topic_filter,
            "qos": options & 3,
            "no_local": bool(options & 4),
            "retain_as_published": bool(options & 8),
            "retain_handling": options >> 4 & 3,
        }
        shared = topic_filter.startswith("$share/")
        if request["qos"] == 3 or request["retain_handling"] == 3 or (shared and request["no_local"]):
            raise protocol_error()
        packet["requests"].append(request)
    if not packet["requests"]:
        raise protocol_error()
    return packet


def read_unsubscribe(kind, _flags, body, version):
    packet = {"type": kind, "packet_id": body.packet_id(), "properties": body.properties(kind, version), "filters": []}
    while body.left():
        packet["filters"].append(body.text())
        if filter_fault(packet["filters"][-1]):
            raise protocol_error(0x8F)
    if not packet["filters"]:
        raise protocol_error()
    return packet


def read_sub_ack(kind, _flags, body, version):
    packet = {"type": kind, "packet_id": body.packet_id(), "properties": body.properties(kind, version), "reasons": []}
    if kind == "unsuback" and version != "5.0":
        return packet
    while body.left():
        code = legal(kind, body.number(1))
        if version != "5.0" and code not in (0, 1, 2, 0x80):
            raise protocol_error()
        packet["reasons"].append(code)
    if not packet["reasons"]:
        raise protocol_error()
    return packet


def read_ping(kind, _flags, _body, _version):
    return {"type": kind}


def read_disconnect(kind, _flags, body, version):
    packet = {"type": kind, "reason": 0, "properties": []}
    if version == "5.0" and body.left():
        packet["reason"] = legal(kind, body.number(1))
        if body.left():
            packet["properties"] = body.properties(kind, version)
    return packet


def read_auth(kind, _flags, body, version):
    packet = {"type": kind, "reason": 0, "properties": []}
    if body.left():
        packet["reason"] = legal(kind, body.number(1))
        packet["properties"] = body.properties(kind, version)
        has_method = any(p["name"] == "authentication_method" for p in packet["properties"])
        if not has_method and (packet["reason"] or packet["properties"]):
            raise protocol_error()
    return packet


def legal(kind, code):
    if code not in REASONS[kind]:
        raise protocol_error()
    return code


READERS = {
    "connect": read_connect,
    "connack": read_connack,
    "publish": read_publish,
    **dict.fromkeys(ACKS, read_ack),
    "subscribe": read_subscribe,
    "suback": read_sub_ack,
    "unsubscribe": read_unsubscribe,
    "unsuback": read_sub_ack,
    "pingreq": read_ping,
    "pingresp": read_ping,
    "disconnect": read_disconnect,
    "auth": read_auth,
}
assert set(LEVELS) == {"3.1", "3.1.1", "5.0"} and set(READERS) == set(PACKET_TYPES)


def name_fault(topic):
    """Returns why a string is not a topic name, or None. Section 4.7."""
    if not topic:
        return "topic_missing"
    if len(topic.encode()) > 65_535:
        return "field_too_long"
    if "\0" in topic:
        return "utf8_null"
    return "topic_wildcard" if "+" in topic or "#" in topic else None


def filter_fault(topic_filter):
    """Returns why a string is not a topic filter, or None. Sections 4.7 and 4.8.2."""
    if not topic_filter:
        return "topic_filter_empty"
    if len(topic_filter.encode()) > 65_535:
        return "field_too_long"
    if "\0" in topic_filter:
        return "utf8_null"
    if topic_filter.startswith("$share/"):
        group, slash, topic_filter = topic_filter[len("$share/") :].partition("/")
        if not group:
            return "share_name_invalid"
        if "+" in group or "#" in group:
            return "share_name_invalid"
        if not slash or not topic_filter:
            return "share_filter_missing"
    levels = topic_filter.split("/")
    if "#" in levels[:-1]:
        return "topic_filter_multi_level"
    if any(len(level) > 1 and ("+" in level or "#" in level) for level in levels):
        return "topic_filter_wildcard"
    return None


def share(topic_filter):
    """Returns (group, filter) of a valid shared subscription, or None."""
    if not topic_filter.startswith("$share/"):
        return None
    group, _, rest = topic_filter[len("$share/") :].partition("/")
    return group, rest


def matches(topic_filter, topic):
    """Returns whether the filter matches (section 4.7). Both are valid, the filter without a `$share` prefix."""
    if topic.startswith("$") and topic_filter[0] in "+#":
        return False
    levels = topic.split("/")
    wanted = topic_filter.split("/")
    for index, level in enumerate(wanted):
        if level == "#":
            return True
        if index >= len(levels) or level not in ("+", levels[index]):
            return False
    return len(wanted) == len(levels)
