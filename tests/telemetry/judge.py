"""Checks whether a text is an OTLP message in JSON encoding, by the descriptors that OpenTelemetry publishes.

The encoding is that of Protocol Buffers with three differences: only lowerCamelCase names, enumerations as numbers, and the
identifiers of traces and spans in hexadecimal digits (OTLP specification, "JSON Protobuf Encoding").
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

REQUESTS: dict[str, type[Message]] = {
    "/v1/logs": ExportLogsServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/traces": ExportTraceServiceRequest,
}
WIDE = {
    FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64,
    FieldDescriptor.TYPE_SFIXED64, FieldDescriptor.TYPE_SINT64,
}
# Identifiers, with the number of digits.
IDENTIFIERS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}


class Wrong(Exception):
    """The text is not a valid message."""


def judge(path: str, text: str) -> Message:
    """Returns the message in a request to `path`."""
    document = json.loads(text, object_pairs_hook=without_repetition)
    message = REQUESTS[path]()
    translated = translate(document, message.DESCRIPTOR, "")
    json_format.ParseDict(translated, message, ignore_unknown_fields=False)
    return message


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Wrong(f"a duplicate name in {[name for name, _ in pairs]}")
    return members


def translate(value: Any, descriptor: Descriptor, place: str) -> dict[str, Any]:
    """Converts it to the JSON of Protocol Buffers, if it is valid."""
    if not isinstance(value, dict):
        raise Wrong(f"{place} is not an object")
    fields = {field.json_name: field for field in descriptor.fields}
    unknown = value.keys() - fields.keys()
    if unknown:
        raise Wrong(f"{place} has {sorted(unknown)}, which {descriptor.full_name} does not have")
    return {name: translate_field(item, fields[name], f"{place}.{name}") for name, item in value.items()}


def translate_field(value: Any, field: FieldDescriptor, place: str) -> Any:
    if not field.is_repeated:
        return translate_one(value, field, place)
    if not isinstance(value, list):
        raise Wrong(f"{place} is not a list")
    return [translate_one(item, field, f"{place}[{at}]") for at, item in enumerate(value)]


def translate_one(value: Any, field: FieldDescriptor, place: str) -> Any:
    if field.message_type is not None:
        return translate(value, field.message_type, place)
    digits = IDENTIFIERS.get(field.json_name)
    if digits is not None:
        if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-f]{{{digits}}}", value) or set(value) == {"0"}:
            raise Wrong(f"{place} is {value!r}, not an identifier of {digits} hexadecimal digits")
        return base64.b64encode(bytes.fromhex(value)).decode()
    if field.type in WIDE and not (isinstance(value, str) and re.fullmatch(r"-?(0|[1-9][0-9]*)", value)):
        raise Wrong(f"{place} is {value!r}, not an integer as a string")
    if field.enum_type is not None and (not isinstance(value, int) or value not in field.enum_type.values_by_number):
        raise Wrong(f"{place} is {value!r}, not a number of {field.enum_type.full_name}")
    return value
