"""A wrong port and an unknown name fail at once; `start` reports each attempt, and connects when there is a listener."""

from stage import Stage


def play(stage: Stage) -> None:
    refused = stage.player()
    refused.does("connect", "failed connect unreachable")

    unknown = stage.player("mqtt://nowhere.invalid:1883")
    unknown.does("connect", "failed connect name_not_found")

    patient = stage.player()
    patient.does("start attempts_ms=200", "attempt unreachable", "attempt unreachable")
    stage.relay.forward(stage.broker())
    patient.sees("connected 0")
    patient.does("subscribe 1 a", "subscribed a 1")
    patient.does("close", "closed")
