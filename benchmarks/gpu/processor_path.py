"""The same steering as SGLang's own processors do it: what the plugin is measured against. Lives in the server."""

from __future__ import annotations

from whetstone_steering.processor import ClusterBias


class ProcessorPath(ClusterBias):
    """`ClusterBias` under a name that the plugin does not know, so that it takes the processors' path."""
