"""How `hpmoe run --check` judges right and broken runs of graphs with operators from outside."""
