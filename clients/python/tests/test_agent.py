"""The agent of the scenario prints what tests/scenario/README.md requires."""

import subprocess
import sys
import unittest

from support import PACKAGE, PATIENCE_S, WithBroker, free_port


class Agent(WithBroker):
    def start(self, address: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(PACKAGE / "scenario/agent.py"), address]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def says(self, process: "subprocess.Popen[str]", command: str, *lines: str) -> None:
        """Returns the output of a command, in any order."""
        if command:
            process.stdin.write(command + "\n")
        said = [process.stdout.readline().rstrip("\n") for _ in lines]
        self.assertEqual(sorted(said), sorted(lines))

    def test_a_session(self):
        agent = self.start(self.address)
        self.says(agent, "connect client=agent timeout_ms=20000", "connected 0")
        self.says(agent, "subscribe 1 a/#", "subscribed a/# 1")
        self.says(agent, "publish 2 a/b some words", "published some words 0x00", "message a/b 1 0 some words")
        self.says(agent, "publish 1 x/y nobody", "published nobody 0x10")
        self.says(agent, "unsubscribe a/#", "unsubscribed a/#")
        agent.stdin.write("subscribe 1 b/#/c\n")
        self.assertRegex(agent.stdout.readline(), "^failed subscribe invalid_argument\n$")
        self.says(agent, "respond echo echo", "subscribed echo 2")
        self.says(agent, "request 1 echo hello you", "response hello you")
        self.says(agent, "respond fails failure no such lamp", "subscribed fails 2")
        self.says(agent, "request 1 fails x", "failed request request_failed no such lamp")
        self.says(agent, "respond crashes crash secret", "subscribed crashes 2")
        self.says(agent, "request 1 crashes x", "failed request request_failed the responder failed")
        self.says(agent, "request 1 none x", "failed request no_responder 0x10")
        self.says(agent, "close", "closed")
        agent.stdin.close()
        self.assertEqual(agent.wait(PATIENCE_S), 0)

    def test_a_closed_port(self):
        agent = self.start(f"mqtt://127.0.0.1:{free_port()}")
        self.says(agent, "connect", "failed connect unreachable")
        self.says(agent, "start attempts_ms=10", "attempt unreachable", "attempt unreachable")
        agent.stdin.close()
        agent.stdout.read()
        self.assertEqual(agent.wait(PATIENCE_S), 0)


if __name__ == "__main__":
    unittest.main()
