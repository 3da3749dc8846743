"""Runs commands against a broker of its own: `with_broker.py BINARY COMMAND…`.

In the command, HOST and PORT are replaced by those of the broker; if they are not there, they are put at its end.
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
