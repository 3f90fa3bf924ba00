"""Functions and options that several verbs of the command line share."""
