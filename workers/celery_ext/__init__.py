"""What Whetstone adds to Celery's workers: admission, lease, heartbeat, pools and logs."""
