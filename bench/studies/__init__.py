"""Simulations behind tables of the docs: they measure accuracy and coverage, not time, and take long."""
