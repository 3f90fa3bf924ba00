"""Tables and plots in one self-contained HTML file."""
