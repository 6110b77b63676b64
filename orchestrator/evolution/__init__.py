"""The genetic algorithm on DEAP: pure, seeded, and ignorant of Celery (genetic_evolution_plan.md)."""
