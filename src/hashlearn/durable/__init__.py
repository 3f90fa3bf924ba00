"""Files that are whole or not there: written beside and renamed, locked, checked when they are read."""
