"""Studies: the theorems, figures and tables of the sources, one package a source and one file a study."""
