"""The participants of a history: our clients, paho-mqtt and MQTT.js, each with a persistent session."""

from __future__ import annotations

# The topics of publishers, by QoS. Movers publish on topics of their own, without subscribers.
ALL_TOPICS = "t/#"
GROUP = f"$share/group/{ALL_TOPICS}"
KEPT_TOPICS = "k/#"
# Topics with this prefix are acknowledged at `memory`: messages may be lost, but everything else holds for
# them, too.
EARLY_TOPICS = "t/early/"


def _keeper(who: str, version: int, home: int, moves_s: float) -> dict:
    topics = [[f"k/{who}/{qos}", qos] for qos in (1, 2)]
    return {"who": who, "role": "keeper", "version": version, "home": home, "topics": topics, "window": 1, "rate": 10, "moves_s": moves_s}


def _mortal(who: str, version: int, home: int, qos: int, **more: object) -> dict:
    return {"who": who, "role": "mortal", "version": version, "home": home, "topic": f"t/will/{who}", "will_qos": qos, "stays_s": 2.0, **more}


def _publisher(who: str, version: int, home: int, window: int, rate: int, start: str = "t/", **more: object) -> dict:
    topics = [[f"{start}{who}/{qos}", qos] for qos in (1, 2)]
    return {"who": who, "role": "publisher", "version": version, "home": home, "topics": topics, "window": window, "rate": rate, **more}


def _subscriber(who: str, version: int, home: int, qos: int, role: str = "subscriber", **more: object) -> dict:
    return {"who": who, "role": role, "version": version, "home": home, "filter": ALL_TOPICS, "qos": qos, **more}


def _member(who: str, version: int, home: int, role: str = "subscriber", **more: object) -> dict:
    return _subscriber(who, version, home, 1, role, filter=GROUP, **more)


# By the program that runs them. `home` is the broker of the first connection.
CLIENTS: dict[str, list[dict]] = {
    "ours": [
        _publisher("ours-pub-5", 5, 0, window=8, rate=30),
        _publisher("ours-pub-3", 4, 1, window=8, rate=30),
        _publisher("ours-pub-wide", 5, 2, window=30, rate=40),
        _publisher("ours-pub-early", 5, 0, window=20, rate=40, start=EARLY_TOPICS),
        _publisher("ours-pub-moves", 5, 1, window=20, rate=40, moves_s=1.5),
        _subscriber("ours-all-5", 5, 1, qos=2, lag=3, receive_maximum=10),
        _subscriber("ours-all-3", 4, 2, qos=2),
        _subscriber("ours-all-qos1", 5, 0, qos=1, lag=8),
        _subscriber("mover-5", 5, 0, qos=2, role="mover", moves_s=1.2),
        _subscriber("mover-3", 4, 1, qos=1, role="mover", moves_s=3.0),
        _subscriber("fickle-5", 5, 2, qos=2, role="fickle", changes_s=1.0),
        _keeper("keeper-5", 5, 0, moves_s=2.0),
        _keeper("keeper-3", 4, 1, moves_s=5.0),
        {"who": "looker-5", "role": "looker", "version": 5, "home": 2, "filter": KEPT_TOPICS},
        {"who": "looker-3", "role": "looker", "version": 4, "home": 0, "filter": KEPT_TOPICS},
        _mortal("mortal-5", 5, 1, qos=2),
        _mortal("mortal-3", 4, 2, qos=1),
        _mortal("ghost-5", 5, 0, qos=2, delay_s=3),
        _member("member-5", 5, 0, lag=4, receive_maximum=10),
        _member("member-3", 4, 1),
        _member("member-moves", 5, 2, role="mover", moves_s=2.5),
    ],
    "paho": [
        _publisher("paho-pub-5", 5, 1, window=10, rate=20),
        _publisher("paho-pub-3", 4, 2, window=10, rate=20),
        _subscriber("paho-all-5", 5, 2, qos=2),
        _subscriber("paho-all-3", 4, 0, qos=1),
    ],
    "mqttjs": [
        _publisher("js-pub-5", 5, 2, window=10, rate=20),
        _subscriber("js-all-5", 5, 0, qos=2),
        _subscriber("js-all-3", 4, 1, qos=1),
    ],
}
_ALL = [each for program in CLIENTS.values() for each in program]
EVERYBODY = [each["who"] for each in _ALL]
SUBSCRIBERS = [each["who"] for each in _ALL if each.get("filter") in (ALL_TOPICS, GROUP)]
PUBLISHERS = [each["who"] for each in _ALL if "topics" in each]
LOOKERS = [each["who"] for each in _ALL if each["role"] == "looker"]
KEPT = [topic for each in _ALL if each["role"] == "keeper" for topic, _ in each["topics"]]
