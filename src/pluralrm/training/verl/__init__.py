"""Training at scale is verl's: what it needs is written here, and what it leaves behind is read (docs/verl.md)."""

from pluralrm.training.verl.export import Export, Exported, export, import_generations

__all__ = ["Export", "Exported", "export", "import_generations"]
