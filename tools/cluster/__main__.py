"""A cluster to try on this machine: nats-servers and brokers on loopback, until Ctrl-C. `make cluster` runs it."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from processes import Stage, StageError, program, wait_until


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--servers", type=int, default=3, help="nats-servers")
    parser.add_argument("--folder", type=Path, help="where all of it is kept; without it, in a folder that goes away")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for all brokers")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="tautwire-cluster-"))
    # A signal while something is awaited ends it all in order.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with Stage(folder.resolve(), program("TAUTWIRE_NATS_SERVER"), program("TAUTWIRE")) as stage:
            print(f"starting {options.servers} nats-servers and {options.brokers} brokers in {folder}", flush=True)
            stage.start_servers(options.servers)
            stage.start_brokers(options.brokers, options.set)
            for broker in stage.brokers:
                wait_until(f"{broker.name} serves clients", broker.is_serving)
                print(f"{broker.name}  mqtt://{broker.mqtt}  dashboard http://{broker.admin}  token {broker.folder / 'token'}")
            first, last = stage.brokers[0], stage.brokers[-1]
            print("try, in two other terminals:")
            print(f"  tautwire sub -p {first.port} -q 1 'demo/#'")
            print(f"  tautwire pub -p {last.port} -q 1 demo/hello hi")
            print(f"  tautwire cluster status --admin http://{first.admin} --token-file {first.folder / 'token'}")
            print("Ctrl-C ends all of it", flush=True)
            processes = [*stage.brokers, *stage.servers]
            while any(process.is_running for process in processes):
                signal.sigtimedwait([], 1)
                for ended in [process for process in processes if not process.is_running]:
                    # What a cluster is for: the others go on.
                    print(f"{ended.name} has ended; its log is {ended.folder / 'log'}", flush=True)
                    processes.remove(ended)
            print("nothing is left", file=sys.stderr)
            return 1
    except StageError as error:
        print(f"make cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped")
        return 0
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
