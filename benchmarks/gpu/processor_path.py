"""The same steering on SGLang's own path for processors, for comparison with the plugin. Loaded in the server."""

from __future__ import annotations

from whetstone_steering.processor import ClusterBias


class ProcessorPath(ClusterBias):
    """`ClusterBias` under a name that the plugin does not know, so that SGLang's own path is used."""
