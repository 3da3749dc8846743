"""A cluster to try out on this machine: nats-servers and brokers on loopback, until Ctrl-C. `make cluster` runs it."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from processes import Broker, NatsServer, Process, Stage, StageError, program, wait_until


# Streams reserve their maximum size; the measurements do not fill them.
JETSTREAM_MAX = "max_file: 100GB"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--servers", type=int, default=3, help="nats-servers")
    parser.add_argument("--folder", type=Path, help="folder for all files; by default a temporary folder, which is deleted at the end")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting for all brokers")
    parser.add_argument("--mqtt", action="store_true", help="the nats-servers also speak MQTT")
    parser.add_argument("--describe", action="store_true", help="for programs: print one line of JSON with all processes and how to restart each")
    parser.add_argument("--spare", type=int, default=0, help="number of brokers that are described but not started")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="tautwire-cluster-"))
    # A signal during a wait shuts everything down in order.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with Stage(folder.resolve(), program("TAUTWIRE_NATS_SERVER"), program("TAUTWIRE")) as stage:
            if not options.describe:
                print(f"starting {options.servers} nats-servers and {options.brokers} brokers in {folder}", flush=True)
            stage.start_servers(options.servers, of_jetstream=JETSTREAM_MAX if options.describe else "", with_mqtt=options.mqtt)
            stage.start_brokers(options.brokers, options.set)
            for broker in stage.brokers:
                wait_until(f"{broker.name} serves clients", broker.is_serving)
            processes = [*stage.brokers, *stage.servers]
            if options.describe:
                spare = [stage.add_broker(options.set) for _ in range(options.spare)]
                print(json.dumps({"servers": [_server(each) for each in stage.servers],
                                  "brokers": [_broker(each) for each in processes[: options.brokers]],
                                  "spare": [_broker(each) for each in spare]}), flush=True)
                # The program that reads this line kills and restarts the processes; it must end the processes that it starts.
                while True:
                    signal.pause()
            _say_where(stage)
            while any(process.is_running for process in processes):
                signal.sigtimedwait([], 1)
                for ended in [process for process in processes if not process.is_running]:
                    # The point of a cluster: the other processes continue.
                    print(f"{ended.name} has ended; its log is {ended.folder / 'log'}", flush=True)
                    processes.remove(ended)
            print("all processes have ended", file=sys.stderr)
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


def _say_where(stage: Stage) -> None:
    for broker in stage.brokers:
        print(f"{broker.name}  mqtt://{broker.mqtt}  dashboard http://{broker.admin}  token {broker.folder / 'token'}")
    first, last = stage.brokers[0], stage.brokers[-1]
    print("try it in two other terminals:")
    print(f"  tautwire sub -p {first.port} -q 1 'demo/#'")
    print(f"  tautwire pub -p {last.port} -q 1 demo/hello hi")
    print(f"  tautwire cluster status --admin http://{first.admin} --token-file {first.folder / 'token'}")
    print("Ctrl-C stops everything", flush=True)


def _process(process: Process, mqtt: str) -> dict:
    return {"name": process.name, "pid": process.child.pid if process.child else None, "mqtt": mqtt or None,
            "folder": str(process.folder), "command": process.command}


def _server(server: NatsServer) -> dict:
    mqtt = f"{server.place.host}:{server.mqtt}" if server.mqtt else ""
    return {**_process(server, mqtt), "address": server.address, "monitor": server.monitor}


def _broker(broker: Broker) -> dict:
    # A broker that has not been started yet has its address in its command.
    mqtt = broker.mqtt or broker.command[broker.command.index("--listen") + 1]
    return {**_process(broker, mqtt), "admin": broker.admin, "token": broker.token}


sys.exit(main())
