"""Building a benchmark of the kind of RMGAP: four answers in four styles, and prompts that want one of them."""
