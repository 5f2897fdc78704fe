"""The compiler driver: parsing, pipelines, compilation, files of a compiled layer."""
