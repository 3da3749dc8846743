"""The attacks, by what they aim at."""

from . import acknowledged, admin, contracts, gauges, hogs, lists, outputs, packets, queues, rules, shared, stalls, storms, surveys, transit, wills

__all__ = ["acknowledged", "admin", "contracts", "gauges", "hogs", "lists", "outputs", "packets", "queues", "rules", "shared", "stalls", "storms", "surveys", "transit", "wills"]
