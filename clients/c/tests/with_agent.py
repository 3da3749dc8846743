"""Tests a complete client when its server stops, restarts or refuses: `with_agent.py BINARY
SCENARIO README THERMOSTAT WEBSOCKET`."""

import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LISTENING = re.compile(r"listening on mqtt://(\S+):(\d+)")
PATIENCE_S = 60


class Broker:
    """A broker in memory that can be killed and restarted at the same port."""

    def __init__(self, binary: str) -> None:
        self.binary, self.port = binary, 0
        self.start()

    def start(self) -> None:
        command = [self.binary, "serve", "--memory", "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = next(int(found[2]) for line in self.process.stdout or [] if (found := LISTENING.search(line)))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE_S)


class Agent:
    """The agent of tests/scenario."""

    def __init__(self, program: str, address: str) -> None:
        self.process = subprocess.Popen([program, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.process.stdout or []:
            self.lines.put(line.rstrip("\n"))
        self.lines.put("(end)")

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def expect(self, wanted: str, passing_over: str = "") -> None:
        """Expects the next line, skipping those that start with `passing_over`."""
        line = self.lines.get(timeout=PATIENCE_S)
        while passing_over and line.startswith(passing_over):
            line = self.lines.get(timeout=PATIENCE_S)
        if line != wanted:
            raise AssertionError(f"expected {wanted!r}, not {line!r}")

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.expect("(end)")
        if self.process.wait(PATIENCE_S) != 0:
            raise AssertionError(f"exit {self.process.returncode}")


def a_restart_keeps_subscriptions_and_messages(binary: str, program: str) -> None:
    broker = Broker(binary)
    agent = Agent(program, f"mqtt://127.0.0.1:{broker.port}")
    try:
        agent.say("connect client=one attempts_ms=200")
        agent.expect("connected 0")
        agent.say("subscribe 1 a/#")
        agent.expect("subscribed a/# 1")
        broker.kill()
        agent.expect("disconnected connection_lost")
        agent.say("publish 1 a/b while away")
        broker.start()
        agent.expect("connected 0", passing_over="attempt unreachable")
        lines = sorted(agent.lines.get(timeout=PATIENCE_S) for _ in range(2))
        assert lines == ["message a/b 1 0 while away", "published while away 0x00"], lines
        agent.say("close")
        agent.expect("closed")
        agent.end()
    finally:
        agent.process.kill()
        broker.stop()


def failures_are_named(binary: str, program: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free_port = listener.getsockname()[1]
    for address, code in ((f"127.0.0.1:{free_port}", "unreachable"), ("no..name:1883", "name_not_found")):
        agent = Agent(program, f"mqtt://{address}")
        agent.say("connect")
        agent.expect(f"failed connect {code}")
        agent.end()
    broker = Broker(binary)
    address = f"mqtt://127.0.0.1:{broker.port}"
    first, second = Agent(program, address), Agent(program, address)
    try:
        for agent in (first, second):
            agent.say("connect client=same")
            agent.expect("connected 0")
        first.expect("ended session_taken_over 0x8e")
        first.say("publish 0 a b")
        first.expect("failed publish not_connected b")
        first.end()
        second.end()
    finally:
        first.process.kill()
        second.process.kill()
        broker.stop()


def commands_are_taken_while_it_connects(program: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        agent = Agent(program, f"mqtt://127.0.0.1:{silent.getsockname()[1]}")
        try:
            agent.say("connect client=one")
            connection, _ = silent.accept()
            with connection:
                agent.say("publish 0 a b")
                agent.expect("failed publish not_connected b")
                agent.say("close")
                agent.expect("closed")
                agent.say("connect client=two")
                agent.end()
        finally:
            agent.process.kill()


def requests_are_answered(binary: str, program: str) -> None:
    broker = Broker(binary)
    address = f"mqtt://127.0.0.1:{broker.port}"
    responder, requester = Agent(program, address), Agent(program, address)
    try:
        for agent, name in ((responder, "responder"), (requester, "requester")):
            agent.say(f"connect client={name} timeout_ms=500")
            agent.expect("connected 0")
        for duty in ("echo", "failure out of paper", "crash with a secret"):
            responder.say(f"respond service/{duty.split()[0]} {duty}")
            responder.expect(f"subscribed service/{duty.split()[0]} 1")
        for line, answer in (
            ("request 1 service/echo hello you", "response hello you"),
            ("request 0 service/echo hello", "response hello"),
            ("request 1 service/failure x", "failed request request_failed out of paper"),
            ("request 2 service/crash x", "failed request request_failed the responder failed"),
            ("request 1 nobody x", "failed request no_responder 0x10"),
            ("request 2 nobody x", "failed request no_responder 0x10"),
            ("request 0 nobody x", "failed request request_timeout"),
        ):
            requester.say(line)
            requester.expect(answer)
        responder.end()
        requester.end()
    finally:
        responder.process.kill()
        requester.process.kill()
        broker.stop()


@contextmanager
def server_that_refuses_subscriptions() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(PATIENCE_S)

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            client.settimeout(PATIENCE_S)
            client.recv(4096)
            client.sendall(b"\x20\x03\x00\x00\x00")
            subscribe = client.recv(4096)
            client.sendall(b"\x90\x04" + subscribe[2:4] + b"\x00\x87")
            while client.recv(4096):
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    thread.join(PATIENCE_S)
    listener.close()


def the_first_example_says_that_it_was_refused(readme: str) -> None:
    with server_that_refuses_subscriptions() as port:
        done = subprocess.run([readme, "127.0.0.1", str(port)], capture_output=True, text=True, timeout=PATIENCE_S)
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "(0x87) [subscribe_refused]" in said, f"exit {done.returncode}: {said}"


def the_thermostat_answers(binary: str, thermostat: str) -> None:
    broker = Broker(binary)
    place = [thermostat, "127.0.0.1", str(broker.port)]
    server = subprocess.Popen([*place, "serve", "2"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None and server.stdout.readline() == "serving\n"
        for degrees, answer, status in (("21.5", "heating", 0), ("300", "the hall can be heated to 5 to 30 degrees", 1)):
            done = subprocess.run([*place, "ask", degrees], capture_output=True, text=True, timeout=PATIENCE_S)
            assert (done.returncode, done.stdout.strip()) == (status, answer), f"{degrees}: {done}"
        assert server.wait(PATIENCE_S) == 0
        done = subprocess.run([*place, "ask", "20"], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 1 and "[no_responder]" in done.stderr, str(done)
    finally:
        server.kill()
        broker.stop()


def a_websocket_carries_it(binary: str, sensor: str) -> None:
    command = [binary, "serve", "--memory", "--listen", "ws://127.0.0.1:0/mqtt"]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        listening = re.compile(r"listening on ws://[^:]+:(\d+)/mqtt")
        port = next(found[1] for line in broker.stdout or [] if (found := listening.search(line)))
        done = subprocess.run([sensor, "127.0.0.1", port, "/mqtt"], capture_output=True, text=True, timeout=PATIENCE_S)
        assert (done.returncode, done.stdout) == (0, "acknowledged\n"), str(done)
        done = subprocess.run([sensor, "127.0.0.1", port, "/elsewhere"], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 1 and re.search(r"\(HTTP 4\d\d\) \[websocket_refused\]", done.stderr), str(done)
    finally:
        broker.send_signal(signal.SIGINT)
        broker.wait(PATIENCE_S)


def main() -> int:
    binary, program, readme, thermostat, websocket_sensor = sys.argv[1:]
    a_restart_keeps_subscriptions_and_messages(binary, program)
    failures_are_named(binary, program)
    commands_are_taken_while_it_connects(program)
    requests_are_answered(binary, program)
    the_first_example_says_that_it_was_refused(readme)
    the_thermostat_answers(binary, thermostat)
    a_websocket_carries_it(binary, websocket_sensor)
    print("agent with the broker: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
