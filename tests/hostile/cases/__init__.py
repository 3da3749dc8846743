"""The attacks, by what they aim at."""

from . import acknowledged, contracts, gauges, hogs, lists, outputs, packets, queues, stalls, storms, transit, wills

__all__ = ["acknowledged", "contracts", "gauges", "hogs", "lists", "outputs", "packets", "queues", "stalls", "storms", "transit", "wills"]
