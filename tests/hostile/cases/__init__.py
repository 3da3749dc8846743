"""The attacks, by their target."""

from . import acknowledged, admin, contracts, gauges, hogs, lists, outputs, packets, queues, rules, shared, stalls, storms, surveys, transit, wills

__all__ = ["acknowledged", "admin", "contracts", "gauges", "hogs", "lists", "outputs", "packets", "queues", "rules", "shared", "stalls", "storms", "surveys", "transit", "wills"]
