"""Studies: the grids of runs behind figures and tables of the paper, drawn beside the paper's numbers."""
