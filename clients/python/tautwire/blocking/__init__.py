"""The client for threads: calls block until they are done, and subscriptions are iterators. Ctrl-C interrupts a blocked call.

```python
from tautwire import blocking

with blocking.connect("mqtt://localhost:1883") as client:
    client.publish("demo/hello", "hi", qos=1)
```
"""

from ..errors import MqttError, ResponseFailure
from ..events import Event
from .client import Client, Delivery, connect, start
from .requests import Responder
from .subscription import Subscription

__all__ = [
    "Client",
    "Delivery",
    "Event",
    "MqttError",
    "Responder",
    "ResponseFailure",
    "Subscription",
    "connect",
    "start",
]
