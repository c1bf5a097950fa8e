"""Reports: what was run and found becomes tables for the terminal and pages for the browser."""
