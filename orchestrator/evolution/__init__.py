"""The genetic algorithm on DEAP: pure and seeded; it imports nothing of Celery or the store."""
