"""The metrics of one scrape while they are collected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class MetricBuilder:
    """Makes the metrics, each with its help and labels in one place."""

    def __init__(self) -> None:
        self.made: dict[str, Metric] = {}

    def gauge(self, name: str, about: str, labels: Mapping[str, str], value: float) -> None:
        self._add(GaugeMetricFamily, name, about, labels, value)

    def counter(self, name: str, about: str, labels: Mapping[str, str], value: float) -> None:
        self._add(CounterMetricFamily, name, about, labels, value)

    def _add(self, kind: Any, name: str, about: str, labels: Mapping[str, str], value: float) -> None:
        metric = self.made.setdefault(name, kind(f"whetstone_{name}", about, labels=list(labels)))
        metric.add_metric(list(labels.values()), value)  # type: ignore[attr-defined]  # of both kinds
