"""MQTT 5.0 and 3.1.1 for asyncio; `tautwire.blocking` is the same for threads.

```python
import asyncio
import tautwire

async def main() -> None:
    async with tautwire.connect("mqtt://localhost:1883") as client:
        await client.publish("demo/hello", "hi", qos=1)

asyncio.run(main())
```
"""

import os as _os

from . import _native
from ._native import Message
from .client import Client, ConnectContext, connect, start
from .codecs import BYTES, JSON, MSGPACK, TEXT, Codec, json, msgpack
from .errors import MqttError, ResponseFailure
from .events import Event
from .options import Authenticator, ConnectOptions, Credentials, FileStore, PublishOptions, SubscribeOptions, Tls, Will
from .requests import Responder
from .subscription import Subscription
from .topics import Address, Topic, TypedMessage

__all__ = [
    "BYTES",
    "JSON",
    "MSGPACK",
    "TEXT",
    "Address",
    "Authenticator",
    "Client",
    "Codec",
    "ConnectContext",
    "ConnectOptions",
    "Credentials",
    "Event",
    "FileStore",
    "Message",
    "MqttError",
    "PublishOptions",
    "Responder",
    "ResponseFailure",
    "SubscribeOptions",
    "Subscription",
    "Tls",
    "Topic",
    "TypedMessage",
    "Will",
    "connect",
    "json",
    "msgpack",
    "start",
]

# A client has threads, which a fork does not copy.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_native.after_fork_in_child)
