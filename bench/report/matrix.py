"""The round-trip matrix as tables: pairs of one kind, Tautwire and others by language, and all pairs by broker."""

from __future__ import annotations

import re
from html import escape

from metrics import CLIENTS
from results import Result, title_of
from tables import by_placement, cell, table

# They run only with servers of their own kind: with Nagle's algorithm if the library leaves it on, or with TCP_NODELAY forced.
ABOUT_NODELAY = {
    "python-nagle": "Python, paho, as it comes", "c-paho-nodelay": "C, paho, with TCP_NODELAY",
    "java": "Java, paho, with TCP_NODELAY", "java-nagle": "Java, paho, as it comes",
}
QOS = (0, 1, 2)


def render(result: Result) -> str:
    return by_placement(result, lambda placement: _floor(result, placement) + _even(result, placement) + _mixed(result, placement))


def _floor(result: Result, placement: str) -> str:
    names = [name for name in result.metrics(placement) if re.match(r"\w+_(tcp|udp|relay)_beside_qos0_p50_us$", name)]
    body = ""
    for name in names:
        language, protocol = name.split("_")[:2]
        way = {"tcp": "TCP", "udp": "UDP", "relay": "TCP by way of a relay, two hops"}[protocol]
        rate = name.replace("p50_us", "round_trips_per_s")
        body += (f"<tr><td>{escape(CLIENTS.get(language, language).partition(',')[0])}, {way}</td>"
                 f"{cell(result, placement, 'raw', name)}{cell(result, placement, 'raw', rate)}</tr>")
    return table(("bare sockets", "median", "round trips"), body) if body else ""


def _even(result: Result, placement: str) -> str:
    """A row for each client with a server of its kind, a column for each broker and QoS, with the share of raw TCP's rate."""
    brokers = [broker for broker in result.brokers(placement) if broker != "raw"]
    head = ("client and server", *(f"{title_of(broker)}, QoS {qos}" for qos in QOS for broker in brokers))
    body = ""
    for client, title in (CLIENTS | ABOUT_NODELAY).items():
        cells = ""
        for qos in QOS:
            found = {broker: figure.median for broker in brokers
                     if (figure := result.figure(placement, broker, f"{client}_to_{client}_qos{qos}_p50_us"))}
            best = min(found, key=found.__getitem__) if len(found) > 1 else None
            for broker in brokers:
                ratio = result.figure(placement, broker, f"{client}_to_{client}_qos{qos}_ratio_to_raw_tcp")
                part = f" ({ratio.median:.2f})" if ratio else ""
                cells += cell(result, placement, broker, f"{client}_to_{client}_qos{qos}_p50_us", broker == best, part)
        if cells.strip("<td>–/"):
            body += f"<tr><td>{escape(title)}</td>{cells}</tr>"
    return f"<p>Median time of an exchange; in brackets the rate as a part of that of raw TCP.</p>{table(head, body)}"


def _mixed(result: Result, placement: str) -> str:
    parts = ""
    for broker in (broker for broker in result.brokers(placement) if broker != "raw"):
        for qos in QOS:
            body = ""
            for client, title in CLIENTS.items():
                names = [f"{client}_to_{server}_qos{qos}_p50_us" for server in CLIENTS]
                if any(result.figure(placement, broker, name) for name in names):
                    body += f"<tr><td>{escape(title)}</td>{''.join(cell(result, placement, broker, name) for name in names)}</tr>"
            if body:
                pairs = table(("client, to server", *CLIENTS.values()), body)
                parts += f"<details><summary>All pairs through {escape(title_of(broker))}, QoS {qos}: median times</summary>{pairs}</details>"
    return parts
