"""What Whetstone adds to Celery's workers: admission, the lease on messages, the heartbeat, a thread pool and logs."""
