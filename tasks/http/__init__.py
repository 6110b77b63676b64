"""HTTP as a client: connections, proxies, and requests whose replies are bounded."""
