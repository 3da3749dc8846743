"""A requester in one language, a responder in another: an answer, a failure, a crash, no responder, and a timeout."""

from stage import Stage

ROLES = 2


def play(stage: Stage) -> None:
    requesting, responding = stage.languages
    stage.relay.forward(stage.broker())
    responder, requester, impatient = (stage.player(language=each) for each in (responding, requesting, requesting))
    responder.does("connect", "connected 0")
    requester.does("connect", "connected 0")
    impatient.does("connect timeout_ms=300", "connected 0")
    responder.send("respond echo echo")
    responder.sees_like("subscribed echo [012]")
    responder.send("respond fail failure it is too late for that")
    responder.sees_like("subscribed fail [012]")
    responder.send("respond crash crash the password is secret")
    responder.sees_like("subscribed crash [012]")
    for qos in (0, 1, 2):
        requester.does(f"request {qos} echo words at {qos}", f"response words at {qos}")
        requester.does(f"request {qos} fail x", "failed request request_failed it is too late for that")
        requester.does(f"request {qos} crash x", "failed request request_failed the responder failed")
    requester.send(*(f"request 1 echo {number}" for number in range(20)))
    requester.sees_in_any_order(*(f"response {number}" for number in range(20)))
    for qos in (1, 2):
        requester.does(f"request {qos} nobody x", "failed request no_responder")
    impatient.does("request 0 nobody x", "failed request request_timeout")
    # A message without a response topic runs the responder, but has no response.
    requester.does("publish 1 crash plain", "published plain 0x00")
    requester.does("request 1 echo after", "response after")
    responder.does("close", "closed")
    requester.does("close", "closed")
