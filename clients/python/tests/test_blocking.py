"""The client for threads, signals and forks."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import unittest

from support import PATIENCE_S, WithBroker, free_port
from tautwire import JSON, MqttError, Topic, blocking

# Prints a line when it is about to wait, and another when it has been interrupted.
WAITS = """
import signal, sys
from tautwire import blocking

# It may be ignored if the tests run in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
client = blocking.connect(sys.argv[1])
subscription = client.subscribe("nothing")
try:
    print("waiting", flush=True)
    {wait}
except KeyboardInterrupt:
    print("interrupted", flush=True)
client.close()
"""

# The child prints its error; the parent continues normally.
FORKS = """
import os, sys
from tautwire import MqttError, blocking

client = blocking.connect(sys.argv[1])
subscription = client.subscribe("forks", qos=1)
child = os.fork()
if child == 0:
    codes = []
    for use in (lambda: client.publish("forks"), subscription.next, client.close, client.counters):
        try:
            use()
        except MqttError as error:
            codes.append(error.code)
    del client, subscription
    print(*codes, flush=True)
    os._exit(0)
os.waitpid(child, 0)
client.publish("forks", "x", qos=1)
print(subscription.next(timeout=20).text, flush=True)
client.close()
"""


class Blocking(WithBroker):
    def test_messages_of_each_qos(self):
        with blocking.connect(self.address) as client:
            received = client.subscribe(self.topic, qos=2)
            for qos in (0, 1, 2):
                self.assertEqual(client.publish(self.topic, f"at {qos}", qos=qos), 0)
            texts = []
            for message in received:
                texts.append(message.text)
                if len(texts) == 3:
                    break
            self.assertEqual(texts, ["at 0", "at 1", "at 2"])

    def test_leaving_a_loop_ends_the_subscription(self):
        with blocking.connect(self.address) as client:
            received = client.subscribe(self.topic, qos=1)
            client.publish(self.topic, qos=1)
            for _message in received:
                break
            self.assertEqual(client.publish(self.topic, qos=1), 0x10)
            with self.assertRaises(MqttError) as caught:
                received.next(timeout=PATIENCE_S)
            self.assertEqual(caught.exception.code, "unsubscribed")

    def test_timeouts(self):
        with blocking.connect(self.address) as client:
            with client.subscribe(self.topic) as received:
                # The remaining time may be negative.
                for timeout in (0.01, 0, -1, float("nan")):
                    with self.assertRaises(TimeoutError):
                        received.next(timeout=timeout)
        client = blocking.start(f"mqtt://127.0.0.1:{free_port()}")
        with self.assertRaises(TimeoutError):
            client.publish(self.topic, qos=1, timeout=0.01)
        with self.assertRaises(TimeoutError):
            client.connected(timeout=0.01)
        delivery = client.enqueue(self.topic, qos=1)
        with self.assertRaises(TimeoutError):
            delivery.wait(timeout=0.01)
        with self.assertRaises(TimeoutError):
            client.subscribe(self.topic, timeout=0.01)
        with self.assertRaises(MqttError) as caught:
            client.request(self.topic, timeout=0.01)
        self.assertEqual(caught.exception.code, "request_timeout")
        client.close()
        with self.assertRaises(MqttError) as caught:
            delivery.wait(timeout=PATIENCE_S)
        self.assertEqual(caught.exception.code, "closed")

    def test_each_waiting_thread_has_its_own_timeout(self):
        client = blocking.start(f"mqtt://127.0.0.1:{free_port()}")
        delivery = client.enqueue(self.topic, qos=1)
        waiting = threading.Event()

        def wait() -> None:
            waiting.set()
            with contextlib.suppress(MqttError):
                delivery.wait()

        thread = threading.Thread(target=wait)
        thread.start()
        waiting.wait(PATIENCE_S)
        with self.assertRaises(TimeoutError):
            delivery.wait(timeout=0.01)
        self.assertTrue(thread.is_alive())
        client.close()
        thread.join(PATIENCE_S)

    def test_threads_share_a_client(self):
        with blocking.connect(self.address) as client:
            received = client.subscribe(self.topic, qos=1)
            threads = [
                threading.Thread(target=lambda: [client.publish(self.topic, "x", qos=1) for _ in range(50)]) for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for _ in range(200):
                received.next(timeout=PATIENCE_S)
            for thread in threads:
                thread.join(PATIENCE_S)

    def test_a_refused_connection(self):
        with self.assertRaises(MqttError) as caught:
            blocking.connect(f"mqtt://127.0.0.1:{free_port()}")
        self.assertEqual(caught.exception.code, "unreachable")

    def test_typed_topics(self):
        reading = Topic("test/blocking/{id}", JSON)
        with blocking.connect(self.address) as client, client.subscribe(reading, qos=1) as received:
            client.publish(reading.at(id=7), [1, 2], qos=1)
            message = received.next(timeout=PATIENCE_S)
            self.assertEqual((message.params, message.value), ({"id": "7"}, [1, 2]))

    def test_events(self):
        with blocking.connect(self.address) as client:
            events = client.events()
            self.assertEqual(next(events).kind, "connected")
            client.close()
            self.assertEqual([event.kind for event in events], ["ended"])

    def test_events_start_at_the_call(self):
        with blocking.connect(self.address, client_id=self.topic) as client:
            events = client.events()
            with blocking.connect(self.address, client_id=self.topic):
                self.assertEqual(list(client.events())[-1].kind, "ended")
            self.assertEqual([event.kind for event in events], ["connected", "ended"])


class Processes(WithBroker):
    def test_ctrl_c_works_while_something_waits(self):
        for wait in ("subscription.next()", "next(iter(subscription))", "list(client.events())"):
            with self.subTest(wait), self.program(WAITS.format(wait=wait)) as process:
                self.assertEqual(process.stdout.readline(), "waiting\n")
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.communicate(timeout=PATIENCE_S)[0], "interrupted\n")
                self.assertEqual(process.returncode, 0)

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_a_forked_client_raises_an_error(self):
        with self.program(FORKS) as process:
            out, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(out, "forked forked forked forked\nx\n")
        self.assertEqual(process.returncode, 0)

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_a_forked_process_exits_silently(self):
        source = (
            "import os, sys, warnings; from tautwire import blocking; client = blocking.connect(sys.argv[1]); "
            # Python warns about forks in a process with threads.
            "warnings.simplefilter('ignore'); "
            # Destroyed during the shutdown, when nothing can be imported.
            "received = client.subscribe('x'); hold = lambda: received; os.fork() and (os.wait(), client.close())"
        )
        with self.program(source) as process:
            out, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((out, errors, process.returncode), ("", "", 0))

    def test_a_program_that_closes_nothing_exits(self):
        source = (
            "import sys; from tautwire import blocking; client = blocking.connect(sys.argv[1]); "
            "client.respond('x', lambda request: b''); print(client.request('x').payload)"
        )
        with self.program(source) as process:
            out, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((out, process.returncode), ("b''\n", 0))

    @contextlib.contextmanager
    def program(self, source):
        command = [sys.executable, "-c", source, self.address]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            yield process
        finally:
            # Also its children: one that hangs must not block the test.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


if __name__ == "__main__":
    unittest.main()
