"""Kills a meter, a reader and the broker between them at random: `with_store.py BINARY AGENT METER
[SECONDS [SEED]]`.

Messages that the meter reported as safe arrive, QoS 2 once. The reader may see a message again only
if it was killed while it handled it, which was then its last output.
"""

import fcntl
import queue
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

LISTENING = re.compile(r"listening on mqtt://(\S+):(\d+)")
PATIENCE_S = 60
NUMBERS_PER_LIFE = 1_000_000


class Process:
    """A process that is killed and restarted. `lives` has the output lines of each run."""

    def __init__(self, *command: str, stderr: int | None = None) -> None:
        self.command, self.stderr = list(command), stderr
        self.lives: list[list[str]] = []
        self.lines: queue.Queue[str] = queue.Queue()

    def start(self, *more: str) -> None:
        self.process = subprocess.Popen([*self.command, *more], stdout=subprocess.PIPE, stderr=self.stderr, text=True)
        self.lives.append([])
        self.thread = threading.Thread(target=self.read, args=(self.process, self.lives[-1]))
        self.thread.start()

    def read(self, process: subprocess.Popen[str], life: list[str]) -> None:
        for line in process.stdout or []:
            life.append(line.rstrip("\n"))
            self.lines.put(line.rstrip("\n"))

    def kill(self) -> None:
        if self.process.poll() is not None:
            raise AssertionError(f"{self.command} exited unexpectedly: {self.process.returncode}")
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self.thread.join(PATIENCE_S)

    def await_line(self, pattern: re.Pattern[str]) -> re.Match[str]:
        while True:
            if found := pattern.match(self.lines.get(timeout=PATIENCE_S)):
                return found


class Broker(Process):
    """A broker on disk, always at the same port."""

    def __init__(self, binary: str, folder: Path) -> None:
        super().__init__(binary, "serve", "--set", f'data.path="{folder}"', "--listen", stderr=subprocess.DEVNULL)
        self.port = "0"
        self.run()

    def run(self) -> None:
        self.start(f"127.0.0.1:{self.port}")
        self.port = self.await_line(LISTENING)[2]


class World:
    def __init__(self, binary: str, agent: str, folder: Path) -> None:
        self.broker = Broker(binary, folder / "broker")
        place = [agent, "127.0.0.1", self.broker.port]
        self.meter = Process(*place, str(folder / "meter"))
        self.reader = Process(*place, str(folder / "reader"), "subscribe")
        self.reader.start()
        self.reader.await_line(re.compile("subscribed"))
        self.publish()

    def publish(self) -> None:
        self.meter.start("publish", str(1 + len(self.meter.lives) * NUMBERS_PER_LIFE))

    def kill_one(self, dice: random.Random) -> None:
        match dice.randrange(4):
            case 0:
                self.broker.kill()
                self.broker.run()
            case 1:
                self.reader.kill()
                self.reader.start()
            case 2:
                self.meter.kill()
                self.publish()
            case _:
                # All at once, like a power failure of all of them.
                for process in (self.meter, self.broker, self.reader):
                    process.kill()
                self.broker.run()
                self.reader.start()
                self.publish()

    def drain(self) -> None:
        self.meter.kill()
        self.meter.start("drain")
        if self.meter.process.wait(PATIENCE_S) != 0:
            raise AssertionError(f"drain: exit {self.meter.process.returncode}")

    def safe(self) -> set[int]:
        return {int(line.split()[1]) for life in self.meter.lives for line in life if line.startswith("safe ")}

    def await_arrival(self) -> None:
        missing = self.safe() - {number for life in self.arrived() for number in life}
        end = time.monotonic() + PATIENCE_S
        while missing:
            try:
                line = self.reader.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{len(missing)} messages are lost: {sorted(missing)[:10]}") from None
            if line.startswith("message "):
                missing.discard(int(line.split()[1]))

    def arrived(self) -> list[list[int]]:
        return [[int(line.split()[1]) for line in life if line.startswith("message ")] for life in self.reader.lives]

    def check_once(self) -> int:
        lives = self.arrived()
        in_hands = Counter(life[-1] for life in lives[:-1] if life)
        counts = Counter(number for life in lives for number in life)
        for number, count in counts.items():
            if number % 2 == 0 and count > 1 + in_hands[number]:
                raise AssertionError(f"QoS 2 message {number} came {count} times, {in_hands[number]} times in its hands")
        return len(counts)

    def end(self) -> None:
        for process in (self.meter, self.reader, self.broker):
            if process.process.poll() is None:
                process.kill()


def the_meter_sends_what_an_earlier_one_has_left(binary: str, meter: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        broker = Broker(binary, Path(name) / "broker")
        try:
            command = [meter, "127.0.0.1", broker.port, f"{name}/meter"]
            done = subprocess.run([*command, "3"], capture_output=True, text=True, timeout=PATIENCE_S)
            if (done.returncode, done.stdout) != (0, "all readings have arrived, 1 erases\n"):
                raise AssertionError(str(done))
            done = subprocess.run([*command, "0"], capture_output=True, text=True, timeout=PATIENCE_S)
            if (done.returncode, done.stdout) != (0, "all readings have arrived, 0 erases\n"):
                raise AssertionError(str(done))
        finally:
            broker.kill()


def a_file_is_used_by_one_and_never_taken_for_another(meter: str) -> None:
    def run(file: Path) -> subprocess.CompletedProcess[str]:
        command = [meter, "127.0.0.1", "1", str(file), "0"]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)

    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "meter"
        for wrong in (b"TWL1" + b"\xff" * 8188, b"\xff" * 4096 + b"TWL1" + b"\xff" * 4092, b"\xff" * 131073):
            file.write_bytes(wrong)
            done = run(file)
            if done.returncode != 1 or "[store_failed]" not in done.stderr or file.read_bytes() != wrong:
                raise AssertionError(f"{len(wrong)} bytes: {done}")
        # Cut off during its creation.
        file.write_bytes(b"\xff" * 1000)
        with file.open("r+b") as held:
            fcntl.lockf(held, fcntl.LOCK_EX)
            done = run(file)
            if done.returncode != 1 or "[store_failed]" not in done.stderr or file.stat().st_size != 1000:
                raise AssertionError(f"in use: {done}")
        done = run(file)
        if done.returncode != 0 or file.read_bytes() != b"\xff" * 131072:
            raise AssertionError(f"recreated: {done}")


def main() -> int:
    binary, agent, meter = sys.argv[1:4]
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 8
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else random.randrange(1_000_000)
    print(f"seed {seed}")
    a_file_is_used_by_one_and_never_taken_for_another(meter)
    the_meter_sends_what_an_earlier_one_has_left(binary, meter)
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        world = World(binary, agent, Path(name))
        try:
            end = time.monotonic() + seconds
            kills = 0
            while time.monotonic() < end:
                # The kills are random on purpose.
                time.sleep(dice.uniform(0.0, 0.3))
                world.kill_one(dice)
                kills += 1
            world.drain()
            world.await_arrival()
            count = world.check_once()
            print(f"{kills} kills, {len(world.safe())} messages safe, {count} arrived")
        finally:
            world.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
