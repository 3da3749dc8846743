"""Runs commands with a broker: `with_broker.py BINARY COMMAND…`.

HOST and PORT in the command are replaced by those of the broker; if they are missing, they are
appended.
"""

import re
import signal
import subprocess
import sys

LISTENING = re.compile(r"listening on mqtt://(\S+):(\d+)")


def main() -> int:
    binary, *command = sys.argv[1:]
    broker = subprocess.Popen([binary, "serve", "--memory", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    try:
        for line in broker.stdout or []:
            if found := LISTENING.search(line):
                if "HOST" not in command:
                    command += ["HOST", "PORT"]
                place = {"HOST": found[1], "PORT": found[2]}
                return subprocess.run([place.get(word, word) for word in command], timeout=600).returncode
        print(f"{binary} did not start", file=sys.stderr)
        return 1
    finally:
        broker.send_signal(signal.SIGINT)
        broker.wait(10)


if __name__ == "__main__":
    sys.exit(main())
