"""The endpoints, one file for each thing that a client can ask for."""
