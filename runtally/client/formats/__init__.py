"""Files of vendors and peers whose rows are no runs by their columns: one declaration for each kind of file."""
