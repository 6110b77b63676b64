"""Who does the work: the Celery app, queues, limits, lease, the target server's life, the embedded engines."""
