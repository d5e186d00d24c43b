"""What trainings have in common, whatever the algorithm: who is asked what, rewards, files, alarms, the Outcome."""
